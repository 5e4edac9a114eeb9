"""Commands whose workers or scheduler are killed while they run: nothing is lost, the table is the same.

Each command does a small job twice, in this process and with two workers of which one is killed; a new one must begin.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import refnp
from refnp.cli import main
from refnp.verify.every.float32 import PARTS, Part, about_of, keep, part_name, read

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no list of processes")
SWEEP = """
models = ["cnp"]
tasks = ["eq"]
seeds = [0, 1, 2]
steps = 30
every = 10
evaluated = 16
batch = 2

[options.cnp]
hidden = 8
"""
# a command that shares any number of pieces among workers
COMMAND = """
import sys
from refnp import cli, pieces

pieces.workers_for.__kwdefaults__["few"] = 1
if __name__ == "__main__":
    sys.exit(cli.main(sys.argv[1:]))
"""
LEFT = 2  # parts of float32 that are not in the file


def workers_of(pid, among=b"multiprocessing.spawn"):
    """The processes that a process has started to share its work."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int(folder.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and among in folder.joinpath("cmdline").read_bytes():
                found.add(int(folder.name))
        except OSError:  # it has ended
            continue
    return found


def until(found, limit=120):
    """What is found, as soon as it is; an AssertionError if nothing is."""
    end = time.monotonic() + limit
    while not (value := found()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return value


def started(folder, *words):
    """A command that runs in a folder."""
    (folder / "command.py").write_text(COMMAND)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "command.py", *words], cwd=folder, **pipes)


def killed_in_the_middle(folder, *words):
    """Run a command of which one of two workers is killed as soon as both are there."""
    with started(folder, *words) as running:
        both = until(lambda: len(workers_of(running.pid)) >= 2 and workers_of(running.pid))
        os.kill(min(both), signal.SIGKILL)
        until(lambda: workers_of(running.pid) - both)
        _, said = running.communicate(timeout=200)
    assert running.returncode == 0, said


def rows(folder):
    """What `--json found.json` holds."""
    return json.loads((folder / "found.json").read_text())


def runs(folder):
    """What the runs of a sweep have come to, to the bit, and not how long they took."""
    figures = [json.loads(file.read_text()) for file in sorted(folder.rglob("figures.json"))]
    checkpoints = [dict(np.load(file)) for file in sorted(folder.rglob("checkpoint.npz"))]
    assert len(figures) == len(checkpoints) == 3
    weights = [{k: v.tolist() for k, v in one.items() if v.dtype.kind == "f"} for one in checkpoints]
    return [{name: found[name] for name in found if name != "made"} for found in figures], weights


def parts(folder):
    """What came of all parts of float32, without what was begun with."""
    found = read(folder / "parts.jsonl")
    assert len({part.name for part in found}) == len(found) == PARTS
    return sorted(part for part in found if part.found)


def without_parts(folder):
    """A file of all parts of float32 but `LEFT`, which says nothing of them."""
    report = refnp.judge("exp", np.exp, precision="float32", framework="numpy")
    about = about_of(report)
    for k in range(LEFT, PARTS):
        keep(folder / "parts.jsonl", Part(part_name(k), about, []))


JOBS = {
    "verify": (["verify", "--live", "none", "--only", "frameworks/gelu*", "--json", "found.json"], rows),
    "claims": (["claims", "--only", "norm", "--json", "found.json"], rows),
    "sweep": (["sweep", "sweep.toml"], runs),
    "float32": (["judge", "numpy:exp", "--as", "exp", "--every", "float32", "--results", "parts.jsonl"], parts),
}


@pytest.mark.parametrize("job", JOBS)
def test_a_worker_is_killed(job, tmp_path, monkeypatch, capsys):
    words, outcome = JOBS[job]
    found = []
    for name in ("alone", "shared"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "sweep.toml").write_text(SWEEP)
        if job == "float32":
            without_parts(folder)
        monkeypatch.chdir(folder)
        if name == "alone":
            assert main([*words, "--jobs", "1"]) == 0
        else:
            killed_in_the_middle(folder, *words, "--jobs", "2")
        found.append(outcome(folder))
    assert found[0] == found[1]


CLUSTER = """
from distributed import LocalCluster

if __name__ == "__main__":
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    print(cluster.scheduler_address, flush=True)
    input()
"""


def test_a_scheduler_is_killed_and_the_same_command_goes_on(tmp_path, monkeypatch, capsys):
    pytest.importorskip("distributed")
    (tmp_path / "cluster.py").write_text(CLUSTER)
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    for folder in (alone, shared):
        folder.mkdir()
        (folder / "sweep.toml").write_text(SWEEP)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "cluster.py"], cwd=tmp_path, **pipes) as cluster:
        address = cluster.stdout.readline().strip()
        workers = workers_of(cluster.pid)
        with started(shared, "sweep", "sweep.toml", "--cluster", address) as running:
            assert running.stdout.readline() == "3 runs, of which 0 are finished\n"
            until(lambda: list(shared.rglob("checkpoint.npz")))
            cluster.kill()
            _, said = running.communicate(timeout=100)
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
                os.kill(worker, signal.SIGKILL)
    assert running.returncode == 2
    assert f"the cluster {address} is gone; the same command begins again" in said
    monkeypatch.chdir(shared)
    assert main(["sweep", "sweep.toml", "--jobs", "1"]) == 0
    monkeypatch.chdir(alone)
    assert main(["sweep", "sweep.toml", "--jobs", "1"]) == 0
    assert runs(shared) == runs(alone)
