"""Checkpoints: all comes back, to the bit; or nothing does, with a reason; and a file is whole, or the old one."""

import contextlib
import errno
import io
import itertools
import json
import os
import pickle
import stat
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp import files
from refnp.training import checkpoint as page
from refnp.training.checkpoint import FORMAT, Checkpoint, load, restore, save
from tests.helpers import assert_same_bits
from tests.training.runs import a_run, assert_same_checkpoint, small


def test_everything_comes_back(tmp_path):
    save(tmp_path / "run.npz", small())
    assert_same_checkpoint(load(tmp_path / "run.npz"), small())
    save(str(tmp_path / "other.npz"), load(tmp_path / "run.npz"))
    assert (tmp_path / "run.npz").read_bytes() == (tmp_path / "other.npz").read_bytes()  # and nothing else is in it
    assert sorted(os.listdir(tmp_path)) == ["other.npz", "run.npz"]


@given(
    st.dictionaries(st.text(max_size=8), st.integers(0, 3), max_size=3),
    st.sampled_from([np.float32, np.float64, np.longdouble, np.complex128, np.int64, bool]),
    st.integers(0, 2**63 - 1),
)
def test_every_array_comes_back(tmp_path_factory, axes, dtype, seed):
    path = tmp_path_factory.getbasetemp() / "drawn.npz"
    rng = np.random.default_rng(seed)
    arrays = {name: rng.normal(size=rng.integers(0, 3, n)).astype(dtype) for name, n in axes.items()}
    arrays = {name: array for name, array in arrays.items() if "\0" not in name and name.isprintable()}
    save(path, Checkpoint(parameters=arrays, step=seed))
    assert_same_checkpoint(load(path), Checkpoint(parameters=arrays, step=seed))


def test_numpy_alone_reads_it(tmp_path):
    save(tmp_path / "run.npz", small())
    with np.load(tmp_path / "run.npz", allow_pickle=False) as stored:
        assert stored["format"] == FORMAT
        assert stored["step"] == 7
        assert json.loads(stored["configuration"].item())["options"]["features"] == 64
        assert json.loads(stored["generator"].item())["bits"]["bit_generator"] == "PCG64"
        assert_same_bits(stored["parameters/layers.0.bias"], small().parameters["layers.0.bias"])
        assert not any(stored[name].dtype.hasobject for name in stored.files)


def test_a_trained_model_is_a_checkpoint_without_a_run(tmp_path):
    model, optimizer, rng = a_run(0)
    save(tmp_path / "model.npz", Checkpoint(parameters=model.state_dict()))
    fresh = a_run(1)[0]
    fresh.load_state_dict(load(tmp_path / "model.npz").weights)
    for name, array in model.state_dict().items():
        assert_same_bits(fresh.state_dict()[name], array)
    with pytest.raises(ValueError, match="a trained model, not a run to go on with"):
        restore(load(tmp_path / "model.npz"), model, optimizer, rng)


def test_the_weights_are_the_best_ones_if_there_are_any():
    assert small().weights["weight"][0, 0] == 1
    assert Checkpoint(parameters=small().parameters).weights["weight"][0, 0] == 0


# What may lie at a path


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run.npz"
    save(path, small())
    return path.read_bytes()


def loaded(content, folder):
    (folder / "x.npz").write_bytes(content)
    return load(folder / "x.npz")


@given(st.data())
def test_a_file_cut_short_is_refused(tmp_path_factory, content, data):
    length = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(ValueError, match=r"x.npz is (not a checkpoint|cut short or damaged)"):
        loaded(content[:length], tmp_path_factory.getbasetemp())


def refused(content, folder):
    """Whether a file is refused; else it must hold what it should."""
    try:
        checkpoint = loaded(content, folder)
    except ValueError as wrong:
        assert "x.npz" in str(wrong)  # noqa: PT017
        return True
    assert_same_checkpoint(checkpoint, small())
    return False


