"""Answers in files: right ones hold, wrong ones deviate, and whatever a file does, the others are judged."""

import functools
import io
import json
import os
import pickle
import shutil
import struct
import zipfile
from collections import Counter

import numpy as np
import pytest

from refnp.verify.exchange import answers as exchange
from refnp.verify.exchange import export, judge_folder
from refnp.verify.exchange.answers import judged_folder
from refnp.verify.exchange.cases import chosen_problems, id_of, ids_of, in_files, with_gradients
from refnp.verify.exchange.formats import FORMATS, described, numbers
from refnp.verify.judge import CONVENTION, DEVIATES, KNOWN, SKIPPED, WITHIN

NAME = "attention.causal_square.float32"  # whose answer is attacked
OTHER = "attention.causal_square.float64"  # whose answer is right
LAYOUTS = list(FORMATS)
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


PROBLEMS = ids_of(chosen_problems("attention/causal, square"))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "cases"
    export(folder, only="attention/causal, square")
    (folder / "answers").mkdir()
    return folder


@pytest.fixture
def cases(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "cases")


@functools.cache
def computed(name):
    return {in_files(quantity): array for quantity, array in PROBLEMS[name].answer().items()}


def right_answer(name):
    return {quantity: array.copy() for quantity, array in computed(name).items()}


def write(folder, name, arrays, layout="npz"):
    """An answer as another program would write it."""
    if layout == "npz":
        np.savez_compressed(folder / f"{name}.npz", **arrays)
    elif layout == "safetensors":
        pytest.importorskip("safetensors.numpy").save_file(arrays, folder / f"{name}.safetensors")
    elif layout == "json":
        stated = {key: described(array) | {"data": numbers(array)} for key, array in arrays.items()}
        (folder / f"{name}.json").write_text(json.dumps(stated))
    else:
        (folder / name).mkdir()
        for key, array in arrays.items():
            (folder / name / f"{key}.bin").write_bytes(array.tobytes())


def rows_of(cases, attacked=NAME, **options):
    """{quantity: row} of the attacked case; the other case is right, whatever the first does."""
    if not any((cases / "answers").glob(f"{OTHER}*")):
        write(cases / "answers", OTHER, right_answer(OTHER))
    rows, _ = judged_folder(cases, **options)
    others = [row for row in rows if row.dtype == "float64"]
    assert [row.verdict for row in others] == [WITHIN] * 4
    return {row.quantity: row for row in rows if row not in others}


def whole_file(cases):
    """The single row of a case whose answer cannot be read."""
    ((quantity, row),) = rows_of(cases).items()
    assert (quantity, row.verdict, row.error_over_bound) == ("output", DEVIATES, np.inf)
    return row.why


# What is right, and what is only wrong


@every_layout
def test_a_right_answer_holds(cases, layout):
    write(cases / "answers", NAME, right_answer(NAME), layout)
    rows = rows_of(cases)
    assert list(rows) == ["output", "gradient of query", "gradient of key", "gradient of value"]
    assert all(row.verdict == WITHIN and 0 <= row.error_over_bound <= 1 for row in rows.values())
    assert any(row.error_over_bound > 0 for row in rows.values())


@every_layout
def test_a_wrong_answer_deviates(cases, layout):
    arrays = right_answer(NAME)
    arrays["gradient.key"] = arrays["gradient.key"] * np.float32(1.001)
    write(cases / "answers", NAME, arrays, layout)
    rows = rows_of(cases)
    assert Counter(row.verdict for row in rows.values()) == {WITHIN: 3, DEVIATES: 1}
    assert rows["gradient of key"].error_over_bound > 1
    assert np.isfinite(rows["gradient of key"].claimed)


@every_layout
def test_nan_is_nan_whatever_its_payload(cases, layout):
    arrays = right_answer(NAME)
    arrays["output"].view(np.uint32)[0, :2] = 0x7F800001, 0xFFFFFFFF  # signalling, and negative
    write(cases / "answers", NAME, arrays, layout)
    assert rows_of(cases)["output"].error_over_bound == np.inf


def test_nan_that_is_right_is_right(tmp_path):
    export(tmp_path / "cases", "json", only="*nan*", dtypes=("float32",))
    folder = tmp_path / "cases" / "answers"
    folder.mkdir()
    for name, problem in ids_of(chosen_problems("*nan*", ("float32",))).items():
        with np.errstate(all="ignore"):
            write(folder, name, {in_files(q): a for q, a in problem.answer().items()}, "json")
    rows, given = judged_folder(tmp_path / "cases")
    assert {row.verdict for row in rows} == {WITHIN}
    assert len(given) == len({row.case for row in rows}) > 1


