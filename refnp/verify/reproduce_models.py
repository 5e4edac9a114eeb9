"""Scripts that show a defect of a runtime, with an ONNX model in text: `refnp verify --reproduce CASE ONNXRuntime`."""

import textwrap

import numpy as np

from refnp.verify.case import Case
from refnp.verify.frameworks import Framework
from refnp.verify.frameworks.onnx import lines_of, onnx_model
from refnp.verify.judge import Judgement
from refnp.verify.scripts import LINES, Inputs, Language, inputs_of, shows, verdict, wrapped
from refnp.verify.tracing import literal

NUMPY = Language((), 'np.array({numbers}, "{dtype}")', "", "")
CALLS = {  # after an import; {inputs}: a mapping, {names}: in their order
    "ONNXRuntime": """\
import onnxruntime
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
claimed = session.run(None, {inputs})[0]""",
    "ONNX": """\
import onnx.reference
claimed = onnx.reference.ReferenceEvaluator(model).run(None, {inputs})[0]""",
    "OpenVINO": """\
import openvino
read = openvino.Core().read_model(model.SerializeToString())
claimed = openvino.Core().compile_model(read, "CPU", {{"INFERENCE_PRECISION_HINT": "f32"}})({inputs})[0]""",
    "OpenCV": """\
import cv2
net = cv2.dnn.readNetFromONNX(np.frombuffer(model.SerializeToString(), np.uint8))
for name, array in {inputs}.items():
    net.setInput(array, name)
claimed = net.forward()""",
    "tract": """\
import tract
onnx.save(model, "model.onnx")
claimed = tract.onnx().load("model.onnx").into_model().into_runnable().run([{names}])[0].to_numpy()""",
}


def model_script(case: Case, framework: Framework, row: Judgement) -> str:
    """The script for what a row shows of a runtime: the shortest of those that show it."""
    found = ""
    for inputs in inputs_of(framework.posed(case.problem(row.dtype)), NUMPY):
        if (shown := shows(inputs.problem, framework, row)) is not None:
            text = written(inputs, framework, row, verdict(shown))
            if not found or len(text) < len(found):
                found = text
            if len(text.splitlines()) <= LINES:
                break
    return found


def written(inputs: Inputs, framework: Framework, row: Judgement, ending: list[str]) -> str:
    """The script: arrays, the model, the call and the verdict."""
    problem = inputs.problem
    model, given = onnx_model(problem)
    values = dict(zip(map(plain, problem.arrays), inputs.names, strict=True))
    stored = [name for name in problem.arrays if name not in given]
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in stored]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    others = {name: array for name, array in given.items() if name not in problem.arrays}
    values |= {name: name for name in others}
    fed = ", ".join(f'"{plain(name)}": {values[plain(name)]}' for name in given)
    head = textwrap.wrap(
        f"{framework.name} {framework.version}, {problem.dtype}, {row.quantity}. {row.issue}: {row.why}",
        117,
        initial_indent="# ",
        subsequent_indent="# ",
    )
    weights = ", ".join(f'"{plain(name)}": {values[plain(name)]}' for name in stored)
    call = CALLS[framework.name].format(inputs=f"{{{fed}}}", names=", ".join(values[plain(name)] for name in given))
    imported, *asked = call.splitlines()
    parts = [
        [*head, "import numpy as np", "import onnx.parser", imported],
        [*inputs.lines, *(f"{name} = {array_of(array)}" for name, array in others.items())],
        [
            'model = onnx.parser.parse_model("""',
            *lines_of(model, {name: plain(name) for name in problem.arrays}),
            '""")',
        ],
        [
            f"for name, array in {{{weights}}}.items():",
            "    model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))",
        ]
        if stored
        else [],
        asked,
        ending,
    ]
    return "\n".join(line for part in parts for long in part for line in wrapped(long)) + "\n"


def plain(name: str) -> str:
    """A name without the dots of modules."""
    return name.replace(".", "_")


def array_of(array: np.ndarray) -> str:
    """A mask, places or targets, as NumPy is told them."""
    return f'np.array({literal(array)}, "{array.dtype}")'
