"""ONNX models of cases: valid, judged with the options that they store, and runtimes that die are a verdict."""

import importlib.util
import sys
from collections import Counter

import numpy as np
import pytest

from refnp.numbers.rounding import tolerance
from refnp.verify import reproduce
from refnp.verify.case import FailedError, NotOfferedError
from refnp.verify.frameworks import Framework, framework_of, framework_with, installed
from refnp.verify.frameworks import onnx as models
from refnp.verify.frameworks.onnx_operators import OPERATORS
from refnp.verify.frameworks.runtimes import RUNTIMES, Worker, replied
from refnp.verify.judge import DEVIATES, WITHIN, case_judgements, deviation
from refnp.verify.layers import cases_of_layers
from refnp.verify.record import Recording, key_of, record, write

CASES = {case.name: case for case in cases_of_layers()}
with_onnx = pytest.mark.skipif(importlib.util.find_spec("onnx") is None, reason="onnx is not installed")
PROGRAM = "import os, signal, time\nimport numpy as np\nfrom refnp.verify.frameworks import runtimes\n"
SERVE = 'runtimes.RUNTIMES = {"Fake": runtimes.Runtime("Fake", "fake", run)}\nruntimes.serve("fake")\n'


def posed(name, dtype="float64"):
    return models.posed(CASES[name].problem(dtype))


def fake(body, *, limit=30.0):
    """A worker whose runtime is this function of `model` and `inputs`."""
    return Worker([sys.executable, "-c", f"{PROGRAM}def run(model, inputs):\n    {body}\n{SERVE}"], limit)


def test_every_operator_is_of_a_layer():
    assert set(OPERATORS) <= {case.layer.name for case in CASES.values()}


def test_options_are_those_that_float32_holds():
    stored = float(np.float32(1e-5))
    assert posed("layer_norm/ordinary").case.options == {"eps": stored}  # its default, written nowhere
    assert posed("leaky_relu/slope 0.2").case.options == {"slope": float(np.float32(0.2))}
    untouched = CASES["elu/alpha 0.5"].problem("float64")
    assert models.posed(untouched).case.options is untouched.case.options


def test_the_bound_is_that_of_the_rounded_option():
    """In float64, LayerNorm with the ε that float32 holds is right, and with 1e-5 it is not."""
    rows = "layer_norm/small variance"
    asked, as_it_is = posed(rows), CASES[rows].problem("float64")
    right = asked.reference()["output"]
    allowed = tolerance(asked.bounds["output"], "float64")
    assert deviation(asked.answer()["output"], right, allowed, "float64")[0] <= 1
    assert deviation(as_it_is.answer()["output"], right, allowed, "float64")[0] > 1e3


def test_only_the_output_is_asked_and_the_equation_is_not_evaluated_again():
    problem = CASES["softmax/ordinary"].problem("float64")
    bounds = problem.bounds
    asked = models.posed(problem)
    assert asked.case.quantities == ["output"]
    assert asked.bounds["output"] is bounds["output"]
    assert key_of(asked) == key_of(problem)


@with_onnx
@pytest.mark.parametrize(
    ("name", "dtype", "opset", "given"),
    [
        ("softmax/ordinary", "float16", 17, "float16"),
        ("softmax/ordinary", "bfloat16", 17, "float32"),
        ("convolution/1-D", "float16", 17, "float16"),
        ("convolution/1-D", "bfloat16", 22, "float32"),  # since when Conv takes it
        ("convolution/1-D", "bfloat16 in and out, float32 inside", 22, "float32"),
    ],
)
def test_models_in_low_precision(name, dtype, opset, given):
    """NumPy has no bfloat16: numbers go in as float32, are cast, and are cast back, which rounds nothing."""
    onnx = pytest.importorskip("onnx")
    model, inputs = models.onnx_model(posed(name, dtype))
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version == opset
    assert {array.dtype.name for array in inputs.values()} == {given}
    kinds = [onnx.helper.tensor_dtype_to_np_dtype(array.data_type).name for array in model.graph.initializer]
    assert set(kinds) <= {dtype.split()[0]}
    assert [node.op_type for node in model.graph.node].count("Cast") == (2 if given == "float32" else 0)
    output = model.graph.output[0].type.tensor_type.elem_type
    assert onnx.helper.tensor_dtype_to_np_dtype(output).name == given


