"""Cases as files: what goes in comes out, the same bytes every time, whole or not at all, in every layout."""

import dataclasses
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from refnp import cli
from refnp.numbers.rounding import tolerance
from refnp.verify.case import Case, Layer
from refnp.verify.exchange import cases as exchange
from refnp.verify.exchange import export, formats
from refnp.verify.exchange.answers import judged_folder
from refnp.verify.exchange.cases import remove_left_folders
from refnp.verify.judge import WITHIN, deviation
from refnp.verify.layers import cases

LAYOUTS = list(formats.FORMATS)
SOME = "attention*"  # with masks, NaN, infinities
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def written(folder, layout="npz", **options):
    if layout == "safetensors":
        pytest.importorskip("safetensors")
    export(folder, layout, **options)
    return folder


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def unpacked(folder, layout, name):
    """Header and arrays of an exported case, read with as little of refnp as can be."""
    if layout == "npz":
        with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
            return json.loads(file["case.json"]), {key: file[key] for key in file.files if key != "case.json"}
    if layout == "safetensors":
        import safetensors

        with safetensors.safe_open(folder / f"{name}.safetensors", "np") as file:
            return json.loads(file.metadata()["case"]), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    header = json.loads((folder / (f"{name}.json" if layout == "json" else f"{name}/case.json")).read_bytes())
    arrays = {}
    for key, entry in header.pop("arrays").items():
        shape, dtype = entry["shape"], entry["dtype"]
        if layout == "raw":
            arrays[key] = np.fromfile(folder / name / entry["file"], dtype).reshape(shape)
        else:
            arrays[key] = np.array([float(x) if dtype[0] == "f" else x for x in entry["data"]], dtype).reshape(shape)
    return header, arrays


@every_layout
def test_every_number_comes_back(tmp_path, layout):
    folder = written(tmp_path / "cases", layout, only=SOME)
    problems = exchange.ids_of(exchange.chosen_problems(SOME))
    assert len(problems) > 20
    kept = set()
    for name, problem in problems.items():
        header, arrays = unpacked(folder, layout, name)
        assert (header["id"], header["case"], header["dtype"]) == (name, problem.case.name, problem.dtype)
        assert header["arguments"] == list(problem.arrays)
        with np.errstate(all="ignore"):
            expected = exchange.arrays_of(problem)
        assert arrays.keys() == expected.keys()
        for key, array in expected.items():
            np.testing.assert_array_equal(arrays[key], array, strict=True)
            if np.issubdtype(array.dtype, np.floating):
                np.testing.assert_array_equal(np.signbit(arrays[key]), np.signbit(array))
            kept |= {array.dtype.kind, *np.unique(array[~np.isfinite(array)]).astype(str)}
        for quantity in problem.case.quantities:
            assert f"reference.{exchange.in_files(quantity)}" in arrays
    assert kept >= {"f", "b", "nan", "inf", "-inf"}


@every_layout
def test_the_same_bytes_every_time(tmp_path, layout):
    first, second = (contents(written(tmp_path / name, layout, only="soft*")) for name in ("a", "b"))
    assert first == second
    command = [sys.executable, "-m", "refnp", "cases", "export", tmp_path / "c", "--format", layout, "--only", "soft*"]
    assert "cases" in subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert contents(tmp_path / "c") == first


@every_layout
def test_the_manifest_tells_of_every_file(tmp_path, layout):
    found = contents(written(tmp_path / "cases", layout, only="relu"))
    manifest = json.loads(found.pop("manifest.json"))
    assert (manifest["format"], manifest["version"], manifest["layout"]) == ("refnp cases", 1, layout)
    stored = {path: entry for case in manifest["cases"] for path, entry in case["files"].items()}
    assert stored.keys() == found.keys()
    for path, entry in stored.items():
        assert entry == {"bytes": len(found[path]), "sha256": hashlib.sha256(found[path]).hexdigest()}


def test_references_are_rounded_once_and_bounds_hold(tmp_path):
    """|answer − wide| ≤ bound says what refnp's own judge says, up to the rounding of the reference to float64."""
    for problem in exchange.chosen_problems("layer_norm/*"):
        arrays, reference = exchange.arrays_of(problem), problem.reference()
        for quantity, rounded in problem.bounds.items():
            name, right = exchange.in_files(quantity), reference[quantity]
            np.testing.assert_array_equal(arrays[f"reference.{name}"], right.astype(problem.dtype), strict=True)
            wide = arrays.get(f"wide.{name}", arrays[f"reference.{name}"])
            np.testing.assert_array_equal(wide, right.astype(float), strict=True)
            assert np.all(arrays[f"bound.{name}"] - np.abs(wide - right) >= tolerance(rounded, problem.dtype))
            slack = arrays[f"bound.{name}"] / tolerance(rounded, problem.dtype)
            assert np.all(slack < (1.001 if problem.dtype == "float32" else 1.6))