def test_gradients_may_be_left_out_all_or_none(cases):
    arrays = right_answer(NAME)
    write(cases / "answers", NAME, {"output": arrays["output"]})
    rows = rows_of(cases)
    assert rows.pop("output").verdict == WITHIN
    assert {(row.verdict, row.why) for row in rows.values()} == {(SKIPPED, "no gradients")}
    del arrays["gradient.key"]
    write(cases / "answers", NAME, arrays)
    rows = rows_of(cases)
    assert (rows["gradient of key"].verdict, rows["gradient of key"].why) == (DEVIATES, "missing")
    write(cases / "answers", NAME, {key: array for key, array in arrays.items() if key != "output"})
    assert rows_of(cases)["output"].why == "missing"


def test_a_case_may_be_refused(cases):
    (cases / "answers" / f"{NAME}.json").write_text('{"skipped": "no attention here"}')
    (row,) = rows_of(cases).values()
    assert (row.verdict, row.why) == (SKIPPED, "no attention here")


def test_missing_extra_and_double_files(cases):
    assert whole_file(cases) == "no answer"
    (cases / "answers" / "notes.txt").write_text("")
    rows, _ = judged_folder(cases)
    assert [(row.case, row.why) for row in rows if row.verdict == SKIPPED] == [("notes.txt", "no case has this name")]
    (cases / "answers" / "notes.txt").unlink()
    for layout in ("npz", "json"):
        write(cases / "answers", NAME, right_answer(NAME), layout)
    assert whole_file(cases) == f"answered twice: {NAME}.npz and {NAME}.json"


# Where the cases are


def test_cases_are_found_or_asked_for(cases, tmp_path):
    write(cases / "answers", NAME, right_answer(NAME))
    write(cases / "answers", OTHER, right_answer(OTHER))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (cases / "answers").rename(elsewhere / "answers")
    with pytest.raises(ValueError, match="name the exported folder with --cases"):
        judged_folder(elsewhere / "answers")
    rows, _ = judged_folder(elsewhere / "answers", cases)
    assert {row.verdict for row in rows} == {WITHIN}
    (elsewhere / "answers").rename(cases / "answers")
    assert judged_folder(cases / "answers")[0] == rows
    with pytest.raises(ValueError, match="is left by only='gelu'"):
        judged_folder(cases, only="gelu")
    with pytest.raises(ValueError, match="is left by only=None, skip="):
        judged_folder(cases, skip=("attention/*",))
    with pytest.raises(FileNotFoundError, match="no folder"):
        judged_folder(tmp_path / "nowhere")


def test_without_a_folder_of_answers_all_are_missing(cases):
    (cases / "answers").rmdir()
    rows, given = judged_folder(cases)
    assert [row.why for row in rows] == ["no answer", "no answer"]
    assert given == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": "refnp cases", "version": 9, "cases": []}',
        '{"format": "x"}',
        '{"format": "refnp cases", "version": true, "layout": "npz", "cases": []}',
        '{"format": "refnp cases", "version": 1.0, "layout": "npz", "cases": []}',
        '{"format": "refnp cases", "version": 1, "layout": "npz", "cases": [], "version": 1}',
        '\xef\xbb\xbf{"format": "refnp cases", "version": 1, "layout": "npz", "cases": []}',
        '{"format": "refnp cases", "version": 1, "layout": "npz", "cases": []}'.encode("utf-16").decode("latin-1"),
        "[" * 100000,
        "\xff",
        *(
            json.dumps({"format": "refnp cases", "version": 1, "layout": "npz", "cases": cases})
            for cases in (
                1,
                [1],
                [{}],
                [[]],
                {"id": "x"},
                [{"id": [], "case": "x", "dtype": "x", "inputs": "x", "files": {}}],
                [{"id": "x", "case": [], "dtype": "x", "inputs": "x", "files": {}}],
                [{"id": "x", "case": "x", "dtype": "x", "inputs": "x", "files": 1}],
                [{"id": "x", "case": "x", "dtype": "x", "inputs": "x", "files": {"a": {"bytes": "1", "sha256": ""}}}],
                [{"id": "x", "case": "x", "dtype": "x", "inputs": "x", "files": {"\0": {"bytes": 1, "sha256": ""}}}],
                [{"id": "x", "case": "x", "dtype": "x", "inputs": "x", "files": {}}] * 2,
            )
        ),
    ],
)
def test_a_manifest_that_is_none(cases, text):
    """No JSON, none in UTF-8, a name twice, another version, a version that only equals it, cases that are none."""
    (cases / "manifest.json").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match="is no manifest"):
        judged_folder(cases)