def flipped(content, place, bit):
    spoilt = bytearray(content)
    spoilt[place] ^= 1 << bit
    return spoilt


@pytest.mark.parametrize("part", range(4))
def test_a_changed_byte_is_found_or_changes_nothing(tmp_path, content, part):
    """Zip has bytes that say nothing, such as dates; all others are noticed."""
    places = range(part * 7, len(content), 89)
    assert sum(refused(flipped(content, place, place % 8), tmp_path) for place in places) > len(places) / 2


@pytest.mark.parametrize("bit", range(8))
def test_a_list_of_entries_that_was_moved_is_found(tmp_path, content, bit):
    """The last 22 bytes of a zip say where its list of entries begins: read from elsewhere, the first are gone."""
    end = len(content) - 22
    assert content[end:].startswith(b"PK\x05\x06")
    assert sum(refused(flipped(content, place, bit), tmp_path) for place in range(end, len(content))) >= 11


@pytest.mark.parametrize(("entry", "other"), [(b"(2000,)", b"(1000,)"), (b"<f8", b"<f4"), (b"<f8", b"<i8")])
def test_a_changed_shape_or_type_is_found(tmp_path, entry, other):
    """Fewer bytes would be read then, and a checksum that comes after the last would never be looked at."""
    save(tmp_path / "x.npz", Checkpoint(parameters={"weight": np.ones(2000)}))
    spoilt = (tmp_path / "x.npz").read_bytes().replace(entry, other)
    with pytest.raises(ValueError, match=r"cut short or damaged .the contents of parameters/weight"):
        loaded(spoilt, tmp_path)


def npz(**arrays):
    file = io.BytesIO()
    contents = json.dumps([name for name in arrays if name != "format"])
    np.savez(file, **{"contents": contents} | arrays)
    return file.getvalue()


def zipped(name, text):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, text)
    return file.getvalue()


