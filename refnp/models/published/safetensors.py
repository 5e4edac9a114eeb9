"""Weights in safetensors files, with the names and layouts that PyTorch's models have in them, and back.

    published.safetensors.load(model, published.safetensors.read("model.safetensors"))
    published.safetensors.write("model.safetensors", published.safetensors.save(model))

A file holds arrays by name and says nothing of modules. Layouts of common layers are `published.torch`'s, (out, in) for
Linear, weight and bias for LayerNorm and RMSNorm; but attention has a Linear for each of q_proj, k_proj, v_proj and
out_proj, as nearly all models in such files, so that heads may share keys and be of any width. What a model calls its
parts is said with `NAMES.extended`, an example in docs/loading.md:

    NAMES.extended("my model", parts={MultiHeadAttention: {"out_proj": "o_proj"}, Encoder: {"layers.*": "blocks.*"}})

`read` and `write` need the package safetensors (pip install 'refnp[safetensors]'); `load` and `save` do not: they take
mappings of arrays.
Source: github.com/huggingface/safetensors, the format; transformers' attention modules, the names.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from refnp.files import write_whole
from refnp.layers.multi_head import MultiHeadAttention
from refnp.models.published import torch
from refnp.models.published.renaming import Entry, Names, State, array_of, same, transposed

DTYPES = {"BOOL": "?", "I8": "i1", "U8": "u1", "I16": "<i2", "U16": "<u2", "I32": "<i4", "U32": "<u4", "I64": "<i8"}
DTYPES |= {"U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8"}  # the format's name: NumPy's


def of_attention(module: MultiHeadAttention) -> list[Entry]:
    """Four Linear maps."""
    torch.check_maps("published.safetensors", module)
    maps = {"q_proj": module.query, "k_proj": module.key, "v_proj": module.value, "out_proj": module.output}
    return [
        entry
        for name, own in maps.items()
        for entry in transposed(f"{name}.weight", own.weight) + same(f"{name}.bias", own.bias)
    ]


NAMES: Names = torch.NAMES.extended("published.safetensors", layouts={MultiHeadAttention: of_attention})
load, save = NAMES.load, NAMES.save


def read(file: str | os.PathLike) -> State:
    """The arrays of a safetensors file, bfloat16 as float32.

    Raises ImportError if the package safetensors is not installed, OSError if there is no such file, ValueError if it
    is no safetensors file, TypeError for numbers that NumPy has not, of 8 bits and less.
    """
    package(*FILES)
    try:
        entries = entries_of(Path(file).read_bytes())
    except ValueError as error:
        raise ValueError(f"published.safetensors: {file} is no safetensors file: {error}") from None
    return {name: _array(name, **entry) for name, entry in entries.items()}


def entries_of(content: bytes) -> dict[str, Any]:
    """What the bytes of a file hold: {name: {"dtype", "shape", "data"}}; ValueError if they are none."""
    import safetensors

    try:
        entries = dict(safetensors.deserialize(content))
        json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")], object_pairs_hook=once)
    except (safetensors.SafetensorError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return entries


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Names with what belongs to them; ValueError for one that is there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{twice[:80]!r} is there twice")
    return found


def _array(name: str, dtype: str, shape: list[int], data: bytes) -> np.ndarray:
    """The array of an entry; bfloat16 is the upper half of float32."""
    if dtype == "BF16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
    if dtype not in DTYPES:
        raise TypeError(f"published.safetensors: {name} is {dtype}, which NumPy has not; convert the file to F32 first")
    found = np.frombuffer(data, DTYPES[dtype]).reshape(shape)
    return found.astype(found.dtype.newbyteorder("="))


def write(file: str | os.PathLike, state: Mapping[str, Any]) -> None:
    """Store arrays by name, whole or not at all.

    Raises ImportError if the package safetensors is not installed, TypeError for a dtype that the format has not.
    """
    arrays = {name: array_of(value) for name, value in state.items()}
    save_arrays = package(*FILES).numpy.save
    for name, array in arrays.items():
        if array.dtype.newbyteorder("<") not in map(np.dtype, DTYPES.values()):
            raise TypeError(
                f"published.safetensors: {name} is {array.dtype}, which the format has not; use model.astype('float64')"
            )
    write_whole(file, save_arrays({name: _little(array) for name, array in arrays.items()}))


FILES = "published.safetensors: files are read", "pass a mapping of arrays to load"


def package(what: str, instead: str) -> Any:
    """The package safetensors; ImportError where it is not installed, which says `what` needs it, and what to do."""
    try:
        import safetensors
        import safetensors.numpy
    except ImportError:
        raise ImportError(
            f"{what} with the package safetensors, which is not installed; "
            f"pip install 'refnp[safetensors]', or {instead}"
        ) from None
    return safetensors


def _little(array: np.ndarray) -> np.ndarray:
    """Row by row, in the machine's order of bytes."""
    return np.array(array, array.dtype.newbyteorder("="), order="C")
