"""A case as an ONNX model: the generator of all that ONNX's runtimes are judged on.

A model is of one operator or of a few (`refnp.verify.frameworks.onnx_operators`), of the lowest opset that has them,
from 17 on. What a trained model stores are initializers (weights, gains, tables); all else is an input: activations,
masks, tokens, targets. ONNX has no gradients, and stores options in float32: `posed` is a case as it can be asked of a
model.
"""

import functools
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from refnp.numbers.precision import in_own_type, policy
from refnp.numbers.rounding import tolerance
from refnp.verify.bounds import rounding_of, upwards
from refnp.verify.case import Case, NotOfferedError, Problem
from refnp.verify.frameworks.onnx_operators import OPERATORS

OLDEST = 17  # the opset of models whose operators are in it
PARAMETERS = {"weight", "bias", "gain", "shift", "mean", "variance", "table"}  # of a layer that has one of MARKS
MARKS = {"weight", "gain", "table"}


def posed(problem: Problem) -> Problem:
    """The problem as a model can be asked it: its output alone, with options rounded to float32."""
    stored = rounded_options(problem.case)
    options = problem.case.options if stored is None else stored
    asked = Problem(
        replace(problem.case, options=options, gradients=(), cotangent=0.0), problem.dtype, problem.arrays, problem.rng
    )
    if stored is None:  # the equation is the same, and not evaluated twice
        known: dict[str, Any] = {
            name: problem.__dict__[name] for name in ("textbook", "blocked_bounds") if name in problem.__dict__
        }
        if "blocked_bounds" in known:
            known["blocked_bounds"] = {"output": known["blocked_bounds"]["output"]}
        asked.__dict__.update(known)
    return asked


def rounded_options(case: Case) -> dict[str, Any] | None:
    """The options of a case, and those that it leaves at what the operator's signature says, in float32.

    None if that changes nothing.
    """
    found = OPERATORS.get(case.layer.name)
    own = {} if found is None or isinstance(found, str) else inspect.signature(found).parameters
    given = {name: one.default for name, one in own.items() if type(one.default) is float} | dict(case.options)
    stored = {name: float(np.float32(value)) if type(value) is float else value for name, value in given.items()}
    changed = any(type(value) is float and value != stored[name] for name, value in given.items())
    return stored if changed else None


@dataclass(frozen=True, eq=False)
class Value:
    """What a node of a graph puts out, or an input: its name, and its shape as far as ONNX infers it."""

    graph: "Graph"
    name: str
    type: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.dim_value for axis in self.type.tensor_type.shape.dim)

    def __add__(self, other: "Value | float") -> "Value":
        return self.graph.add("Add", self, self.graph.value(other))

    def __sub__(self, other: "Value | float") -> "Value":
        return self.graph.add("Sub", self, self.graph.value(other))

    def __mul__(self, other: "Value | float") -> "Value":
        return self.graph.add("Mul", self, self.graph.value(other))

    def __truediv__(self, other: "Value | float") -> "Value":
        return self.graph.add("Div", self, self.graph.value(other))


