"""Runtimes of ONNX models, each in a process of its own: ONNX Runtime, onnx's own evaluator, OpenVINO, OpenCV, tract.

    python -m refnp.verify.frameworks.runtimes onnxruntime      the process: folders in, one a line, arrays out

A runtime is a function of a model's file and its inputs. A process answers one problem after the other; when it dies,
or takes longer than `LIMIT`, the problem is asked once more in a process that has seen no other. If that one dies too,
this is the verdict on the case (`FailedError`), not the end of the run. So is an exception, unless it says that the
runtime lacks something (`LACKING`): then it refuses the case, with its words.
"""

import atexit
import contextlib
import functools
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from refnp.verify.case import Answer, FailedError, KnownDefect, NotOfferedError, Problem
from refnp.verify.frameworks.onnx import onnx_model
from refnp.verify.frameworks.runtime_defects import EVALUATOR, ONNXRUNTIME, OPENCV, OPENVINO, TRACT

LIMIT = 60.0  # seconds for one model
LACKING = (
    "not implemented", "not_implemented", "unimplemented", "unconverted_ops", "can't create layer",
    "not supported", "does not support", "unsupported", "layout is expected",
)  # fmt: skip
Inputs = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Runtime:
    """A runtime: the package that is imported, and how it runs a model's file.

    `single_alone` says why it is not asked in float64, if it is not. `known_defects` are what it is known to get wrong.
    """

    name: str
    package: str
    run: Callable[[Path, Inputs], np.ndarray]
    single_alone: str = ""
    known_defects: tuple[KnownDefect, ...] = ()

    @property
    def installed(self) -> bool:
        """True if it can be imported, and onnx, which writes the models."""
        return all(importlib.util.find_spec(name) is not None for name in (self.package, "onnx"))

    def answer(self, problem: Problem) -> Answer:
        """The output for a problem that was posed to it (`refnp.verify.frameworks.onnx.posed`)."""
        if self.single_alone and problem.dtype != "float32":
            raise NotOfferedError(self.single_alone)
        model, inputs = onnx_model(problem)
        return {"output": worker_of(self.package).ask(model.SerializeToString(), inputs)}


def run_onnxruntime(model: Path, inputs: Inputs) -> np.ndarray:
    """On one thread, with the optimizations that are on unless told otherwise."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # only what is fatal
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(inputs))[0]


def run_reference(model: Path, inputs: Inputs) -> np.ndarray:
    """onnx's own evaluator, in NumPy."""
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(str(model)).run(None, dict(inputs))[0]


def run_openvino(model: Path, inputs: Inputs) -> np.ndarray:
    """In float32, on one thread: on some machines it would take bfloat16 by itself."""
    import openvino

    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    compiled = openvino.Core().compile_model(model, "CPU", options)
    used = {name for port in compiled.inputs for name in port.names}
    return next(iter(compiled({name: array for name, array in inputs.items() if name in used}).values()))


def run_opencv(model: Path, inputs: Inputs) -> np.ndarray:
    """The engine that it chooses by itself, on one thread."""
    import cv2

    cv2.setNumThreads(1)
    net = cv2.dnn.readNetFromONNX(str(model))
    for name, array in inputs.items():
        net.setInput(array, name)
    return net.forward()


def run_tract(model: Path, inputs: Inputs) -> np.ndarray:
    """Optimized, as it recommends."""
    import tract

    runnable = tract.onnx().load(str(model)).into_model().into_runnable()
    return runnable.run(list(inputs.values()))[0].to_numpy()


RUNTIMES = {
    runtime.name: runtime
    for runtime in (
        Runtime("ONNXRuntime", "onnxruntime", run_onnxruntime, "", ONNXRUNTIME),
        Runtime("ONNX", "onnx", run_reference, "", EVALUATOR),
        Runtime("OpenVINO", "openvino", run_openvino, "OpenVINO computes float64 in float32", OPENVINO),
        Runtime("OpenCV", "cv2", run_opencv, "OpenCV's dnn has no float64", OPENCV),
        Runtime("tract", "tract", run_tract, "", TRACT),
    )
}