FIELDS = {"format": 1, "configuration": "{}", "step": 0, "generator": "", "optimizer_name": ""}


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        (b"", "is not a checkpoint: it does not begin as a .npz file does"),
        (b"P", "is not a checkpoint"),
        (b"Dear all,\n", "is not a checkpoint"),
        (pickle.dumps({"step": 1}), "is not a checkpoint"),
        (npz(weight=np.ones(2)), r"not a checkpoint of refnp: it has no entry 'format', but \['contents', 'weight'\]"),
        (npz(**FIELDS | {"format": FORMAT + 1}), f"format {FORMAT + 1}; this refnp reads up to {FORMAT}"),
        (npz(**FIELDS | {"format": np.ones(2)}), "has format"),
        (npz(**FIELDS | {"format": "new"}), "has format new"),
        (npz(**FIELDS | {"configuration": "{"}), "was not written by save"),
        (npz(**FIELDS | {"configuration": 3}), "was not written by save"),
        (npz(**FIELDS | {"configuration": "null"}), "save: configuration is None; it must be names with values"),
        (npz(**FIELDS | {"configuration": "3"}), "save: configuration is 3; it must be"),
        (npz(**FIELDS | {"configuration": '["CNP"]'}), r"save: configuration is \['CNP'\]; it must be"),
        (npz(**FIELDS | {"configuration": '"CNP"'}), "save: configuration is 'CNP'; it must be"),
        (npz(**FIELDS | {"configuration": "[" * 10**5}), "save: configuration is .*, which is no JSON"),
        (npz(**FIELDS | {"configuration": np.array(["{}"])}), r"save: configuration is \['{}'\]; it must be text"),
        (npz(**FIELDS | {"configuration": b"{}"}), "save: configuration is b'{}'; it must be text"),
        (npz(**FIELDS | {"generator": 1}), "save: generator is 1; it must be text"),
        (npz(**FIELDS | {"optimizer_name": np.ones(3)}), r"save: optimizer_name is \[1.0, 1.0, 1.0\]; it must be text"),
        (npz(**FIELDS | {"step": np.ones(2, int)}), r"save: step is \[1, 1\]; it must be a whole number from 0"),
        (npz(**FIELDS | {"step": 1.5}), "save: step is 1.5; it must be a whole number from 0"),
        (npz(**FIELDS | {"step": -1}), "save: step is -1; it must be a whole number from 0"),
        (
            npz(**FIELDS | {"step": np.uint64(2**63)}),
            "save: step is 9223372036854775808; it must be a whole number from 0",
        ),
        (npz(**FIELDS | {"extra": 1}), "save: it has an entry extra, which is none of parameters/NAME"),
        (npz(**FIELDS | {"other/x": 1}), "save: it has an entry other/x, which is none of"),
        (npz(**FIELDS | {"parameters/x": "one"}), "was not written by save.* not numbers"),
        (
            npz(**FIELDS | {"parameters/x": np.nan}),
            r"save: parameters/x must be finite, and is nan \(it\); use an older copy",
        ),
        (
            npz(**FIELDS | {"parameters/x": np.array([[1, 2], [-np.inf, np.nan]], np.float32)}),
            r"save: parameters/x must be finite, and is -inf \(2 of 4 numbers, the first at \[1, 0\]\)",
        ),
        (npz(**FIELDS | {"best/x": np.array([np.inf])}), r"best/x must be finite, and is inf \(1 of 1 numbers"),
        (npz(**FIELDS | {"best/x": np.array([complex(0, np.nan)])}), "best/x must be finite"),
        (npz(**FIELDS | {"optimizer/x": np.array([np.inf, np.nan])}), r"optimizer/x must be finite.*first at \[1\]"),
        (npz(format=1), "was not written by save: the entry configuration is missing"),
        (npz(format=1, configuration="{}"), "was not written by save: the entry step is missing"),
        (npz(**FIELDS | {"contents": '["parameters/x"]'}), "was not written by save.*entries are missing"),
        (npz(**FIELDS | {"contents": "null"}), "save: contents is None; it must be a list of names"),
        (npz(**FIELDS | {"contents": "[[]]"}), r"save: contents is \[\[\]\]; it must be a list of names"),
        (npz(**FIELDS, **{"parameters/x": np.array([{}], object)}), r"cut short or damaged \(Object arrays cannot"),
        (zipped("format.npy", "not an array"), "has format b'not an array'"),
        (zipped("read me", "hello"), "is not a checkpoint of refnp"),
    ],
)
def test_something_else_is_refused(tmp_path, spoilt, message):
    with pytest.raises(ValueError, match=message):
        loaded(spoilt, tmp_path)


def lying(shape, dtype="<f8"):
    """A zip, sound in itself, with an array of one number that says it has another shape or type."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    return zipped("parameters/x.npy", header.getvalue() + bytes(8))


@pytest.mark.parametrize("bad", [lying((10**12,)), lying((10**6,) * 5), lying((2,)), lying((), "<f4"), lying((0, 3))])
def test_an_array_that_is_not_all_there_is_refused_before_there_is_memory_for_it(tmp_path, bad):
    message = (
        r"x.npz is cut short or damaged \(parameters/x.npy says it is float.*, and has 8 bytes\); use an older copy"
    )
    with pytest.raises(ValueError, match=message):
        loaded(bad, tmp_path)


def test_a_history_may_have_nan_and_a_second_moment_may_have_overflowed(tmp_path):
    run = Checkpoint({}, optimizer={"v": np.array([np.inf])}, history={"gap": np.array([np.nan, np.inf])})
    save(tmp_path / "run.npz", run)
    assert_same_checkpoint(load(tmp_path / "run.npz"), run)


def test_no_file_and_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.npz"):
        load(tmp_path / "none.npz")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)


# What may go wrong when it is written


@contextlib.contextmanager
def files_no_longer_than(size):
    """The system refuses to write more: a real error, as that of a full disk, without filling one."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def larger():
    return Checkpoint(parameters={"weight": np.ones(10_000)}, step=8)


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path):
    path = tmp_path / "run.npz"
    save(path, small())
    with (
        files_no_longer_than(20_000),
        pytest.raises(OSError, match=r"save: .*the checkpoint was not written") as caught,
    ):
        save(path, larger())
    assert caught.value.errno == errno.EFBIG
    assert caught.value.filename == str(path)
    assert os.listdir(tmp_path) == ["run.npz"]
    assert_same_checkpoint(load(path), small())
    save(path, larger())
    assert load(path).step == 8


