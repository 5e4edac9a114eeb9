"""Scripts that show a defect of a runtime, with an ONNX model in text: `refnp verify --reproduce CASE ONNXRuntime`."""

import numpy as np

from refnp.verify.frameworks import Framework
from refnp.verify.frameworks.onnx import lines_of, onnx_model
from refnp.verify.judge import Judgement
from refnp.verify.scripts import Inputs, Language, Shown, heading, verdict
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


def with_model(inputs: Inputs, framework: Framework, row: Judgement, shown: Shown) -> list[list[str]]:
    """The script, in one part: arrays, the model, the call and the verdict."""
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
    weights = ", ".join(f'"{plain(name)}": {values[plain(name)]}' for name in stored)
    call = CALLS[framework.name].format(inputs=f"{{{fed}}}", names=", ".join(values[plain(name)] for name in given))
    imported, *asked = call.splitlines()
    lines = [*heading(problem, framework, row), "import onnx.parser", imported, *inputs.lines]
    lines += [f"{name} = {array_of(array)}" for name, array in others.items()]
    named = lines_of(model, {name: plain(name) for name in problem.arrays})
    lines += ['model = onnx.parser.parse_model("""', *named, '""")']
    if stored:
        lines.append(f"for name, array in {{{weights}}}.items():")
        lines.append("    model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))")
    return [[*lines, *asked, *verdict(shown)]]


def plain(name: str) -> str:
    """A name without the dots of modules."""
    return name.replace(".", "_")


def array_of(array: np.ndarray) -> str:
    """A mask, places or targets, as NumPy is told them."""
    return f'np.array({literal(array)}, "{array.dtype}")'