def test_a_program_that_judges_itself_by_the_files_comes_to_the_same_verdict():
    """|answer − wide|/bound is what the judge says; in float64, but for what rounding the reference has changed."""
    rng = np.random.default_rng(0)
    for problem in exchange.chosen_problems("*softmax/*"):
        arrays, reference = exchange.arrays_of(problem), problem.reference()
        for quantity, rounded in problem.bounds.items():
            name, right = exchange.in_files(quantity), reference[quantity]
            allowed = tolerance(rounded, problem.dtype)
            answer = (right + allowed * rng.uniform(0, 3, right.shape)).astype(problem.dtype)
            wide = arrays.get(f"wide.{name}", arrays[f"reference.{name}"])
            with np.errstate(invalid="ignore"):
                error = np.where(answer == wide, 0, np.abs(answer.astype(float) - wide))
            own = float((error / arrays[f"bound.{name}"]).max())
            judges, _, _ = deviation(answer, right, allowed, problem.dtype)
            if problem.dtype == "float32":
                assert own == pytest.approx(judges, rel=1e-5)
            else:
                assert own <= max(judges, 1) * 1.001
                assert judges <= 2 * own + 1


def test_every_case_says_what_it_is():
    """Its equation and the options that it leaves alone, for a reader without Python."""
    for problem in exchange.ids_of(case.problem("float32") for case in cases()).values():
        header = exchange.header_of(problem)
        assert json.loads(json.dumps(header, allow_nan=False)) == header
        assert not header["equation"].startswith("The same")
        assert len(header["equation"]) > 8, header["case"]
        assert header["why"].startswith(problem.case.variant)
        assert set(problem.case.options) <= set(header["options"])
        assert header["id"].isascii()
    (case,) = (case for case in cases() if case.name == "layer_norm/ordinary")
    assert exchange.header_of(case.problem("float32"))["options"] == {"axis": -1, "eps": 1e-5}
    (masked,) = (case for case in cases() if case.name == "attention/fully masked row")
    assert exchange.header_of(masked.problem("float32"))["options"]["mask"] == {"array": "option.mask"}


def test_there_are_cases_enough():
    assert len(exchange.chosen_problems()) >= 500


def test_options_that_no_file_can_state_are_named():
    with pytest.raises(TypeError, match="option kernel is <function"):
        exchange.plain(lambda x: x, "kernel")
    assert exchange.plain({"a": (np.float32(0.5), -np.inf), "b": np.nan}, "x") == {"a": [0.5, "-Infinity"], "b": "NaN"}
    assert exchange.plain(dataclasses.make_dataclass("Grid", ["size"])(3), "grid") == {"size": 3}


def test_two_cases_may_not_share_a_file():
    layer = Layer("some layer", abs, abs)
    pair = [Case(layer, variant, {"x": np.ones(2)}).problem("float32") for variant in ("a b", "a  b")]
    with pytest.raises(ValueError, match=r"share the file some_layer\.a_b\.float32"):
        exchange.ids_of(pair)


def test_an_archive_is_plain(tmp_path):
    """Stored, dated 1980-01-01, NumPy's header 1.0: what the format page says."""
    folder = written(tmp_path / "cases", only="relu/ordinary")
    with zipfile.ZipFile(folder / "relu.ordinary.float32.npz") as archive:
        entries = archive.infolist()
        assert {(e.compress_type, e.date_time) for e in entries} == {(zipfile.ZIP_STORED, (1980, 1, 1, 0, 0, 0))}
        assert [e.filename for e in entries][:2] == ["case.json", "input.x.npy"]
        assert archive.read("input.x.npy")[:8] == b"\x93NUMPY\x01\x00"


def test_the_lines_of_a_raw_case(tmp_path):
    folder = written(tmp_path / "cases", "raw", only="attention/mask")
    lines = (folder / "attention.mask.float32" / "case.txt").read_text().splitlines()
    assert lines[:4] == ["refnp-case 1", "id attention.mask.float32", "layer attention", "dtype float32"]
    assert 'option mask {"array":"option.mask"}' in lines
    assert "array option.mask bool 2 5 6" in lines
    assert "array input.query float32 2 5 4" in lines