@pytest.mark.skipif(os.name != "posix", reason="folders cannot be synced")
def test_it_is_on_the_disk_before_it_has_its_name_and_then_its_name_is(tmp_path, monkeypatch):
    happened = []
    fsync, replace = os.fsync, os.replace
    kind = lambda descriptor: "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
    monkeypatch.setattr(os, "fsync", lambda descriptor: (happened.append(kind(descriptor)), fsync(descriptor)))
    monkeypatch.setattr(os, "replace", lambda *paths: (happened.append("name"), replace(*paths)))
    save(tmp_path / "run.npz", small())
    assert happened == ["file", "name", "folder"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file closed by Python, not by `with`
@pytest.mark.parametrize("old", [True, False])
def test_ctrl_c_at_any_line_leaves_no_other_file(tmp_path, old):
    """KeyboardInterrupt as it comes, between two lines of Python: at each line that is executed in turn."""
    path = tmp_path / "run.npz"
    outcomes = []
    while not outcomes or outcomes[-1] != "written":
        moment = len(outcomes)
        for file in tmp_path.iterdir():
            file.unlink()
        if old:
            save(path, small())
        outcomes.append(interrupted(lambda: save(path, larger()), moment))
        assert set(os.listdir(tmp_path)) <= {"run.npz"}, moment
        if old:
            assert load(path).step in (7, 8)
        elif path.exists():
            assert load(path).step == 8
    assert len(outcomes) > 40


def interrupted(work, moment):
    """Do `work` with a KeyboardInterrupt before line number `moment` of the page and of the one that writes files."""
    count = itertools.count()

    def trace(frame, event, _):
        if frame.f_code.co_filename not in (page.__file__, files.__file__):
            return None
        if event == "line" and next(count) == moment:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return "interrupted"
    finally:
        sys.settrace(before)
    return "written"


@pytest.mark.skipif(os.name != "posix", reason="there is no flock")
def test_what_a_killed_process_left_goes_with_the_next_write_and_what_a_running_one_writes_stays(tmp_path):
    """Locks tell them apart: a process number is that of another process in another container."""
    left, kept = ["run.npz.12.partial", "run.npz.x.partial"], ["other.npz.1.partial", "run.npz.partial"]
    for name in left + kept:
        (tmp_path / name).write_text("half")
    running = tmp_path / "run.npz.1234.partial"
    with open(running, "xb") as file:
        assert files.has_lock(file, str(running))
        save(tmp_path / "run.npz", small())
        assert set(os.listdir(tmp_path)) == {"run.npz", running.name, *kept}
    save(tmp_path / "run.npz", small())
    assert set(os.listdir(tmp_path)) == {"run.npz", *kept}


WRITER = """
import sys, numpy as np
from refnp import files
from refnp.training.checkpoint import Checkpoint, save
for _ in range(60):
    save(sys.argv[1], Checkpoint({"w": np.ones(int(sys.argv[2]))}))
"""


@pytest.mark.skipif(os.name != "posix", reason="there is no flock")
def test_two_writers_leave_a_whole_file_at_every_moment(tmp_path):
    path = tmp_path / "run.npz"
    save(path, Checkpoint({"w": np.ones(1)}))
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), size]) for size in ("2000", "90000")]
    while any(writer.poll() is None for writer in writers):
        load(path)
    assert [writer.returncode for writer in writers] == [0, 0]
    assert os.listdir(tmp_path) == ["run.npz"]


