"""A process for one framework, which prepares a work item and runs it on request.

It imports that framework alone, and no other framework has used its memory. Environment and processors are
those of the process that starts it.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import resource
import subprocess
import sys
import time
from typing import Any

from benchmarks import machine
from benchmarks.timing import Arrays, Side, Work, clock_of
from benchmarks.works import find

MEGABYTE = 1e6


class Worker:
    """A client of such a process. Every method waits for the answer; RuntimeError with the reason if it fails."""

    def __init__(self, framework: str, threads: int):
        context = multiprocessing.get_context("spawn")
        self.framework = framework
        self.line, far_end = context.Pipe()
        self.process = context.Process(target=serve, args=(far_end, framework, threads), daemon=True)
        before = {name: os.environ.get(name, str(threads)) for name in machine.COUNTS}
        os.environ |= dict.fromkeys(machine.COUNTS, str(threads))
        self.process.start()  # which copies the environment
        os.environ |= before
        far_end.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: Any) -> None:
        self.line.close()  # the process takes it as the end
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()

    def ask(self, command: str, *arguments: Any) -> Any:
        try:
            self.line.send((command, arguments))
            kind, answer = self.line.recv()
        except (EOFError, OSError):
            raise RuntimeError(f"the process of {self.framework} ended; was there too little memory?") from None
        if kind == "error":
            raise RuntimeError(f"{self.framework}: {answer}")
        return answer

    def make(self, work: Work) -> None:
        """Make the work ready; what was ready before is dropped."""
        self.ask("make", work.name, work.dtype)

    def result(self) -> tuple[Arrays, Arrays]:
        return self.ask("result")

    def use_threads(self, threads: int) -> None:
        """From now on so many, of the framework and of its BLAS."""
        self.ask("threads", threads)

    def clock(self, count: int) -> float:
        """Run the work so many times; the seconds that took."""
        return self.ask("clock", count)

    def peak(self) -> tuple[float, float]:
        """Run it once: the megabytes by which the peak of memory rose over what was held before, and the seconds of
        processors that it took.

        A peak never goes down, so this is for the first run in a fresh process. The stacks of threads and the buffers
        that libraries make at the first call are counted in.
        """
        return self.ask("peak")


class Earlier(Worker):
    """A client of refnp as it is in another checkout, with the benchmarks that stand there."""

    def __init__(self, checkout: pathlib.Path, threads: int):
        self.framework = "before"
        code = "import sys; from multiprocessing.connection import Client; from benchmarks.worker import serve; "
        code += f"serve(Client(sys.argv[1]), 'refnp', {threads})"
        with multiprocessing.connection.Listener(family="AF_UNIX") as listener:
            command = [sys.executable, "-c", code, str(listener.address)]
            environment = os.environ | {"PYTHONPATH": str(checkout)}
            self.program = subprocess.Popen(command, cwd=checkout, env=environment)
            self.line = listener.accept()

    def __exit__(self, *error: Any) -> None:
        self.line.close()  # the process takes it as the end
        self.program.wait()


def serve(line: multiprocessing.connection.Connection, framework: str, threads: int) -> None:
    """What the process does until its input is closed; refnp's is tuned as for training."""
    tuned = importlib.import_module("refnp").tuned if framework == "refnp" else contextlib.nullcontext
    with tuned():
        answer_all(line, framework, threads)


def answer_all(line: multiprocessing.connection.Connection, framework: str, threads: int) -> None:
    """Do what `line` asks for and say what came of it, until it is closed."""
    machine.use_threads(framework, threads)
    side: Side | None = None
    while True:
        try:
            command, arguments = line.recv()
        except EOFError:
            return
        answer: Any = None
        try:
            if command == "make":
                side = None  # free the memory first
                side = find(*arguments).makers[framework]()
            elif command == "threads":
                machine.use_threads(framework, *arguments)
            elif side is None:
                raise ValueError("nothing was made")
            elif command == "result":
                answer = side.result()
            elif command == "clock":
                answer = clock_of(side)(*arguments)
            elif command == "peak":
                before, start = held("VmRSS"), time.process_time()
                side.run()
                seconds = time.process_time() - start
                answer = (held("VmHWM") - before) / MEGABYTE, seconds
            line.send(("answer", answer))
        except Exception as error:
            line.send(("error", f"{type(error).__name__}: {error}"))


def held(kind: str) -> float:
    """Bytes of this process in memory: now ("VmRSS") or at most so far ("VmHWM").

    Where there is no /proc, both are the peak that the system reports. On Linux that number would not do: a process
    inherits it from the one that started it.
    """
    try:
        with open("/proc/self/status") as lines:
            return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith(kind))
    except (OSError, StopIteration):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return float(peak if sys.platform == "darwin" else 1024 * peak)
