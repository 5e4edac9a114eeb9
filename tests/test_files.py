"""Files that are written whole: what stands there already, modes, links, devices, and who else writes."""

import os
import signal
import stat
import subprocess
import sys

import pytest

from refnp.files import held, write_whole
from refnp.training.checkpoint import load

posix = pytest.mark.skipif(os.name != "posix", reason="modes, links, pipes and locks are those of POSIX")


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@posix
def test_a_file_keeps_its_mode_and_a_new_one_has_that_of_the_umask(tmp_path):
    path, before = tmp_path / "report.json", os.umask(0o077)
    try:
        write_whole(path, b"new")
    finally:
        os.umask(before)
    assert mode(path) == 0o600
    path.chmod(0o640)
    write_whole(path, b"again")
    assert (mode(path), path.read_bytes()) == (0o640, b"again")


@posix
def test_the_target_of_a_link_is_written_and_the_link_stays(tmp_path):
    link, target = tmp_path / "link", tmp_path / "folder" / "file"
    target.parent.mkdir()
    link.symlink_to(target)
    for content in (b"made", b"replaced"):
        write_whole(link, content)
        assert link.is_symlink()
        assert target.read_bytes() == content


@posix
def test_a_pipe_is_written_into_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen([sys.executable, "-c", f"print(open({str(pipe)!r}).read())"], stdout=subprocess.PIPE)
    write_whole(pipe, b"through")
    assert reader.communicate()[0].strip() == b"through"
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    write_whole(os.devnull, b"nothing")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"


HOLDER = """
import sys, time
from refnp.files import held
with held(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@posix
def test_only_one_holds_a_file(tmp_path):
    """Another process is refused, by this one's number; afterwards, and after a kill, the next one has it."""
    path = tmp_path / "run.npz"
    other = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE)
    assert other.stdout.readline() == b"held\n"
    with (
        pytest.raises(BlockingIOError, match=f"run.npz is being written by another run .process {other.pid}"),
        held(path),
    ):
        pass
    other.kill()
    other.communicate()
    with held(path):
        assert os.listdir(tmp_path) == ["run.npz.lock"]
    assert os.listdir(tmp_path) == []


TRAINING = """
import signal
import numpy as np
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # what nohup starts ignores it
from refnp.layers.linear import Linear
from refnp.training import Adam, train
model = Linear(1, 1, rng=np.random.default_rng(0))
def loss(model, rng):
    print("a step", flush=True)
    return (model(rng.normal(size=(4, 1))) ** 2).sum()
options = {"steps": 10**6, "rng": np.random.default_rng(0), "checkpoint": "run.npz", "show": False}
train(model, loss, Adam(model.parameters()), **options)
"""


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_schedulers_send_stops_a_training_after_its_step(tmp_path, number):
    """The checkpoint holds what was done, and the process ends by the signal."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", TRAINING], cwd=tmp_path, env=env, stdout=subprocess.PIPE) as run:
        for _ in range(3):
            assert run.stdout.readline() == b"a step\n"
        run.send_signal(number)
        run.stdout.read()
        assert run.wait(60) == -number
    assert load(tmp_path / "run.npz").step >= 3
    assert os.listdir(tmp_path) == ["run.npz"]