def test_cases_of_other_inputs_are_not_judged(cases):
    manifest = json.loads((cases / "manifest.json").read_text())
    manifest["cases"][0]["inputs"] = "0" * 16
    manifest["cases"].append(
        manifest["cases"][0] | {"id": "../../etc/passwd", "case": "attention/causal, square of old"}
    )
    (cases / "manifest.json").write_text(json.dumps(manifest))
    write(cases / "answers", OTHER, right_answer(OTHER))
    rows, _ = judged_folder(cases)
    skipped = [row for row in rows if row.verdict == SKIPPED]
    assert [row.case for row in skipped] == ["attention/causal, square of old", "attention/causal, square"]
    assert {"export the cases again" in row.why for row in skipped} == {True}


def test_a_case_file_that_was_changed_is_told(cases):
    write(cases / "answers", NAME, right_answer(NAME))
    file = cases / f"{NAME}.npz"
    file.write_bytes(file.read_bytes()[:-1])
    (row,) = rows_of(cases).values()
    assert (row.verdict, row.why) == (SKIPPED, f"{NAME}.npz is not as it was exported; export the cases again")
    file.unlink()
    assert {row.verdict for row in rows_of(cases).values()} == {WITHIN}


# Arrays that are not what was asked for


@every_layout
def test_other_shapes_and_names(cases, layout):
    arrays = right_answer(NAME)
    arrays["output"] = arrays["output"][:-1]
    arrays["gradient.query"] = arrays["gradient.query"].T.copy()
    arrays["gradient.Key"] = arrays.pop("gradient.key")
    write(cases / "answers", NAME, arrays, layout)
    rows = rows_of(cases)
    if layout == "raw":
        assert rows["output"].why == "64 bytes of numbers where 80 are right"
    else:
        assert "(4, 4) where (5, 4)" in rows["output"].why.replace("[", "(").replace("]", ")")
        assert rows["gradient of query"].verdict == DEVIATES
    assert rows["gradient of key"].why == "missing"
    assert "no such quantity" in rows["gradient.Key"].why
    assert rows["gradient of value"].verdict == WITHIN


@every_layout
@pytest.mark.parametrize("dtype", ["float64", "int32", "complex64", "bool"])
def test_other_dtypes(cases, layout, dtype):
    if layout == "safetensors" and dtype == "complex64":
        pytest.skip("the package does not write them")
    arrays = right_answer(NAME)
    with np.errstate(invalid="ignore"):
        arrays["output"] = arrays["output"].astype(dtype)
    if layout == "json":
        arrays["output"] = arrays["output"].real
        stated = {key: described(array) | {"data": numbers(array)} for key, array in arrays.items()}
        stated["output"]["dtype"] = dtype
        (cases / "answers" / f"{NAME}.json").write_text(json.dumps(stated))
    else:
        write(cases / "answers", NAME, arrays, layout)
    row = rows_of(cases)["output"]
    assert row.verdict == DEVIATES
    if layout == "raw" and dtype == "int32":
        assert row.error_over_bound > 1  # four bytes are four bytes
    else:
        assert row.error_over_bound == np.inf
        assert row.why


def test_big_endian_is_told_and_fortran_order_read(cases):
    arrays = right_answer(NAME)
    arrays["output"] = arrays["output"].astype(">f4")
    arrays["gradient.key"] = np.asfortranarray(arrays["gradient.key"])
    write(cases / "answers", NAME, arrays)
    rows = rows_of(cases)
    assert "big-endian" in rows["output"].why
    assert rows["gradient of key"].verdict == WITHIN


# Files that lie


def archive(cases, members, name=NAME, compression=zipfile.ZIP_STORED):
    """An archive of the right arrays, with some members replaced or added."""
    entries = {}
    for key, array in right_answer(NAME).items():
        content = io.BytesIO()
        np.save(content, array)
        entries[f"{key}.npy"] = content.getvalue()
    file = cases / "answers" / f"{name}.npz"
    with zipfile.ZipFile(file, "w", compression) as written:
        for path, data in (entries | members).items():
            written.writestr(path, data)
    return file


