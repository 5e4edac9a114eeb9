"""Many independent pieces of work, shared by workers: results in the order of the pieces, as soon as they are there.

    for rows in in_order(rows_of, numbers, workers_for(len(numbers), jobs, cluster), named=name_of, lost=crashed): …

The workers are an executor of `concurrent.futures`: the standard library's pool of processes, or a Dask cluster, one
that runs already ("tcp://host:8786") or one that is started here ("local:4"). Pieces are submitted all at once, and
what a piece gives depends on nothing but itself, so the results are the same for any workers. A worker that dies loses
nothing: what it had begun is run again, each piece alone, and a piece with which workers die `DEATHS` times is given up
by name; the others stand; the same for one that lacks memory. Ctrl-C and an exception of a piece cancel what has not
begun.

Processes are started anew ("spawn"), not copied: nothing is inherited of threads that a framework may have started, and
it is the same on every platform. Each uses one thread for matrix products, because there are as many as cores, and ends
with the process that waits for its results. Workers of a cluster must have the same refnp and NumPy.
"""

import contextlib
import logging
import multiprocessing
import os
import platform
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple

import numpy as np

from refnp.version import __version__

FEW = 40  # pieces for which no process is worth its start, about a second
MOST = 4  # processes, unless more are asked for: each imports a framework of its own
DEATHS = 3  # of workers with one piece, after which it is given up
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
NO_CLUSTER = "--cluster needs Dask: python -m pip install 'refnp[cluster]'"


class Workers(NamedTuple):
    """Who shares the pieces: so many processes, or a Dask cluster by its address or as "local:N"; one is this one."""

    processes: int = 1
    cluster: str = ""


HERE = Workers()  # this process alone


def workers_for(pieces: int, jobs: int | None = None, cluster: str | None = None, *, few: int = FEW) -> Workers:
    """A cluster where one is named; else as many processes as are asked for, or as there are cores; 1 for few pieces.

    Also 1 in a process that is itself one of several.
    """
    if cluster:
        return Workers(cores(), cluster)
    if pieces < few or multiprocessing.parent_process() is not None:
        return HERE
    return Workers(jobs or min(cores(), MOST))


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(
    function: Callable[[Any], Any],
    pieces: Sequence[Any],
    workers: Workers,
    *,
    named: Callable[[Any], str] = str,
    lost: Callable[[Any], Any] | None = None,
) -> Iterator[Any]:
    """function(piece) for each piece, in their order; lost(piece) where workers die or memory lacks, or a RuntimeError.

    `function` is one of a module, or a partial one; pieces and results can be pickled. What a piece raises is raised
    here with a note that names it; KeyboardInterrupt has a note that says how many are finished. Raises ValueError for
    a cluster that cannot be had and for workers of other versions, ConnectionError if a cluster ends.
    """
    shown = 0
    try:
        work = Work(function, pieces, named, lost)
        for result in work.alone() if workers == HERE else work.shared_by(workers):
            shown += 1
            yield result
    except KeyboardInterrupt as stop:
        stop.add_note(f"stopped; {shown} of {len(pieces)} are finished")
        raise