# The folder: new, whole, or not at all


def test_a_folder_that_is_not_empty_stays(tmp_path):
    folder = tmp_path / "cases"
    folder.mkdir()
    (folder / "mine.txt").write_text("kept")
    for replace in (False, True):
        with pytest.raises(FileExistsError, match="name another"):
            export(folder, only="relu/ordinary", replace=replace)
    assert contents(tmp_path) == {"cases/mine.txt": b"kept"}


def test_exported_cases_are_replaced_only_when_told(tmp_path):
    folder = written(tmp_path / "cases", only="relu/ordinary")
    with pytest.raises(FileExistsError, match="--replace"):
        export(folder, only="gelu/ordinary")
    assert (folder / "relu.ordinary.float32.npz").exists()
    export(folder, only="gelu/ordinary", replace=True)
    assert {path.name for path in folder.iterdir()} == {
        "manifest.json",
        "gelu.ordinary.float32.npz",
        "gelu.ordinary.float64.npz",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["cases"]


def test_what_is_not_of_an_export_is_not_deleted(tmp_path):
    """A file that no case has, a manifest that is a pipe, and one that is nested too deeply, whatever is said."""
    folder = written(tmp_path / "cases", only="relu/ordinary")
    (folder / "answers").mkdir()
    (folder / "thesis.txt").write_text("kept")
    with pytest.raises(FileExistsError, match="more than these"):
        export(folder, only="gelu/ordinary", replace=True)
    (folder / "thesis.txt").unlink()
    manifest = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").write_bytes(b"[" * 100000)
    with pytest.raises(FileExistsError, match="no exported cases"):
        export(folder, only="gelu/ordinary", replace=True)
    (folder / "manifest.json").unlink()
    if hasattr(os, "mkfifo"):
        os.mkfifo(folder / "manifest.json")
        with pytest.raises(FileExistsError, match="no exported cases"):
            export(folder, only="gelu/ordinary", replace=True)
        (folder / "manifest.json").unlink()
    (folder / "manifest.json").write_bytes(manifest)
    assert export(folder, only="gelu/ordinary", replace=True) == 2


KILLED = """
import os, signal, sys
from refnp import files
from refnp.verify.exchange import cases
how = sys.argv[1]
def kill(*_): os.kill(os.getpid(), signal.SIGKILL)
if how == "before the exchange": cases.exchanged = kill
if how == "after it": cases.exchanged = lambda *paths: (files.exchanged(*paths), kill())
if how == "between two renames":
    cases.exchanged, cases.Path.rename = lambda *_: False, lambda old, new: (os.rename(old, new), kill())
cases.export("cases", only="gelu/ordinary", replace=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="names are exchanged in one step on Linux alone")
@pytest.mark.parametrize("how", ["before the exchange", "after it", "between two renames"])
def test_a_kill_loses_nothing(tmp_path, how):
    """Whatever the moment, the old cases or the new ones are there, if not by their name then for the next export."""
    folder = written(tmp_path / "cases", only="relu/ordinary")
    (folder / "answers").mkdir()
    before = contents(folder)
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", KILLED, how], cwd=tmp_path, env=env, check=False, timeout=60)
    assert run.returncode == -signal.SIGKILL
    assert folder.exists() == (how != "between two renames")
    remove_left_folders(folder)
    (tmp_path / "cases.lock").unlink()
    assert os.listdir(tmp_path) == ["cases"]
    after = contents(folder)
    names = {name[:4] for name in after}  # of the new cases, unless this file system exchanges no names
    assert after == before or (how == "after it" and names == {"gelu", "mani"})


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "cases").mkdir()
    assert export(tmp_path / "cases", only="gelu/ordinary", dtypes=("float64",)) == 1


def test_what_fails_leaves_nothing(tmp_path, monkeypatch):
    folder = written(tmp_path / "cases", only="relu/ordinary")
    before = contents(tmp_path)
    monkeypatch.setattr(exchange, "manifest_of", lambda *_: 1 / 0)
    for target in (folder, tmp_path / "new"):
        with pytest.raises(ZeroDivisionError):
            export(target, only="relu", replace=True)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["export"], "name the folder to write"),
        (["export", "{}", "--only", "no such case"], "no case is called 'no such case'"),
        (["export", "{}/a/b"], "there is no folder"),
        (["list", "--only", "no such case"], "no case is called"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, capsys, words, message):
    assert cli.main(["cases", *(word.format(tmp_path) for word in words)]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_wrong_words_in_a_program():
    with pytest.raises(ValueError, match="layout is 'hdf5'"):
        export("somewhere", "hdf5")
    with pytest.raises(ValueError, match="no cases in 'float16'"):
        exchange.chosen_problems(dtypes=("float16",))


def test_the_list(capsys):
    assert cli.main(["cases", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(cases())
    (line,) = (line for line in lines if line.startswith("attention/fully masked row "))
    assert line.split(maxsplit=3)[3] == "query (5, 4), key (6, 4), value (6, 4), mask=(5, 6)"


# The page for authors of programs


def page():
    return (Path(__file__).parents[2] / "docs" / "case_format.md").read_text(encoding="utf-8")


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", page(), re.M | re.S)


def test_the_bytes_on_the_page_are_those_of_the_files(tmp_path):
    (command,) = (
        line for line in re.findall(r"`(refnp cases export .*?)`", " ".join(page().split())) if "0 and -30" in line
    )
    _, *words = shlex.split(command)
    words[2] = str(tmp_path / "cases")
    assert cli.main(words) == 0
    folder = tmp_path / "cases" / "softmax.0_and_-30.float32"
    (lines,) = blocks("text case.txt")
    assert (folder / "case.txt").read_text() == lines
    (listed,) = blocks("text bytes")
    for line in listed.splitlines():
        name, digits, values = re.split(r"\s{2,}", line)
        content = (folder / name).read_bytes()
        assert content == bytes.fromhex(digits)
        dtype = "<f8" if name.startswith("wide") else "<f4"
        np.testing.assert_array_equal(np.frombuffer(content, dtype), np.array(values.split(", "), dtype))


def test_the_json_on_the_page_is_that_of_the_files(tmp_path):
    folder = written(tmp_path / "cases", "json", only="softmax/0 and -30", dtypes=("float32",))
    (array,) = blocks("json input.x")
    header = json.loads((folder / "softmax.0_and_-30.float32.json").read_bytes())
    assert header["arrays"]["input.x"] == json.loads(array)
    keys = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| ((?:`\w+`,? ?)+) \|", page().split("## The four")[0], re.M)))
    manifest = json.loads((folder / "manifest.json").read_bytes())
    assert set(keys) >= {*manifest, *manifest["cases"][0], *header} - {"arrays"}


def test_the_answer_on_the_page_is_right(tmp_path):
    folder = written(tmp_path / "cases", "raw", only="softmax/0 and -30", dtypes=("float32",))
    (folder / "answers").mkdir()
    (answer,) = blocks("json answer")
    (folder / "answers" / "softmax.0_and_-30.float32.json").write_text(answer)
    rows, _ = judged_folder(folder)
    assert [(row.quantity, row.verdict) for row in rows] == [("output", WITHIN), ("gradient of x", WITHIN)]


def test_onnx_models_are_exported_with_a_manifest(tmp_path):
    """In the layout of ONNX's own tests; what runs them answers in any other format, and its answers are judged."""
    onnx = pytest.importorskip("onnx")
    folder = tmp_path / "cases"
    assert cli.main(["cases", "export", str(folder), "--format", "onnx", "--only", "layer_norm/*"]) == 0
    manifest = json.loads((folder / "manifest.json").read_bytes())
    assert manifest["layout"] == "onnx"
    assert {tuple(case["quantities"]) for case in manifest["cases"]} == {("output",)}
    (folder / "answers").mkdir()
    for case in manifest["cases"]:
        model = onnx.load(folder / case["id"] / "model.onnx")
        onnx.checker.check_model(model)
        data = (folder / case["id"] / "test_data_set_0" / "output_0.pb").read_bytes()
        output = onnx.numpy_helper.to_array(onnx.load_tensor_from_string(data))
        np.savez(folder / "answers" / f"{case['id']}.npz", output=output)
    rows, given = judged_folder(folder)
    assert {row.verdict for row in rows} == {WITHIN}
    assert len(given) == len(manifest["cases"]) >= 20


def test_a_layout_without_its_package(tmp_path, capsys, monkeypatch):
    for package, layout in (("onnx", "onnx"), ("safetensors", "safetensors")):
        monkeypatch.setitem(sys.modules, package, None)
        assert cli.main(["cases", "export", str(tmp_path / "cases"), "--format", layout, "--only", "relu"]) == 2
        assert f"pip install 'refnp[{package}]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