class Bomb:
    """A pickle that would write a file when it is loaded."""

    def __reduce__(self):
        return os.mkdir, (str(Bomb.place),)


def npy(text, data=b"", version=b"\x01\x00"):
    """A .npy file with any header."""
    length = struct.pack("<H" if version[0] == 1 else "<I", len(text))
    return b"\x93NUMPY" + version + length + text.encode() + data


def test_pickles_are_never_loaded(cases, tmp_path):
    Bomb.place = tmp_path / "it went off"
    loaded = np.empty((), object)
    loaded[()] = Bomb()
    content = io.BytesIO()
    np.save(content, loaded, allow_pickle=True)
    archive(cases, {"output.npy": content.getvalue(), "gradient.key.npy": pickle.dumps(Bomb())})
    rows = rows_of(cases)
    assert "Python objects (a pickle), which are never loaded" in rows["output"].why
    assert "no .npy file" in rows["gradient of key"].why
    for suffix in (".npz", ".json", ".safetensors"):
        (cases / "answers" / f"{NAME}.npz").unlink(missing_ok=True)
        (cases / "answers" / f"{NAME}{suffix}").write_bytes(pickle.dumps(Bomb()))
        assert whole_file(cases).startswith("no ") or "not installed" in whole_file(cases)
        (cases / "answers" / f"{NAME}{suffix}").unlink()
    assert not Bomb.place.exists()


HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 4), }\n"


@pytest.mark.parametrize(
    "content",
    [
        npy(HEADER, bytes(79)),
        npy(HEADER, bytes(81)),
        npy(HEADER),
        npy(HEADER.replace("(5, 4)", "(10**30, 4)"), bytes(80)),
        npy(HEADER.replace("(5, 4)", "(1000000000000, 4)"), bytes(80)),
        npy(HEADER.replace("(5, 4)", "(-5, -4)"), bytes(80)),
        npy(HEADER.replace("5, 4", "5.0, 4"), bytes(80)),
        npy(HEADER.replace("'<f4'", "'<f4,<f4'"), bytes(160)),
        npy(HEADER.replace("'<f4'", "'|O'"), bytes(160)),
        npy(HEADER.replace("'<f4'", "__import__('os').getcwd()"), bytes(80)),
        npy("(" * 5000, bytes(80)),
        npy(HEADER + " " * 60000, bytes(80)),
        npy(HEADER, bytes(80), version=b"\x03\x00"),
        npy(HEADER, bytes(80), version=b"\x09\x09"),
        npy("", bytes(80)),
        b"\x93NUMPY",
        b"",
        bytes(200),
    ],
)
def test_headers_that_lie(cases, content):
    archive(cases, {"output.npy": content})
    row = rows_of(cases)["output"]
    assert (row.verdict, row.error_over_bound) == (DEVIATES, np.inf)
    assert row.why
    assert len(row.why) < 300


def test_paths_in_an_archive_lead_nowhere(cases, tmp_path):
    content = io.BytesIO()
    np.save(content, np.ones(3, np.float32))
    names = [
        "../../outside.npy",
        "/outside.npy",
        "a/../../outside.npy",
        "output.npy/x.npy",
        "C:\\outside.npy",
        ".npy",
    ]
    archive(cases, {name: content.getvalue() for name in names})
    rows = rows_of(cases)
    assert sum("no such quantity" in row.why for row in rows.values()) == len(names)
    assert not list(tmp_path.rglob("*outside*"))


def test_members_that_are_there_twice(cases):
    file = archive(cases, {})
    with zipfile.ZipFile(file, "a") as more, pytest.warns(UserWarning, match="Duplicate"):
        more.writestr("output.npy", b"another")
    assert whole_file(cases) == "'output' is there twice"