@with_onnx
def test_an_operator_that_takes_no_bfloat16_is_named():
    with pytest.raises(NotOfferedError, match="ONNX: BitShift takes no bfloat16"):
        models.first_version("BitShift", "bfloat16")


@pytest.mark.parametrize("name", ["softmax/ordinary", "layer_norm/ordinary", "matmul/ordinary", "gelu/ordinary"])
def test_half_precision_of_onnxruntime_is_within_the_bound(name):
    if not installed("ONNXRuntime"):
        pytest.skip("ONNX Runtime is not installed")
    asked = posed(name, "float16")
    output, right = framework_of("ONNXRuntime").answer(asked)["output"], asked.reference()["output"]
    assert output.dtype == np.float16
    assert deviation(output, right, tolerance(asked.bounds["output"], "float16"), "float16")[0] <= 1


@with_onnx
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_models_are_valid(dtype):
    import onnx

    offered = Counter()
    for case in CASES.values():
        try:
            model, inputs = models.onnx_model(models.posed(case.problem(dtype)))
        except NotOfferedError:
            continue
        onnx.checker.check_model(model, full_check=True)
        assert [one.name for one in model.graph.input] == list(inputs)
        assert inputs, case.name
        offered[case.layer.name] += 1
    single_alone = {"rotate", "rotary_attention"} if dtype == "float64" else set()
    assert offered.keys() == OPERATORS.keys() - single_alone
    assert offered.total() >= 370


@with_onnx
def test_an_export_has_the_form_of_onnx_node_tests(tmp_path):
    import onnx.reference

    names = {"layer_norm.ordinary": "layer_norm/ordinary", "erfc.ordinary": "erfc/ordinary"}
    problems = {name: CASES[case].problem("float32") for name, case in names.items()}
    assert models.export(tmp_path, problems) == 1
    data = tmp_path / "layer_norm.ordinary" / "test_data_set_0"
    assert sorted(path.name for path in data.iterdir()) == ["bound_0.pb", "input_0.pb", "output_0.pb"]
    session = onnx.reference.ReferenceEvaluator(str(data.parent / "model.onnx"))
    x, right, bound = (onnx.load_tensor(data / f"{name}_0.pb") for name in ("input", "output", "bound"))
    x, right, bound = map(onnx.numpy_helper.to_array, (x, right, bound))
    assert (np.abs(session.run(None, {"x": x})[0].astype(float) - right) <= bound).all()


@pytest.mark.skipif(importlib.util.find_spec("onnx") is not None, reason="onnx is installed")
def test_without_onnx_an_export_says_what_to_install(tmp_path):
    with pytest.raises(ModuleNotFoundError, match=r"refnp\[onnx\]"):
        models.export(tmp_path, {})


@pytest.mark.parametrize("name", [name for name in RUNTIMES if installed(name)])
def test_live_answers_are_the_recorded_ones(name):
    live = framework_of(name)
    problem = posed("softmax/ordinary", "float32")
    found = live.answer(problem)["output"]
    bound = tolerance(problem.bounds["output"], "float32")
    assert deviation(found, problem.reference()["output"], bound, "float32")[0] <= 1


@pytest.mark.parametrize("name", [name for name in ("ONNXRuntime", "ONNX") if installed(name)])
def test_defects_of_runtimes_are_reproduced(name):
    """By a script without refnp, which shows the defect and ends with status 1."""
    for case in ("gelu/at -5 and -8", "log_softmax/20 and 0", "attention/nan in a masked value"):
        with np.errstate(all="ignore"):
            script = reproduce.script(case, name.lower())
        assert len(script.splitlines()) < 32
        assert max(map(len, script.splitlines())) <= 120
        assert "refnp" not in script
        with np.errstate(all="ignore"), pytest.raises(SystemExit) as stop:
            exec(compile(script, "<script>", "exec"), {})
        assert stop.value.code


