"""Arrays with names as bytes, in four layouts; and answers read back, from files that are not trusted.

    npz          a ZIP archive, not compressed: case.json, and NAME.npy for each array
    safetensors  the header as the text `case` of the metadata (needs the package safetensors)
    json         the header, and under "arrays" {NAME: {"dtype", "shape", "data": [numbers, the last index fastest]}}
    raw          a folder: case.json; case.txt, the same in lines for C; NAME.bin for each array, its numbers alone

Everywhere numbers are little-endian and the last index runs fastest. In JSON, strict as RFC 8259 has it, a number that
is not finite is the text "NaN", "Infinity" or "-Infinity"; the others have the digits that give the same float64 back.

An answer has one array for each quantity, in the dtype of its case. Nothing in it is executed: no pickle is loaded, no
link followed, no name used as a path, and no more is read than the arrays can need.
"""

import io
import itertools
import json
import math
import os
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from refnp.models.published import safetensors

Arrays = dict[str, np.ndarray]
Faults = dict[str, str]  # {name of an array: what is wrong with it}
BEYOND = 1 << 20  # bytes that an answer may have beside its numbers, for names and headers
SURPLUS = 20  # arrays that an answer may have too many, each told by its name
PER_BYTE = 16  # bytes of text that a byte of numbers may take in JSON
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class UnreadableError(ValueError):
    """A file that is no answer; the message says why."""


class NoAnswerError(Exception):
    """The answer says that the program has no such function; the message says why."""


@dataclass(frozen=True)
class Format:
    """A layout: `files(name, header, arrays)` gives the bytes of a case by path, `read(path, expected)` an answer."""

    suffix: str  # of the file of an answer; empty for a folder
    files: Callable[[str, Mapping[str, Any], Arrays], dict[str, bytes]]
    read: Callable[[Path, Arrays], tuple[Arrays, Faults]]


# Writing


def as_text(value: Any) -> bytes:
    """Strict JSON in UTF-8 with sorted keys."""
    return f"{json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)}\n".encode()


def number(value: float) -> float | str:
    """A number as JSON has it: one that is not finite is a text."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def little(array: np.ndarray) -> np.ndarray:
    """Little-endian, the last index fastest."""
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")


def in_npz(name: str, header: Mapping[str, Any], arrays: Arrays) -> dict[str, bytes]:
    """A ZIP archive without compression; every file in it is dated 1980-01-01."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for path, data in [("case.json", as_text(header)), *((f"{k}.npy", in_npy(a)) for k, a in arrays.items())]:
            entry = zipfile.ZipInfo(path)  # dated 1980-01-01
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, data)
    return {f"{name}.npz": content.getvalue()}


def in_npy(array: np.ndarray) -> bytes:
    """An array with NumPy's header, version 1.0."""
    content = io.BytesIO()
    np.lib.format.write_array(content, little(array), version=(1, 0), allow_pickle=False)
    return content.getvalue()


def in_safetensors(name: str, header: Mapping[str, Any], arrays: Arrays) -> dict[str, bytes]:
    """The arrays, and the header among the metadata."""
    given = {key: little(array) for key, array in arrays.items()}
    save_arrays = safetensors.package(*LAYOUT).numpy.save
    return {f"{name}.safetensors": save_arrays(given, metadata={"case": as_text(header).decode()})}


def in_json(name: str, header: Mapping[str, Any], arrays: Arrays) -> dict[str, bytes]:
    """One JSON text."""
    stated = {key: described(array) | {"data": numbers(array)} for key, array in arrays.items()}
    return {f"{name}.json": (json.dumps({**header, "arrays": stated}, **COMPACT) + "\n").encode()}