@pytest.mark.parametrize("function", ["fsync", "replace"])
@pytest.mark.parametrize(
    "failure",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        PermissionError(errno.EACCES, "Permission denied"),
        KeyboardInterrupt(),
    ],
)
def test_any_failure_leaves_the_old_checkpoint(tmp_path, monkeypatch, function, failure):
    path = tmp_path / "run.npz"
    save(path, small())

    def fail(*arguments):
        raise failure

    with monkeypatch.context() as patched:
        patched.setattr(os, function, fail)
        with pytest.raises(type(failure), match=getattr(failure, "strerror", None)):
            save(path, larger())
    assert os.listdir(tmp_path) == ["run.npz"]
    assert_same_checkpoint(load(path), small())


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("text")
    for path, error in (
        (tmp_path / "none" / "run.npz", FileNotFoundError),
        (tmp_path / "file" / "run.npz", NotADirectoryError),
        (tmp_path, IsADirectoryError),
    ):
        with pytest.raises(error, match=r"save: .*the checkpoint was not written"):
            save(path, small())
    assert os.listdir(tmp_path) == ["file"]
    assert not list(tmp_path.parent.glob("*.partial"))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="save: Permission denied"):
        save(tmp_path / "run.npz", small())


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "run.npz"
    link.symlink_to(tmp_path / "elsewhere" / "real.npz")
    save(link, small())
    assert link.is_symlink()
    assert_same_checkpoint(load(tmp_path / "elsewhere" / "real.npz"), small())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Checkpoint({}, configuration={"activation": max}), "not JSON serializable"),
        (Checkpoint({}, configuration=None), "save: configuration is None; it must be a dict"),
        (Checkpoint({}, configuration=[1]), r"save: configuration is \[1\]; it must be a dict"),
        (Checkpoint({"x": np.array([None])}), "parameters/x is object, not numbers"),
        (Checkpoint({}, history={"loss": np.array(["a"])}), "history/loss is <U1, not numbers"),
    ],
)
def test_what_numpy_would_have_to_pickle_is_refused(tmp_path, wrong, message):
    with pytest.raises(TypeError, match=message):
        save(tmp_path / "run.npz", wrong)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            Checkpoint({"x": np.array([1, np.nan])}),
            r"parameters/x must be finite, and is nan \(1 of 2 numbers, the first",
        ),
        (Checkpoint({}, best={"x": np.array(np.inf)}), r"best/x must be finite, and is inf \(it\)"),
        (Checkpoint({}, optimizer={"m": np.array([np.nan])}), "optimizer/m must be finite, and is nan"),
        (Checkpoint({}, step=-1), "step is -1; it must be a whole number from 0"),
        (Checkpoint({}, step=0.5), "step is 0.5; it must be a whole number from 0"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path, wrong, message):
    with pytest.raises(ValueError, match=f"save: nothing was written: {message}"):
        save(tmp_path / "run.npz", wrong)
    assert os.listdir(tmp_path) == []


def test_what_unfolds_and_what_is_there_twice_is_refused(tmp_path):
    """A small file that says 6 GB of zeros would take them."""
    save(tmp_path / "run.npz", small())
    with zipfile.ZipFile(tmp_path / "run.npz") as stored:
        entries = {name: stored.read(name) for name in stored.namelist()}
    with zipfile.ZipFile(tmp_path / "small.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    with zipfile.ZipFile(tmp_path / "twice.npz", "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("step.npy", entries["step.npy"])
    for file, message in (("small", "is compressed"), ("twice", "step.npy is there twice")):
        with pytest.raises(ValueError, match=message):
            load(tmp_path / f"{file}.npz")


@pytest.mark.parametrize("wrong", [np.float64(1.0), np.ones((2, 2)), np.ones(2) * 1j])
def test_a_history_that_is_none_is_refused_before_anything_is_loaded(tmp_path, wrong):
    with pytest.raises(ValueError, match=r"history/loss is .*; it must be real numbers, one for each step"):
        save(tmp_path / "run.npz", Checkpoint({}, history={"loss": wrong}))
