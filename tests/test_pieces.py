"""Many independent pieces: order, errors, workers that die, Ctrl-C, versions, and the same report for any workers."""

import functools
import json
import operator
import os
import signal
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool

import pytest

from refnp import pieces
from refnp.pieces import DEATHS, FEW, HERE, MOST, Workers, in_order, workers_for

TWO = Workers(2)
CLUSTER = Workers(2, "local:2")


@pytest.fixture(params=[TWO, CLUSTER], ids=["processes", "cluster"])
def workers(request):
    """Both engines."""
    if request.param.cluster:
        pytest.importorskip("distributed")
    return request.param


def once(file, number):
    """The number; but the first that gets here finds no file and is killed."""
    if not file.exists():
        file.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return -number


def noted(file, number):
    """A number that kills whoever computes it, and a line for each try."""
    with file.open("a") as lines:
        lines.write("tried\n")
    os.kill(os.getpid(), signal.SIGKILL)


def of_root(x):
    """A piece that may fail."""
    return x**0.5 if x >= 0 else operator.truediv(1, 0)


@pytest.mark.skipif(os.name != "posix", reason="no such signal")
def test_workers_that_die_lose_nothing_but_the_piece_that_kills_them(workers, tmp_path):
    work = [functools.partial(operator.neg, n) for n in range(12)]
    work[3] = functools.partial(once, tmp_path / "once", 3)
    work[7] = functools.partial(noted, tmp_path / "tries", 7)
    found = list(in_order(operator.call, work, workers, lost=lambda piece: f"lost {piece.args[1]}"))
    assert found == [0, -1, -2, -3, -4, -5, -6, "lost 7", -8, -9, -10, -11]
    assert len((tmp_path / "tries").read_text().split()) >= DEATHS


def filled(size):
    """A piece that needs so many bytes."""
    return len(bytearray(size))


def test_a_piece_that_lacks_memory_takes_no_other_with_it(workers):
    for who in (HERE, workers):
        assert list(in_order(filled, [1, 2, 2**62, 3, 4], who, lost=lambda size: "lost")) == [1, 2, "lost", 3, 4]
    with pytest.raises(RuntimeError, match=rf"{2**62}: it lacks memory"):
        list(in_order(filled, [2**62], HERE))


def test_an_exception_names_its_piece(workers):
    with pytest.raises(ZeroDivisionError) as raised:
        list(in_order(of_root, [1.0, -2.0, 3.0, 4.0], workers, named=lambda x: f"the root of {x}"))
    assert raised.value.__notes__[-1] == "in the root of -2.0"
    with pytest.raises(ZeroDivisionError) as raised:
        list(in_order(of_root, [-2.0], HERE))
    assert raised.value.__notes__ == ["in -2.0"]


class Unreadable(Exception):
    """What can be written and not read: its attribute is no argument of its constructor."""

    def __init__(self, *, number):
        super().__init__(number)


def unreadable(number):
    """A result that another process can't read."""
    return Unreadable(number=number)


def test_a_result_that_cannot_be_read_is_no_death():
    with pytest.raises(BrokenProcessPool) as raised:
        list(in_order(unreadable, [1, 2], TWO, lost=lambda piece: "lost"))
    assert "Unreadable.__init__() takes" in str(raised.value.__cause__)
    assert raised.value.__notes__ == ["in 1"]


def test_a_piece_that_nothing_stands_for_fails_by_name():
    with pytest.raises(RuntimeError, match=r"piece 5: .* the process that computed it died"):
        pieces.Work(operator.neg, [5], lambda n: f"piece {n}", None).given_up(5)


def test_a_worker_of_another_version_is_refused(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(pieces, "versions", lambda: "refnp 0 and NumPy 1")
    with pytest.raises(ValueError, match=r"a worker .* has refnp \d.* and NumPy \d.*; here .* refnp 0 and"):
        list(in_order(operator.neg, [1, 2], CLUSTER))


def test_what_is_no_cluster_is_refused():
    pytest.importorskip("distributed")
    for where in ("local:many", "local:0"):
        with pytest.raises(ValueError, match=r"write local:N"):
            list(in_order(operator.neg, [1, 2], Workers(2, where)))


def test_a_cluster_needs_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"refnp\[cluster\]"):
        list(in_order(operator.neg, [1, 2], CLUSTER))


def test_how_many(monkeypatch):
    monkeypatch.setattr(pieces, "cores", lambda: 64)
    assert [workers_for(n).processes for n in (1, FEW - 1, FEW)] == [1, 1, MOST]
    assert [workers_for(FEW, n).processes for n in (1, 7)] == [1, 7]
    assert workers_for(1, 2, "local:2").cluster == "local:2"
    monkeypatch.setattr(pieces.multiprocessing, "parent_process", lambda: object())
    assert workers_for(FEW, 7) == HERE


def verify(*words):
    return [sys.executable, "-m", "refnp", "verify", "--live", "none", *words]


def test_any_workers_report_what_one_process_does(workers, tmp_path):
    reports = []
    engine = ("--cluster", workers.cluster) if workers.cluster else ("--jobs", "2")
    for words in (("--jobs", "1"), engine):
        file = tmp_path / f"{len(reports)}.json"
        command = verify("--only", "frameworks/layer_norm*", *words, "--json", str(file))
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        lines = [line for line in done.stdout.splitlines() if "rows judged" not in line]  # which says how long it took
        reports.append((json.loads(file.read_text()), lines))
    assert reports[0] == reports[1]


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals are others here")
def test_ctrl_c_ends_all_of_them_and_says_what_is_finished(ctrl_c):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(verify("--jobs", "2"), **pipes, start_new_session=True) as running:
        for _ in range(30):
            running.stdout.readline()
        os.killpg(running.pid, signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert said == "" or (said.startswith("refnp verify: stopped; ") and said.endswith(" are finished\n"))


SHARING = """
import operator, os
from refnp.pieces import Workers, in_order

if __name__ == "__main__":
    for process in in_order(operator.call, [os.getpid] * 100_000, Workers(2)):
        print(process, flush=True)
"""


def test_the_death_of_the_one_that_waits_ends_the_others(tmp_path):
    (tmp_path / "sharing.py").write_text(SHARING)
    with subprocess.Popen([sys.executable, tmp_path / "sharing.py"], stdout=subprocess.PIPE, text=True) as running:
        running.stdout.readline()
        running.kill()
        running.communicate(timeout=20)  # its end is that of all who have this standard output
    assert running.returncode == -signal.SIGKILL
