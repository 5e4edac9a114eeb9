"""Work shared by processes: order, errors, processes that die, Ctrl-C, and the same report as from one process."""

import functools
import json
import math
import operator
import os
import signal
import subprocess
import sys
import time

import pytest

from refnp.verify import processes
from refnp.verify.processes import FEW, MOST, in_order, jobs_for

MANY = 2000  # items, of which some are left when the processes have started


def shared(function, items, here):
    """What two processes make of the items; here, an item takes so long that they take over."""

    def slowly(item):
        time.sleep(0.02)
        return here(item)

    return in_order(function, items, 2, start=int, here=slowly, lost=lambda item: "lost")


def test_the_first_items_are_done_here_and_the_others_there_in_their_order():
    found = list(shared(operator.pos, range(MANY), operator.neg))
    mine = sum(number < 0 for number in found)
    assert 0 < mine < MANY - 2
    assert found == [-n for n in range(mine + 1)] + [*range(mine + 1, MANY)]
    assert list(shared(operator.pos, [], operator.neg)) == []


def test_what_is_raised_there_is_raised_here():
    with pytest.raises(ValueError, match="math domain error"):
        list(shared(math.sqrt, [-1.0] * MANY, operator.neg))


def test_a_process_that_dies_loses_its_own_item_alone():
    items = [functools.partial(int, n) for n in range(MANY)]
    items[-5] = os.abort
    found = list(shared(operator.call, items, operator.call))
    assert found == [*range(MANY - 5), "lost", *range(MANY - 4, MANY)]


def test_how_many(monkeypatch):
    monkeypatch.setattr(processes, "cores", lambda: 64)
    assert [jobs_for(n, None) for n in (1, FEW - 1, FEW)] == [1, 1, MOST]
    assert [jobs_for(FEW, n) for n in (1, 7)] == [1, 7]
    monkeypatch.setattr(processes.multiprocessing, "parent_process", lambda: object())
    assert jobs_for(FEW, 7) == 1


def verify(*words):
    return [sys.executable, "-m", "refnp", "verify", "--live", "none", *words]


def test_two_processes_report_what_one_does(tmp_path):
    reports = []
    for jobs in "12":
        file = tmp_path / f"{jobs}.json"
        command = verify("--only", "frameworks/layer_norm*", "--jobs", jobs, "--json", str(file))
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        lines = [line for line in done.stdout.splitlines() if "rows judged" not in line]  # which says how long it took
        reports.append((json.loads(file.read_text()), lines))
    assert reports[0] == reports[1]


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals are others here")
def test_ctrl_c_ends_all_of_them(ctrl_c):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(verify("--jobs", "2"), **pipes, start_new_session=True) as running:
        for _ in range(30):
            running.stdout.readline()
        os.killpg(running.pid, signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert (running.returncode, said) == (130, "")


SHARING = """
import operator, os, time
from refnp.verify.processes import in_order

if __name__ == "__main__":
    slowly = lambda item: time.sleep(0.02)
    for process in in_order(operator.call, [os.getpid] * 100_000, 2, start=int, here=slowly, lost=int):
        print(process, flush=True)
"""


def test_the_death_of_the_one_that_waits_ends_the_others(tmp_path):
    (tmp_path / "sharing.py").write_text(SHARING)
    with subprocess.Popen([sys.executable, tmp_path / "sharing.py"], stdout=subprocess.PIPE, text=True) as running:
        while running.stdout.readline() == "None\n":
            pass
        running.kill()
        running.communicate(timeout=20)  # its end is that of all who have this standard output
    assert running.returncode == -signal.SIGKILL