class Worker:
    """A process that runs models with one runtime, started at the first question and again after it died."""

    def __init__(self, command: Sequence[str], limit: float = LIMIT):
        self.command, self.limit = list(command), limit
        self.process: subprocess.Popen | None = None
        self.owner = 0

    def ask(self, model: bytes, inputs: Inputs) -> np.ndarray:
        """What the model puts out. NotOfferedError with the runtime's words; FailedError if it dies alone on it."""
        fresh = not self.alive()
        try:
            found = self.asked(model, inputs)
        except FailedError:
            if fresh:
                raise
            found = self.asked(model, inputs)  # in a new process, which no other model can have harmed
        if isinstance(found, Exception):
            raise found
        return found

    def alive(self) -> bool:
        """Whether there is a process, of this one and not of the one that it was forked from."""
        return self.process is not None and self.owner == os.getpid() and self.process.poll() is None

    def asked(self, model: bytes, inputs: Inputs) -> np.ndarray | Exception:
        """One question to the process, which is started if there is none. What the runtime raises is an answer."""
        process = self.started()
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "model.onnx").write_bytes(model)
            np.savez(Path(folder, "inputs.npz"), **inputs)  # type: ignore[arg-type]
            reply = self.exchanged(process, folder)
            if "refused" in reply:
                return NotOfferedError(reply["refused"])
            if "failed" in reply:
                return FailedError(reply["failed"])
            with np.load(Path(folder, "answer.npz"), allow_pickle=False) as stored:
                return stored["output"]

    def exchanged(self, process: subprocess.Popen, folder: str) -> dict[str, str]:
        """The folder goes in, a line of JSON comes out; FailedError if the process dies or takes too long."""
        lines: list[str] = []

        def talk() -> None:
            try:
                process.stdin.write(f"{folder}\n")  # type: ignore[union-attr]
                process.stdin.flush()  # type: ignore[union-attr]
                lines.append(process.stdout.readline())  # type: ignore[union-attr]
            except OSError:  # it is dead already
                pass

        talking = threading.Thread(target=talk, daemon=True)
        talking.start()
        talking.join(self.limit)
        if talking.is_alive():
            self.stop()
            raise FailedError(f"no answer within {self.limit:g} s")
        if not lines or not lines[0].endswith("\n"):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.limit)
            self.stop()
            raise FailedError(died(process.returncode))
        return json.loads(lines[0])

    def started(self) -> subprocess.Popen:
        """The process. What it prints otherwise is thrown away."""
        if not self.alive():
            quiet = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self.process = subprocess.Popen(self.command, text=True, encoding="utf-8", **quiet)  # type: ignore[call-overload]
            self.owner = os.getpid()
            atexit.register(self.stop)
        return self.process  # type: ignore[return-value]

    def stop(self) -> None:
        """End the process, if it is this one's."""
        if self.process is not None and self.owner == os.getpid():
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                with contextlib.suppress(OSError):  # of what was not read any more
                    pipe.close()  # type: ignore[union-attr]
        self.process = None


@functools.cache
def worker_of(package: str) -> Worker:
    """The one process of a runtime."""
    return Worker([sys.executable, "-m", "refnp.verify.frameworks.runtimes", package])


def died(status: int) -> str:
    """How a process ended, in words."""
    if status >= 0:
        return f"ended with status {status}"
    return f"crashed with signal {-status} ({signal.Signals(-status).name})"


def serve(package: str) -> None:
    """Answer for one runtime until there are no more questions."""
    run = next(runtime.run for runtime in RUNTIMES.values() if runtime.package == package)
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what runtimes print is no answer
    for line in sys.stdin:
        replies.write(json.dumps(replied(run, Path(line.rstrip("\n")))) + "\n")
        replies.flush()


def replied(run: Callable[[Path, Inputs], np.ndarray], folder: Path) -> dict[str, str]:
    """Run the model of a folder, and write what it puts out beside it; {"refused": why} or {"failed": how} if not."""
    with np.load(folder / "inputs.npz", allow_pickle=False) as stored:
        inputs = dict(stored)
    try:
        output = np.asarray(run(folder / "model.onnx", inputs))
        if output.dtype == object:
            raise TypeError("it gave no array")
    except Exception as refusal:  # every runtime has classes of its own
        lacks = any(words in str(refusal).lower() for words in LACKING)
        return {"refused" if lacks else "failed": in_one_line(refusal).replace(f"{folder}{os.sep}", "")}
    np.savez(folder / "answer.npz", output=output)
    return {}


def in_one_line(refusal: Exception) -> str:
    """The beginning of what a runtime says."""
    text = " ".join(str(refusal).partition("Stack backtrace")[0].split()) or type(refusal).__name__
    return text if len(text) <= 200 else f"{text[:197]}..."


if __name__ == "__main__":
    serve(sys.argv[1])