class Graph:
    """A model under construction: `graph.Softmax(x, axis=-1)` adds a node, and returns what it puts out."""

    def __init__(self, dtype: DTypeLike):
        self.dtype = np.dtype(dtype)
        self.opset = OLDEST
        self.nodes: list[Any] = []
        self.inputs: dict[str, np.ndarray] = {}
        self.initializers: dict[str, Any] = {}
        self.constants: dict[tuple, Value] = {}

    def __getattr__(self, operator: str) -> Any:
        if operator.startswith("_"):
            raise AttributeError(operator)
        return functools.partial(self.add, operator)

    @property
    def beyond_numpy(self) -> bool:
        """Whether NumPy has no such type by itself, so that runtimes take and give float32 in its place."""
        return self.dtype.kind == "V"

    @property
    def precision(self) -> int:
        """ONNX's number for the precision of the graph."""
        import onnx

        return onnx.helper.np_dtype_to_tensor_dtype(self.dtype)

    def add(
        self, operator: str, *arguments: Value | None, since: int = 0, outputs: Sequence[str] = (), **attributes: Any
    ) -> Any:
        """Add a node, of an operator as it is since some opset; returns its output, or its named `outputs`.

        An argument that is None is left out, and so is an output without a name.
        """
        import onnx

        self.opset = max(self.opset, since or first_version(operator))
        if self.beyond_numpy:
            self.opset = max(self.opset, first_version(operator, self.dtype.name))
        number = len(self.nodes)
        names = [name and f"{name}_{number}" for name in outputs or ["y"]]
        given = [argument.name if argument is not None else "" for argument in arguments]
        while given and not given[-1]:
            given.pop()
        node = onnx.helper.make_node(operator, given, names, name=f"{operator}_{number}", **attributes)
        self.nodes.append(node)
        types = {argument.name: argument.type for argument in arguments if argument is not None}
        known = {name: self.initializers[name] for name in types if name in self.initializers}
        schema = onnx.defs.get_schema(operator, self.opset)
        opset = onnx.helper.make_opsetid("", self.opset)
        inferred = onnx.shape_inference.infer_node_outputs(schema, node, types, known, opset_imports=[opset])
        values = tuple(Value(self, name, inferred.get(name)) for name in names)
        return values if outputs else values[0]

    def given(self, name: str, array: ArrayLike) -> Value:
        """An input of the model, with the array that this case gives it; bfloat16 comes as float32 and is cast."""
        array = np.asarray(array)
        if name in self.inputs:  # two attentions have a mask each
            name = f"{name}_{len(self.inputs)}"
        cast = array.dtype == self.dtype and self.beyond_numpy
        self.inputs[name] = array.astype(np.float32) if cast else array
        value = Value(self, name, type_of(self.inputs[name]))
        return self.Cast(value, to=self.precision) if cast else value

    def stored(self, name: str, array: np.ndarray) -> Value:
        """An array that the model has in itself."""
        import onnx

        self.initializers[name] = onnx.numpy_helper.from_array(np.array(array, order="C"), name)
        return Value(self, name, type_of(array))

    def constant(self, value: ArrayLike, dtype: DTypeLike | None = None) -> Value:
        """A number or an array of the precision of the graph."""
        array = np.array(value, dtype or self.dtype)
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = self.stored(f"constant_{len(self.constants)}", array)
        return self.constants[key]

    def integers(self, value: ArrayLike) -> Value:
        """Axes, sizes and places."""
        return self.constant(value, np.int64)

    def value(self, given: Value | float) -> Value:
        """A value as it is, or a number as a constant."""
        return given if isinstance(given, Value) else self.constant(given)

    def reshaped(self, x: Value, *shape: int) -> Value:
        """The same numbers in another shape."""
        options: dict[str, Any] = {"allowzero": 1} if 0 in shape else {}  # without it, 0 is the length it had
        return self.add("Reshape", x, self.integers(shape), **options)

    def model(self, output: Value, shape: Sequence[int]) -> Any:
        """The ONNX model that puts out this value."""
        import onnx

        helper, given = onnx.helper, self.precision
        if self.beyond_numpy:
            given = onnx.TensorProto.FLOAT
            output = self.Cast(output, to=given)
        for node in self.nodes:
            node.output[:] = ["output" if name == output.name else name for name in node.output]
            node.input[:] = ["output" if name == output.name else name for name in node.input]
        graph = helper.make_graph(
            self.nodes,
            "case",
            [helper.make_value_info(name, type_of(array)) for name, array in self.inputs.items()],
            [helper.make_tensor_value_info("output", given, shape)],
            list(self.initializers.values()),
        )
        opset = helper.make_opsetid("", self.opset)
        return helper.make_model(
            graph, opset_imports=[opset], ir_version=helper.find_min_ir_version_for([opset]), producer_name="refnp"
        )


def type_of(array: np.ndarray) -> Any:
    """The type of an array in ONNX's words."""
    import onnx

    helper = onnx.helper
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