def test_sizes_of_members_that_lie(cases):
    """A member that says it has few bytes and has many, and the other way round."""
    archive(cases, {"output.npy": npy(HEADER, bytes(50_000_000))}, compression=zipfile.ZIP_DEFLATED)
    assert "where 80 of numbers are right" in rows_of(cases)["output"].why
    file = cases / "answers" / f"{NAME}.npz"
    archive(cases, {"output.npy": npy(HEADER, bytes(80))})
    data = file.read_bytes()
    size = struct.pack("<I", len(npy(HEADER, bytes(80))))
    for lie in (0xFFFFFFF0, 1, 0):
        file.write_bytes(data.replace(size, struct.pack("<I", lie)))
        assert {row.verdict for row in rows_of(cases).values()} <= {WITHIN, DEVIATES}
        assert next(iter(rows_of(cases).values())).verdict == DEVIATES or rows_of(cases)["output"].verdict == DEVIATES


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_not_read(cases, method):
    archive(cases, {}, compression=method)
    assert {row.why for row in rows_of(cases).values()} == {"compressed in a way that is not read; store or deflate"}


@every_layout
def test_truncated_at_any_place(cases, layout):
    write(cases / "answers", NAME, right_answer(NAME), layout)
    file = next(path for path in (cases / "answers").glob(f"{NAME}*"))
    file = file / "output.bin" if file.is_dir() else file
    content = file.read_bytes()
    for end in range(0, len(content), max(len(content) // 12, 1)):
        file.write_bytes(content[:end])
        rows = rows_of(cases)
        assert rows["output"].verdict == DEVIATES
        assert rows["output"].why


@every_layout
def test_bytes_changed_at_any_place_harm_no_one(cases, layout):
    """Whatever comes, it is a verdict: no exception, and the other case is judged."""
    write(cases / "answers", NAME, right_answer(NAME), layout)
    file = next(path for path in (cases / "answers").glob(f"{NAME}*"))
    file = file / "output.bin" if file.is_dir() else file
    content, rng = bytearray(file.read_bytes()), np.random.default_rng(0)
    for _ in range(20):
        changed = bytearray(content)
        for place in rng.integers(0, len(content), 3):
            changed[place] = rng.integers(256)
        file.write_bytes(changed)
        assert {row.verdict for row in rows_of(cases).values()} <= {WITHIN, DEVIATES, SKIPPED}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no strict JSON"),
        ("[1]", "no answer"),
        ("null", "no answer"),
        ("[" * 200_000, "no strict JSON"),
        ('{"output": 1, "output": 2}', "'output' is there twice"),
        ('{"output": NaN}', 'write the text "NaN"'),
        ('{"output": -Infinity}', 'write the text "-Infinity"'),
        ('{"output": 1e999}', "beyond float64"),
        ('{"output": ' + "9" * 5000 + "}", "no strict JSON"),
        ('{"output": "\\ud800', "no strict JSON"),
    ],
)
def test_json_that_is_no_answer(cases, text, why):
    (cases / "answers" / f"{NAME}.json").write_text(text)
    assert why in whole_file(cases)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"data": [1.0] * 19}, "19 numbers in data where 20 are right"),
        ({"data": 1.0}, "no numbers in data"),
        ({"data": [True] * 20}, "no number"),
        ({"data": [None] * 20}, "no number"),
        ({"data": ["nan"] * 20}, "no number"),
        ({"data": [[1.0]] * 20}, "no number"),
        ({"data": [10**400] * 20}, "no number"),
        ({"shape": [10**9, 10**9]}, "where [5, 4] is right"),
        ({"shape": [5.0, 4]}, "where [5, 4] is right"),
        ({"shape": [True, 20]}, "where [5, 4] is right"),
        ({"shape": "5, 4"}, "where [5, 4] is right"),
        ({"dtype": "object"}, "object, not float32"),
        ({"dtype": ["float32"]}, "not float32"),
        ({"more": 1}, "must be an object of dtype, shape and data"),
    ],
)
def test_json_arrays_that_are_wrong(cases, change, why):
    stated = {key: described(array) | {"data": numbers(array)} for key, array in right_answer(NAME).items()}
    stated["output"] |= change
    (cases / "answers" / f"{NAME}.json").write_text(json.dumps(stated))
    row = rows_of(cases)["output"]
    assert (row.verdict, row.error_over_bound) == (DEVIATES, np.inf)
    assert why in row.why


def test_decimal_digits_are_rounded_to_the_precision(cases):
    """Nine digits give a float32 back; numbers beyond it become infinities, and deviate."""
    stated = {
        key: described(array) | {"data": [float(f"{value:.9g}") for value in array.ravel()]}
        for key, array in right_answer(NAME).items()
    }
    stated["gradient.key"]["data"][0] = 1e300
    stated["gradient.value"]["data"][0] = 1  # an integer is a number
    (cases / "answers" / f"{NAME}.json").write_text(json.dumps(stated))
    rows = rows_of(cases)
    assert rows["output"].verdict == WITHIN
    assert rows["gradient of key"].claimed == np.inf