class Work(NamedTuple):
    """What `in_order` is given."""

    function: Callable[[Any], Any]
    pieces: Sequence[Any]
    named: Callable[[Any], str]
    lost: Callable[[Any], Any] | None

    def alone(self) -> Iterator[Any]:
        """The results, all of them computed here."""
        for piece in self.pieces:
            try:
                with self.naming(piece):
                    result = self.function(piece)
            except MemoryError:
                result = self.given_up(piece)
            yield result

    @contextlib.contextmanager
    def naming(self, piece: Any) -> Iterator[None]:
        """A note on what is raised within this block."""
        try:
            yield
        except Exception as wrong:
            wrong.add_note(f"in {self.named(piece)}")
            raise

    def shared_by(self, workers: Workers) -> Iterator[Any]:
        """The results of workers: of all pieces together, then of those alone that were under way when one died."""
        open_executor, dead = (_cluster, _killed()) if workers.cluster else (_processes, BrokenProcessPool)
        found: dict[int, Any] = {}
        deaths: Counter[int] = Counter()
        suspects: list[int] = []
        left, shown = list(range(len(self.pieces))), 0
        while left or suspects:
            batch, left, is_alone = ([suspects.pop(0)], left, True) if suspects else (left, [], False)
            with open_executor(HERE if is_alone and not workers.cluster else workers) as submit:
                futures = {k: submit(self.function, self.pieces[k]) for k in batch}
                unfinished = []
                for k in batch:
                    try:
                        with self.naming(self.pieces[k]):
                            found[k] = futures.pop(k).result()
                    except (dead, MemoryError) as stopped:
                        if is_alone and isinstance(stopped, BrokenProcessPool) and stopped.__cause__ is not None:
                            raise  # no death: its result can't be read here
                        unfinished.append(k)
                    while shown in found:
                        yield found.pop(shown)
                        shown += 1
            # pieces are handed out in their order, and of each worker one waits: among the first is what was under way
            under_way = unfinished[: 2 * workers.processes + 1]
            for k in under_way:
                deaths[k] += is_alone
                if is_alone and (workers.cluster or deaths[k] >= DEATHS):  # a cluster has tried it again by itself
                    found[k] = self.given_up(self.pieces[k])
                else:
                    suspects.append(k)
            left = sorted([*left, *unfinished[len(under_way) :]])
            while shown in found:
                yield found.pop(shown)
                shown += 1

    def given_up(self, piece: Any) -> Any:
        """What stands for the result of a piece with which workers die."""
        if self.lost is None:
            why = f"it lacks memory, or the process that computed it died, {DEATHS} times"
            raise RuntimeError(f"{self.named(piece)}: {why}")
        return self.lost(piece)


@contextlib.contextmanager
def _processes(workers: Workers) -> Iterator[Callable]:
    """The standard library's pool; its processes are killed at an exception."""
    others = set(multiprocessing.active_children())
    anew = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(workers.processes, mp_context=anew, initializer=_begin)
    try:
        with _one_thread_each(), _without_interrupts():
            executor.submit(_nothing)
        yield executor.submit
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.kill()
        raise
    finally:
        executor.shutdown(cancel_futures=True)  # and wait: at exit Python would write to a pipe that is being closed


def _nothing() -> None:
    """What is done first: nothing, which starts all processes."""


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits for results gets it, and ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End with the process that started this one, which alone reads the results."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextlib.contextmanager
def _cluster(workers: Workers) -> Iterator[Callable]:
    """A Dask cluster; one that is started here ends with the block.

    Pieces are the client's own futures: those of its executor fail where a worker dies that kept a result.
    """
    import distributed
    from distributed import dask

    kind, _, count = workers.cluster.partition(":")
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": DEATHS - 1}))
        where: Any = workers.cluster
        if kind == "local":
            if not count.isdecimal() or not int(count):
                raise ValueError(f"--cluster {workers.cluster}: write local:N, such as local:4")
            with _without_interrupts():
                own = distributed.LocalCluster(
                    n_workers=int(count), threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
                )
            where = stack.enter_context(own)
        try:
            client = stack.enter_context(distributed.Client(where, timeout="10s"))
        except (OSError, ValueError) as wrong:
            raise ValueError(f"--cluster {workers.cluster}: there is no Dask scheduler: {wrong}") from wrong
        try:
            yield lambda function, piece: client.submit(_checked, versions(), function, piece, pure=False)
        except CancelledError as gone:
            raise ConnectionError(f"the cluster {workers.cluster} is gone; the same command begins again") from gone


def _killed() -> type[BaseException]:
    """What a cluster raises for a piece with which its workers die; ValueError where Dask is not installed."""
    try:
        from distributed import KilledWorker
    except ImportError as missing:
        raise ValueError(NO_CLUSTER) from missing
    return KilledWorker


def versions() -> str:
    """What must be the same in every worker."""
    return f"refnp {__version__} and NumPy {np.__version__}"


def _checked(expected: str, function: Callable, piece: Any) -> Any:
    """The result of a piece, by a worker of a cluster; ValueError if it has other versions than who asks."""
    if (own := versions()) != expected:
        raise ValueError(f"a worker of the cluster on {platform.node()} has {own}; here there is {expected}")
    return function(piece)


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes that are started within this block use one thread for matrix products."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ctrl-C waits until the end of this block, and does not reach processes that are started within it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
