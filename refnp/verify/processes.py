"""Work shared by processes: results in the order of the items, each as soon as it and all before it are there.

    for rows in in_order(rows_of, numbers, jobs, start=prepare, here=rows_here, lost=crashed): …

Processes are started anew ("spawn"), not copied: nothing is inherited of threads that a framework may have started, and
it is the same on every platform. What they work on is therefore named, and `start()` makes it in each of them. Each
uses one thread for matrix products, because there are as many processes as cores. While they start, the first items are
done here. Ctrl-C, an end before the last item, and the death of the process that waits for them end them at once; a
process that dies ends the item that it was at, not the others.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

FEW = 40  # items for which no process is worth its start, about a second
MOST = 4  # processes, unless more are asked for: each imports a framework of its own
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def jobs_for(items: int, asked: int | None) -> int:
    """How many processes to share so many items: what is asked for, or the cores there are; 1 for few items.

    Also 1 in a process that is itself one of several.
    """
    if items < FEW or multiprocessing.parent_process() is not None:
        return 1
    return asked or min(cores(), MOST)


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    jobs: int,
    *,
    start: Callable[[], None],
    here: Callable[[Any], Any],
    lost: Callable[[Any], Any],
) -> Iterator[Any]:
    """function(item) for each item, by `jobs` processes that call start() first; lost(item) where one died.

    here(item) gives the same in this process. `function` and `start` are functions of a module, or partial ones; items
    and results can be pickled. What `function` raises is raised here.
    """
    done, alone = 0, False
    while done < len(items):
        # when a process has died, the first item that is not done may be why: it is tried alone, then all others go on
        batch = items[done : done + 1] if alone else items[done:]
        try:
            for result in _shared(function, batch, 1 if alone else jobs, start, None if done or alone else here):
                done += 1
                yield result
            alone = False
        except BrokenProcessPool:
            if alone:
                done += 1
                yield lost(batch[0])
            alone = not alone


def _shared(
    function: Callable, items: Sequence[Any], jobs: int, start: Callable[[], None], here: Callable | None
) -> Iterator[Any]:
    """The results of one pool of processes, and of `here` before it works; BrokenProcessPool if a process dies."""
    others = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(
        jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_begin, initargs=(start,)
    )
    done = 0
    try:
        with _one_thread_each(), _without_interrupts():
            began = executor.submit(_nothing)
        while here is not None and done < len(items) and not began.done():
            yield here(items[done])
            done += 1
        for future in [executor.submit(function, item) for item in items[done:]]:
            yield future.result()
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.kill()
        executor.shutdown(cancel_futures=True)  # and wait: at exit Python would write to a pipe that is being closed
        raise
    executor.shutdown()


def _nothing() -> None:
    """What is done first: nothing, which shows that a process has begun."""


def _begin(start: Callable[[], None]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits for results gets it, and ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    start()


def _end_with_parent() -> None:
    """End with the process that started this one, which alone reads the results."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


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