def test_safetensors_that_lie(cases):
    package = pytest.importorskip("safetensors.numpy")
    content = package.save(right_answer(NAME))
    length = struct.unpack("<Q", content[:8])[0]
    head, data = content[8 : 8 + length].decode(), content[8 + length :]
    file = cases / "answers" / f"{NAME}.safetensors"
    for changed in (
        head.replace('"shape":[5,4]', '"shape":[5,4000000000]', 1),
        head.replace('"data_offsets":[0,', '"data_offsets":[4,'),
        head.replace('"F32"', '"F99"', 1),
        head.replace("[0,", "[-1,"),
        head + head,
        head.replace('"output":', f'"output":{json.dumps(json.loads(head)["output"])},"output":', 1),
        "[" * 100_000,
        "",
    ):
        assert changed != head
        file.write_bytes(struct.pack("<Q", len(changed)) + changed.encode() + data)
        assert whole_file(cases).startswith("no safetensors file")
    for lie in (2**63, 2**64 - 1, 10**8, 0):
        file.write_bytes(struct.pack("<Q", lie) + content[8:])
        assert whole_file(cases).startswith("no safetensors file")


def test_links_pipes_and_huge_files_are_not_read(cases, tmp_path):
    right = tmp_path / "right.npz"
    np.savez(right, **right_answer(NAME))
    place = cases / "answers" / f"{NAME}.npz"
    place.symlink_to(right)
    assert whole_file(cases) == "a symbolic link, which is not followed"
    place.unlink()
    place.symlink_to(tmp_path / "nowhere")
    assert whole_file(cases) == "a symbolic link, which is not followed"
    place.unlink()
    os.mkfifo(place)
    assert whole_file(cases) == "no plain file"
    place.unlink()
    place.mkdir()
    assert whole_file(cases) in ("no plain file", "cannot be read: Is a directory")
    place.rmdir()
    with open(place, "wb") as file:
        file.truncate(1 << 40)
    assert "bytes, where" in whole_file(cases)