@functools.cache
def first_version(operator: str, kind: str = "") -> int:
    """The first opset with an operator, for numbers of a kind if one is named, whatever was changed in it since.

    NotOfferedError if it never was for these.
    """
    import onnx

    every = [s for s in onnx.defs.get_all_schemas_with_history() if s.name == operator and not s.domain]
    takes = lambda schema: any(f"tensor({kind})" in allowed.allowed_type_strs for allowed in schema.type_constraints)
    found = [schema.since_version for schema in every if not kind or takes(schema)]
    if not found:
        raise NotOfferedError(f"ONNX: {operator} takes no {kind}")
    return min(found)


def onnx_model(problem: Problem) -> tuple[Any, dict[str, np.ndarray]]:
    """The model of a problem that was `posed`, and its inputs by name.

    NotOfferedError where ONNX has no such operator.
    """
    found = OPERATORS.get(problem.case.layer.name)
    if found is None:
        raise NotOfferedError(f"ONNX has no {problem.case.layer.name}")
    arrays = {name: in_own_type(policy(problem.dtype).typed(array)) for name, array in problem.arrays.items()}
    graph = Graph(next(iter(arrays.values())).dtype)
    arguments = [
        graph.stored(name, array) if is_parameter(name, arrays) else graph.given(name, array)
        for name, array in arrays.items()
    ]
    if isinstance(found, str):
        output = graph.add(found, *arguments, **problem.case.options)
    else:
        output = found(graph, *arguments, **problem.case.options)
    shape = problem.answer()["output"].shape
    return graph.model(output, shape), graph.inputs


def lines_of(model: Any, renamed: Mapping[str, str]) -> list[str]:
    """The model in ONNX's own text, a line for each node, with other names for some arrays."""
    import onnx.printer

    text = onnx.printer.to_text(model).replace(',\n   producer_name: "refnp"', "")
    for name, other in renamed.items():
        text = text.replace(name, other)
    head, _, body = text.partition(">\n")
    without_names = re.sub(r"(?m)^ *\[\w+\] ", "   ", body)
    return [" ".join(f"{head}>".split()), *(line.rstrip() for line in without_names.splitlines())]


def is_parameter(name: str, arrays: Iterable[str]) -> bool:
    """Whether an argument is one that a trained model stores."""
    return "." in name or name.startswith(("weight_", "bias_")) or (name in PARAMETERS and bool(MARKS & set(arrays)))


def export(folder: Path, problems: Mapping[str, Problem]) -> int:
    """Write a folder for each problem by name, as those of ONNX's own node tests; returns how many there are.

    In each stand model.onnx and, in test_data_set_0, input_0.pb, …, the reference rounded once in output_0.pb, and in
    bound_0.pb, in float64, what a correct implementation may be off by from it. Problems without a model are left out.
    ModuleNotFoundError, with what to install, if the package onnx is missing.
    """
    try:
        import onnx
    except ModuleNotFoundError:
        raise ModuleNotFoundError("format onnx: the package onnx is missing; pip install 'refnp[onnx]'") from None
    count = 0
    for name, problem in problems.items():
        asked = posed(problem)
        try:
            model, inputs = onnx_model(asked)
        except NotOfferedError:
            continue
        right = asked.reference()["output"]
        rounded = right.astype(asked.dtype)
        bound = tolerance(asked.bounds["output"], asked.dtype) + rounding_of(right, rounded)
        data = folder / name / "test_data_set_0"
        data.mkdir(parents=True)
        (folder / name / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
        arrays = {f"input_{index}": (key, inputs[key]) for index, key in enumerate(inputs)}
        arrays["output_0"], arrays["bound_0"] = ("output", rounded), ("bound", upwards(bound))
        for file, (key, array) in arrays.items():
            tensor = onnx.numpy_helper.from_array(np.array(array, order="C"), key)
            (data / f"{file}.pb").write_bytes(tensor.SerializeToString(deterministic=True))
        count += 1
    return count