COMPACT: dict[str, Any] = {"sort_keys": True, "ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}


def described(array: np.ndarray) -> dict[str, Any]:
    """An array's dtype and shape."""
    return {"dtype": str(array.dtype), "shape": list(array.shape)}


def numbers(array: np.ndarray) -> list:
    """The numbers of an array, the last index fastest, as JSON has them."""
    flat = array.reshape(-1).tolist()
    return [number(value) for value in flat] if array.dtype.kind == "f" else flat


def in_raw(name: str, header: Mapping[str, Any], arrays: Arrays) -> dict[str, bytes]:
    """A folder of a file for each array, the header in JSON and in lines."""
    stated = {key: described(array) | {"file": f"{key}.bin"} for key, array in arrays.items()}
    found = {"case.json": as_text({**header, "arrays": stated}), "case.txt": in_lines(header, arrays)}
    found |= {f"{key}.bin": little(array).tobytes() for key, array in arrays.items()}
    return {f"{name}/{path}": content for path, content in found.items()}


def in_lines(header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """The header line by line, a word, a name, and what belongs to it; values of options as JSON has them."""
    lines = [f"refnp-case {header['version']}", *(f"{key} {header[key]}" for key in ("id", "layer", "dtype"))]
    lines += [f"quantity {quantity}" for quantity in header["quantities"]]
    lines += [f"option {key} {json.dumps(value, **COMPACT)}" for key, value in sorted(header["options"].items())]
    lines += [" ".join(map(str, ("array", key, a.dtype, a.ndim, *a.shape))) for key, a in arrays.items()]
    return "".join(f"{line}\n" for line in lines).encode()


# Reading what is not trusted


def printable(text: str) -> str:
    """A text that came from outside as it may be shown: a line of at most 300 letters, none of which controls."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:300])


def limit_of(expected: Arrays) -> int:
    """More bytes than an answer can need."""
    return BEYOND + PER_BYTE * sum(array.nbytes for array in expected.values())


def read_plain(path: Path, limit: int) -> bytes:
    """The bytes of a plain file; UnreadableError for a link, a pipe, a device, or one with more than `limit` bytes."""
    try:
        if path.is_symlink():
            raise UnreadableError("a symbolic link, which is not followed")
        opened = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | BINARY)
    except OSError as wrong:
        raise UnreadableError(f"cannot be read: {wrong.strerror}") from None
    try:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError("no plain file")
        if status.st_size > limit:
            raise UnreadableError(f"{status.st_size} bytes, where {limit} are more than enough")
        with open(opened, "rb", closefd=False) as file:
            return file.read(min(limit, status.st_size))
    finally:
        os.close(opened)


BINARY = getattr(os, "O_BINARY", 0)


def fault_of(dtype: np.dtype, shape: tuple[int, ...], right: np.ndarray) -> str:
    """What is wrong with an array that calls itself of this dtype and shape; empty if nothing is."""
    if dtype.hasobject:
        return "Python objects (a pickle), which are never loaded"
    if dtype != right.dtype:
        swapped = dtype.newbyteorder() == right.dtype
        return f"{dtype.str[:1]} is big-endian; write little-endian" if swapped else f"{dtype}, not {right.dtype}"
    return "" if shape == right.shape else f"shape {shape} where {right.shape} is right"


def filled(data: bytes, right: np.ndarray) -> np.ndarray:
    """Bytes as an array of the expected dtype and shape; ValueError if they are too few or too many."""
    if len(data) != right.nbytes:
        raise ValueError(f"{len(data)} bytes of numbers where {right.nbytes} are right")
    found = np.frombuffer(data, right.dtype.newbyteorder("<")).reshape(right.shape)
    return found.astype(right.dtype)


def each(found: Mapping[str, Any], expected: Arrays, array_of: Callable[[Any, np.ndarray], np.ndarray]) -> Any:
    """(arrays, faults) of what a file holds by name: `array_of(content, right)`, or what its ValueError says."""
    check_count(len(found), expected)
    arrays: Arrays = {}
    faults: Faults = {}
    for name, content in found.items():
        if name not in expected:
            faults[name] = f"the case has no such quantity; it has {', '.join(expected)}"
            continue
        try:
            arrays[name] = array_of(content, expected[name])
        except ValueError as wrong:
            faults[name] = str(wrong)
    return arrays, faults


def read_npz(path: Path, expected: Arrays) -> tuple[Arrays, Faults]:
    """An archive of .npy files, stored or deflated."""
    content = io.BytesIO(read_plain(path, limit_of(expected)))
    try:
        with zipfile.ZipFile(content) as archive:
            entries = archive.infolist()
            names = [entry.filename.removesuffix(".npy") for entry in entries]
            check_once(names)
            by_name = dict(zip(names, entries, strict=True))
            return each(by_name, expected, lambda entry, right: from_npy(_member(archive, entry, right), right))
    except (zipfile.BadZipFile, UnicodeError, NotImplementedError, struct.error, EOFError, OverflowError) as wrong:
        raise UnreadableError(f"no ZIP archive that can be read: {wrong}") from None


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, right: np.ndarray) -> bytes:
    """The bytes of a file in an archive, no more than the array can need."""
    limit = right.nbytes * 2 + (1 << 16)
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("compressed in a way that is not read; store or deflate")
    if entry.file_size > limit:
        raise ValueError(f"{entry.file_size} bytes, where {right.nbytes} of numbers are right")
    try:
        with archive.open(entry) as member:
            return member.read(limit)
    except (zipfile.BadZipFile, RuntimeError, zlib.error, EOFError, OSError) as wrong:
        raise ValueError(f"cannot be read from the archive: {wrong}") from None


def from_npy(content: bytes, right: np.ndarray) -> np.ndarray:
    """A .npy file as an array; ValueError if it is another than the expected one."""
    file = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(file)
        header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, fortran, dtype = header[version](file)
    except Exception as wrong:  # whatever a header that lies may cause in NumPy's parser
        raise ValueError(f"no .npy file: {type(wrong).__name__}: {wrong}".splitlines()[0]) from None
    if fault := fault_of(dtype, shape, right):
        raise ValueError(fault)
    found = filled(file.read(), right)
    return found.reshape(shape[::-1]).T.copy() if fortran else found


def read_safetensors(path: Path, expected: Arrays) -> tuple[Arrays, Faults]:
    """A safetensors file."""
    content = read_plain(path, limit_of(expected))
    try:
        safetensors.package(*LAYOUT)
        entries = safetensors.entries_of(content)
    except ImportError as wrong:
        raise UnreadableError(str(wrong)) from None
    except ValueError as wrong:
        raise UnreadableError(f"no safetensors file: {wrong}") from None
    return each(entries, expected, from_tensor)


LAYOUT = "this layout is read and written", "choose npz, json or raw"
SAFETENSORS = {"float32": "F32", "float64": "F64"}


def from_tensor(entry: Mapping[str, Any], right: np.ndarray) -> np.ndarray:
    """A tensor of a safetensors file as an array; ValueError if it is another than the expected one."""
    if entry["dtype"] != SAFETENSORS[str(right.dtype)]:
        raise ValueError(f"{entry['dtype']}, not {SAFETENSORS[str(right.dtype)]}")
    if tuple(entry["shape"]) != right.shape:
        raise ValueError(f"shape {tuple(entry['shape'])} where {right.shape} is right")
    return filled(bytes(entry["data"]), right)


def read_json(path: Path, expected: Arrays) -> tuple[Arrays, Faults]:
    """{NAME: {"dtype": …, "shape": …, "data": …}, …}, or {"skipped": "why there is no answer"}."""
    content = read_plain(path, limit_of(expected))
    try:
        found = strict_json(content)
    except ValueError as wrong:
        raise UnreadableError(f"no strict JSON: {wrong}") from None
    if not isinstance(found, dict):
        raise UnreadableError('no answer: {"output": {"dtype": …, "shape": …, "data": […]}, …} is one')
    if list(found) == ["skipped"]:
        raise NoAnswerError(str(found["skipped"]).splitlines()[0][:200] if found["skipped"] else "without a reason")
    return each(found, expected, from_numbers)


def strict_json(content: bytes) -> Any:
    """What a text of JSON in UTF-8 holds, each name once, −0 kept; ValueError for any other, or one too deep."""
    options: Any = {"object_pairs_hook": safetensors.once, "parse_constant": _no_constant, "parse_float": _in_range}
    try:
        return json.loads(content.decode(), parse_int=lambda digits: -0.0 if digits == "-0" else int(digits), **options)
    except RecursionError as wrong:
        raise ValueError(str(wrong)) from None


def from_numbers(entry: Any, right: np.ndarray) -> np.ndarray:
    """A JSON object as an array, its numbers rounded to the dtype; ValueError if it is another than the expected."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data"}:
        raise ValueError("must be an object of dtype, shape and data")
    if entry["dtype"] != str(right.dtype):
        raise ValueError(f"{str(entry['dtype'])[:40]}, not {right.dtype}")
    if entry["shape"] != list(right.shape) or any(isinstance(size, bool | float) for size in entry["shape"]):
        raise ValueError(f"shape {str(entry['shape'])[:40]} where {list(right.shape)} is right")
    data = entry["data"]
    if not isinstance(data, list) or len(data) != right.size:
        raise ValueError(
            f"{len(data) if isinstance(data, list) else 'no'} numbers in data where {right.size} are right"
        )
    values: list[Any] = [NOT_FINITE.get(value) if isinstance(value, str) else value for value in data]
    if wrong := [given for given, value in zip(data, values, strict=True) if not _is_number(value)]:
        raise ValueError(f'{str(wrong[0])[:40]!r} in data is no number; "NaN", "Infinity" and "-Infinity" are texts')
    with np.errstate(over="ignore"):
        return np.array([float(value) for value in values], np.float64).astype(right.dtype).reshape(right.shape)


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (type(value) is int and abs(value) < 1 << 1023)


def read_raw(path: Path, expected: Arrays) -> tuple[Arrays, Faults]:
    """A folder of NAME.bin."""
    if path.is_symlink() or not path.is_dir():
        raise UnreadableError("a symbolic link, which is not followed" if path.is_symlink() else "no folder")
    files = list(itertools.islice(path.iterdir(), len(expected) + SURPLUS + 1))
    found = {file.name.removesuffix(".bin"): file for file in sorted(files)}
    check_once([file.name.removesuffix(".bin") for file in files])
    if not found:
        raise UnreadableError("no answer")
    return each(found, expected, lambda file, right: filled(read_plain(file, limit_of({"": right})), right))


def check_count(count: int, expected: Arrays) -> None:
    """UnreadableError for a file of many more arrays than the case has: no row for each."""
    if count > len(expected) + SURPLUS:
        raise UnreadableError(f"{len(expected)} arrays are right, and there are more than {len(expected) + SURPLUS}")


def check_once(names: list[str]) -> None:
    """UnreadableError for a name that is there twice."""
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise UnreadableError(f"{twice[:80]!r} is there twice")


def _no_constant(name: str) -> float:
    raise ValueError(f'{name} is not JSON; write the text "{name}"')


def _in_range(digits: str) -> float:
    if math.isinf(float(digits)):
        raise ValueError(f'{digits[:40]} is beyond float64; write the text "Infinity" if it is meant')
    return float(digits)


FORMATS = {
    "npz": Format(".npz", in_npz, read_npz),
    "safetensors": Format(".safetensors", in_safetensors, read_safetensors),
    "json": Format(".json", in_json, read_json),
    "raw": Format("", in_raw, read_raw),
}