def test_a_raw_answer_that_is_a_link_or_has_one(cases, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    for key, array in right_answer(NAME).items():
        (outside / f"{key}.bin").write_bytes(array.tobytes())
    place = cases / "answers" / NAME
    place.symlink_to(outside)
    assert whole_file(cases) == "a symbolic link, which is not followed"
    place.unlink()
    place.mkdir()
    for file in outside.iterdir():
        (place / file.name).symlink_to(file)
    assert {row.why for row in rows_of(cases).values()} == {"a symbolic link, which is not followed"}
    (place / "output.bin").unlink()
    os.mkfifo(place / "output.bin")
    assert rows_of(cases)["output"].why == "no plain file"


def test_expectations_fit_the_answers(cases):
    """What an answer must have is what refnp gives."""
    for problem in chosen_problems("multi_head/padding"):
        expected = exchange.expected_of(problem)
        answer = {in_files(quantity): array for quantity, array in problem.answer().items()}
        assert {k: (a.dtype, a.shape) for k, a in answer.items()} == {
            k: (a.dtype, a.shape) for k, a in expected.items()
        }
        assert id_of(problem.case, problem.dtype).startswith("multi_head.padding.")


def test_floods_and_control_letters_are_kept_from_the_report(cases):
    """A file of thousands of names makes one row, and what it is called cannot steer a terminal."""
    array = np.ones(1, np.float32)
    write(cases / "answers", NAME, {f"x{index}": array for index in range(2000)})
    assert "there are more than 24" in whole_file(cases)
    (cases / "answers" / f"{NAME}.npz").unlink()
    write(cases / "answers", NAME, right_answer(NAME) | {"\x1b[2Jgone\n" * 50: array})
    quantity = next(quantity for quantity in rows_of(cases) if "gone" in quantity)
    assert quantity.isprintable()
    assert len(quantity) <= 300
    for index in range(200):
        (cases / "answers" / f"\x1b[2J{index}").touch()
    rows, _ = judged_folder(cases)
    extra = [row for row in rows if row.verdict == SKIPPED]
    assert len(extra) == 51
    assert extra[-1].why == "and 150 more"
    assert all(row.case.isprintable() for row in extra)


def test_an_answer_twice_in_one_folder(cases):
    write(cases / "answers", NAME, right_answer(NAME), "raw")
    (cases / "answers" / NAME / "output").write_bytes(b"")
    assert whole_file(cases) == "'output' is there twice"


def test_a_reader_that_fails_fails_for_its_case_alone(cases, monkeypatch):
    write(cases / "answers", NAME, right_answer(NAME), "json")
    monkeypatch.setattr("refnp.verify.exchange.formats.from_numbers", lambda *_: {}[1])
    assert whole_file(cases) == "cannot be read: KeyError: 1"


def test_pipes_among_the_cases_do_not_stop_it(cases):
    write(cases / "answers", NAME, right_answer(NAME))
    (cases / f"{NAME}.npz").unlink()
    os.mkfifo(cases / f"{NAME}.npz")
    (row,) = rows_of(cases).values()
    assert row.verdict == SKIPPED
    assert "is not as it was exported" in row.why


def one_case(folder, name):
    """A case in float32, exported, and refnp's answer to it."""
    export(folder, only=name, dtypes=("float32",))
    ((file, problem),) = ids_of(chosen_problems(name, ("float32",))).items()
    (folder / "answers").mkdir()
    return file, problem, {in_files(quantity): array for quantity, array in problem.answer().items()}


def printed(problem):
    """p (ḡ − Σ ḡ p) in the precision of the problem, as most frameworks form it."""
    p, g = problem.answer()["output"], problem.cotangent
    return p * (g - (g * p).sum(-1, keepdims=True))


def test_a_known_defect_is_excused_by_its_name(tmp_path):
    file, problem, answer = one_case(tmp_path / "cases", "softmax/0 and -30")
    write(tmp_path / "cases" / "answers", file, answer | {"gradient.x": printed(problem)})
    assert not judge_folder(tmp_path / "cases").holds
    defect = "softmax: gradient by p (g - sum(g p))"
    report = judge_folder(tmp_path / "cases", excused=(defect,))
    assert report.holds
    assert [row.issue for row in report.judgements if row.verdict == KNOWN] == [defect]
    with pytest.raises(ValueError, match="no known defect is called 'nothing'"):
        judge_folder(tmp_path / "cases", excused=("nothing",))
    write(tmp_path / "cases" / "answers", file, answer | {"gradient.x": np.zeros_like(answer["gradient.x"])})
    assert not judge_folder(tmp_path / "cases", excused=(defect,)), "p₂ (ḡ₂ − Σ ḡ p) keeps its digits"


def test_another_convention_has_its_name(tmp_path):
    file, problem, answer = one_case(tmp_path / "cases", "attention/fully masked row")
    hidden = ~problem.case.options["mask"].any(-1)
    output = np.where(hidden[:, None], problem.arrays["value"].mean(0), answer["output"])
    write(tmp_path / "cases" / "answers", file, {"output": output})
    report = judge_folder(tmp_path / "cases")
    assert (report.judgements[0].verdict, report.holds) == (CONVENTION, True)
    assert report.judgements[0].issue == "a fully masked row gives the mean of all values"


def test_gradients_of_a_whole_model(tmp_path):
    """By the names of its parameters, where they are asked for; a wrong one is found."""
    export(tmp_path / "cases", only="cnp/exp", dtypes=("float64",), gradients=True)
    folder = tmp_path / "cases" / "answers"
    folder.mkdir()
    (problem,) = (
        with_gradients(found) for found in chosen_problems("cnp/exp", ("float64",)) if found.case.name == "cnp/exp"
    )
    name, right = id_of(problem.case, "float64"), {in_files(q): array for q, array in problem.answer().items()}
    assert "gradient.decoder.layers.0.weight" in right
    write(folder, name, right)
    assert {row.verdict for row in judged_folder(folder)[0] if row.case == problem.case.name} == {WITHIN}
    (folder / f"{name}.npz").unlink()
    write(folder, name, right | {"gradient.target_x": right["gradient.target_x"] * (1 + 1e-9)})
    wrong = [row for row in judged_folder(folder)[0] if row.case == problem.case.name and row.verdict == DEVIATES]
    assert [row.quantity for row in wrong] == ["gradient of target_x"]


def test_a_model_whose_gradients_have_no_bound_has_its_output_alone():
    (problem,) = chosen_problems("conv_cnp/whole contexts", ("float64",))
    assert with_gradients(problem).case.quantities == ["output"]
