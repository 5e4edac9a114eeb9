"""`python -m benchmarks`: the same work in refnp and in every peer that is installed, in turns, as ratios.

A ratio below 1 means that refnp is faster. Before anything is timed, all must agree on values and gradients within
rounding. Exit code 0 if everything asked for was measured, 2 if not.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys

from benchmarks import growth, machine, page, report, roofline
from benchmarks.timing import Clock, Pairs, Work, alternate, disagreement
from benchmarks.worker import Earlier, Worker
from benchmarks.works import all_works, find

PROCESSES = 3  # of each side, one after the other, that a work item is timed in; with --quick one
SHORT = 5.0  # seconds; work that takes less is repeated, for its first run warms up
LONG = 2.0  # seconds; work that takes longer with one thread is not compared with that of several
CLOSEST = ("torch", "before")  # peers that are measured more often than the others


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n")[0])
    options.add_argument("--only", metavar="TEXT", default="", help='work whose "name dtype" contains TEXT')
    options.add_argument("--peers", metavar="NAMES", help=f"some of {','.join(machine.PEERS)}; all that are installed")
    options.add_argument("--before", metavar="DIR", type=pathlib.Path, help="also refnp as it is in another checkout")
    options.add_argument("--threads", type=int, default=len(machine.cores()), help="of every framework (all cores)")
    options.add_argument("--quick", action="store_true", help="fewer pairs, float32, no peak of memory")
    options.add_argument("--markdown", action="store_true", help="the table as Markdown")
    options.add_argument(
        "--page",
        action="store_true",
        help="all of it against PyTorch, roofline and growth too, into docs/benchmarks.md",
    )
    options.add_argument(
        "--again",
        action="store_true",
        help="the ratios to PyTorch and to one thread once more, beside those of --page, to see whether they stay",
    )
    options.add_argument("--json", metavar="FILE", type=pathlib.Path, help="write the rows to FILE as well")
    return options


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    if not 1 <= options.threads <= len(machine.cores()):
        parser().error(f"--threads is {options.threads}; this process may use {len(machine.cores())} cores")
    if options.json and not options.json.parent.is_dir():
        parser().error(f"--json: there is no folder {options.json.parent}")
    whole = "--page" if options.page else "--again"
    if (options.page or options.again) and any(
        (options.only, options.quick, options.before, options.json, options.peers, options.page and options.again)
    ):
        parser().error(f"{whole} measures everything against PyTorch; --threads and --markdown alone go with it")
    options.peers = page.PEER if options.page or options.again else options.peers
    peers = machine.installed() if options.peers is None else [name for name in options.peers.split(",") if name]
    if missing := [name for name in peers if name not in machine.installed()]:
        parser().error(
            f"--peers: {', '.join(missing)} not installed; here are {', '.join(machine.installed()) or 'none'}"
        )
    if options.before and not (options.before / "benchmarks" / "worker.py").is_file():
        parser().error(f"--before: {options.before} is no checkout of refnp")
    works = [work for work in all_works() if options.only.lower() in f"{work.name} {work.dtype}".lower()]
    if options.quick:
        works = [work for work in works if work.dtype == "float32" or work.units > 1]
    if not works:
        names = ", ".join(dict.fromkeys(work.name for work in all_works()))
        parser().error(f"--only {options.only!r} matches nothing; there are {names}, with float32 and float64")
    machine.prepare(options.threads)
    return measure(works, peers, options)


def measure(works: list[Work], peers: list[str], options: argparse.Namespace) -> int:
    """Print a row for each work item and peer as it is done."""
    about = machine.description(options.threads)
    if options.again and not page.file_of(about).is_file():
        print("benchmarks: --again comes after --page on the same machine; run that first", file=sys.stderr)
        return 2
    more = {"roofline": roofline.measured(options.threads)} if options.page else {}
    print(*report.heading(about, markdown=options.markdown), sep="\n", flush=True)
    found: list[report.Row] = []
    failures = []
    if options.before:
        peers = [*peers, "before"]
    for work, peer in ((work, peer) for work in works for peer in peers if peer in {*work.makers, "before"}):
        try:
            found.append(compare(work, peer, options))
        except (RuntimeError, ValueError) as error:  # one failure does not stop the rest of the table
            failures.append(f"{work.name} {work.dtype} with {peer}: {error}")
            continue
        print(report.line(found[-1].cells(), markdown=options.markdown), flush=True)
    print("", *report.summary(found), sep="\n")
    if options.json:
        report.write_json(options.json, about, found)
    if options.page and found:
        more["threads"] = against_one_thread(works, options.threads)
        more["growth"] = [dataclasses.asdict(growth.measured(one, alone)) for one in growth.series()]
        report.write_json(page.file_of(about), about, found, **more)
        page.write_page()
    if options.again and found:
        page.keep_again(about, found, against_one_thread(works, options.threads))
        page.write_page()
    for failure in failures:
        print(f"benchmarks: not measured: {failure}", file=sys.stderr)
    return 2 if failures else 0


def compare(work: Work, peer: str, options: argparse.Namespace) -> report.Row:
    """Both sides compared, then timed in turns; both again in fresh processes, and all times together."""
    thorough = peer in CLOSEST and not options.quick
    first, second = [], []
    for process in range(1 if options.quick else PROCESSES):
        with Worker("refnp", options.threads) as ours, start(peer, options) as theirs:
            for side in (ours, theirs):
                side.make(work)
            if process == 0:
                differs = disagreement(ours.result(), theirs.result(), work)
            pairs = alternate(ours.clock, theirs.clock, seconds=0.7 if thorough else 0.3, least=3)
            first += pairs.first
            second += pairs.second
    row = report.row_of(work, peer, options.threads, Pairs(first, second), differs)
    if not work.memory or options.quick or peer == "before":
        return row
    ours_mb, theirs_mb = (peak_of(work, framework, options.threads) for framework in ("refnp", peer))
    return dataclasses.replace(row, refnp_peak_mb=ours_mb, peer_peak_mb=theirs_mb, aim_mb=work.aims.get("memory"))


def start(peer: str, options: argparse.Namespace) -> Worker:
    """A process for that peer."""
    if peer == "before":
        return Earlier(options.before.resolve(), options.threads)
    return Worker(peer, options.threads)


def against_one_thread(works: list[Work], threads: int) -> list[dict]:
    """The time with all threads over that with one, of work that is not long.

    Both in one process, for two processes that do the same with one thread may differ by a quarter.
    """
    found: list[dict] = []
    if threads == 1:
        return found
    for work in (work for work in works if page.PEER in work.makers):
        with Worker("refnp", threads) as ours:
            ours.make(work)
            several, one = (clock_with(ours, count) for count in (threads, 1))
            if one(1) < LONG:
                low, middle, high = alternate(several, one, seconds=2, least=5).quartiles()
                found.append({"work": work.name, "dtype": work.dtype, "ratio": middle, "low": low, "high": high})
    return found


def clock_with(worker: Worker, threads: int) -> Clock:
    """The clock of that process with so many threads."""

    def seconds(count: int) -> float:
        worker.use_threads(threads)
        return worker.clock(count)

    return seconds


def alone(name: str) -> tuple[float, float]:
    """Seconds of one processor and megabytes of a work item of refnp, in a fresh process: its first run if it is long.

    Not by the clock, which counts what others do meanwhile; with one thread, for threads that wait use processors too.
    """
    with Worker("refnp", 1) as fresh:
        fresh.make(find(name, "float32"))
        megabytes, seconds = fresh.peak()
        if seconds < SHORT:
            seconds = min(fresh.peak()[1] for _ in range(5))
        return seconds, megabytes


def peak_of(work: Work, framework: str, threads: int) -> float:
    """Megabytes that the work needs beyond its inputs, in a fresh process."""
    with Worker(framework, threads) as fresh:
        fresh.make(work)
        return fresh.peak()[0]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