def test_a_runtime_answers_refuses_and_prints():
    body = 'print("noise"); return 2 * inputs["x"] if "x" in inputs else 1 / 0'
    worker = fake(body)
    for scale in (1, 2):
        np.testing.assert_array_equal(worker.ask(b"", {"x": np.arange(3.0) * scale}), np.arange(3.0) * 2 * scale)
    with pytest.raises(FailedError, match="division by zero"):
        worker.ask(b"", {})
    worker.stop()


def test_a_runtime_that_dies_is_asked_once_more_in_a_new_process():
    """It dies at the second question to a process, whatever it is: alone, both are answered."""
    body = 'global seen; seen = globals().get("seen", 0) + 1; return inputs["x"] if seen == 1 else os.abort()'
    worker = fake(body)
    for x in (np.ones(2), np.zeros(3)):
        np.testing.assert_array_equal(worker.ask(b"", {"x": x}), x)
    worker.stop()


def test_a_crash_is_a_verdict_and_not_the_end(tmp_path):
    """Live and recorded, it deviates, or is known; the next case is judged as ever."""
    body = 'os.kill(os.getpid(), signal.SIGSEGV) if "query" in inputs else None; return np.maximum(inputs["x"], 0)'
    worker = fake(body)
    answer = lambda problem: {"output": worker.ask(b"", problem.arrays)}
    live = Framework("Fake", "1", answer, posed=models.posed)
    record(live, tmp_path / "fake.npz", [CASES["attention/ordinary"], CASES["relu/ordinary"]])
    recorded = Recording(tmp_path / "fake.npz")
    with pytest.raises(FailedError, match=r"crashed with signal 11 \(SIGSEGV\)"):
        recorded.answer(posed("attention/ordinary", "float32"))
    again = Framework("Fake", "1 (recorded)", recorded.answer, posed=models.posed)
    for framework in (live, again):
        rows = [row for row in case_judgements(CASES["attention/ordinary"], [framework]) if row.framework == "Fake"]
        assert [row.verdict for row in rows] == [DEVIATES, DEVIATES]
        assert {row.why for row in rows} == {"crashed with signal 11 (SIGSEGV)"}
        rows = [row for row in case_judgements(CASES["relu/ordinary"], [framework]) if row.framework == "Fake"]
        assert [row.verdict for row in rows] == [WITHIN, WITHIN]
    worker.stop()


def test_a_runtime_that_takes_too_long_is_ended():
    worker = fake("time.sleep(600)", limit=3.0)
    with pytest.raises(FailedError, match="no answer within 3 s"):
        worker.ask(b"", {"x": np.ones(1)})
    assert worker.process is None


def test_an_exception_is_a_failure(tmp_path):
    np.savez(tmp_path / "inputs.npz", x=np.ones(1))
    assert replied(lambda model, inputs: None, tmp_path) == {"failed": "it gave no array"}
    assert replied(lambda model, inputs: model.read_bytes(), tmp_path)["failed"].endswith("'model.onnx'")


def test_a_runtime_that_lacks_an_operator_refuses(tmp_path):
    np.savez(tmp_path / "inputs.npz", x=np.ones(1))

    def run(model, inputs):
        raise RuntimeError("NOT_IMPLEMENTED : Could not find an implementation for Conv")

    assert replied(run, tmp_path)["refused"].endswith("for Conv")


def test_a_recording_is_described_like_the_runtime(tmp_path):
    write(tmp_path / "some.npz", {"framework": "ONNXRuntime", "version": "1"}, {})
    found = Recording(tmp_path / "some.npz").framework
    assert found.posed is models.posed
    assert found.known_defects == RUNTIMES["ONNXRuntime"].known_defects
    assert framework_with("PyTorch", "1", found.answer).known_defects == ()
