"""Arrays by name as safetensors files have them: names and layouts without the package, files with it."""

import importlib.util
import json
import struct
import sys

import numpy as np
import pytest

from refnp.layers import Convolution, Embedding, LayerNorm, Linear, MultiHeadAttention, RMSNorm
from refnp.models import Encoder, EncoderLayer
from refnp.models.published import safetensors as from_file
from tests.helpers import assert_same_bits, normal
from tests.models.helpers import generator

needs_package = pytest.mark.skipif(
    importlib.util.find_spec("safetensors") is None, reason="safetensors is not installed"
)


def drawn(module):
    """A module with other numbers than those it starts with."""
    module.load_state_dict({name: normal(i, a.shape) for i, (name, a) in enumerate(module.state_dict().items())})
    return module


def expected(module):
    """What the documentation of transformers says of these layers, by hand."""
    weights = module.state_dict()
    if isinstance(module, MultiHeadAttention):
        roles = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
        return {f"{roles[n.split('.')[0]]}.{n.split('.')[1]}": a.T for n, a in weights.items()}
    if isinstance(module, (LayerNorm, RMSNorm)):
        return {{"gain": "weight", "shift": "bias"}[name]: array for name, array in weights.items()}
    return {name: array.T if isinstance(module, Linear) else array for name, array in weights.items()}


@pytest.mark.parametrize("make", [
    lambda: Linear(3, 5, rng=generator()),
    lambda: Linear(3, 5, bias=False, rng=generator()),
    lambda: LayerNorm(4),
    lambda: LayerNorm(4, bias=False),
    lambda: RMSNorm(4),
    lambda: Embedding(6, 3, rng=generator()),
    lambda: Convolution(2, 4, (3, 2), dimensions=2, rng=generator()),
    lambda: MultiHeadAttention(4, 2, rng=generator()),
    lambda: MultiHeadAttention(4, 2, bias=False, rng=generator()),
    lambda: MultiHeadAttention(6, 4, key_heads=2, head_features=5, key_features=3, output_features=2, rng=generator()),
])  # fmt: skip
def test_common_layers_there_and_back(make):
    one, other = drawn(make()), make()
    state = from_file.save(one)
    assert state.keys() == expected(one).keys()
    for name, array in expected(one).items():
        assert_same_bits(state[name], array)
    from_file.load(other, state)
    for name, array in one.state_dict().items():
        assert_same_bits(other.state_dict()[name], array)


def test_names_of_a_model_of_ones_own():
    """As docs/loading.md shows it: parts are called as the file has them."""
    names = from_file.NAMES.extended(
        "my model",
        parts={
            MultiHeadAttention: {"out_proj": "o_proj"},
            EncoderLayer: {"around_attention.layer_norm": "norm_1", "feed_forward": "mlp", "attention": "attn"},
            Encoder: {"layers.*": "blocks.*"},
        },
    )
    stack = Encoder(2, 4, 2, 6, bias=False, rng=generator())
    state = names.save(stack)
    assert {"blocks.1.attn.o_proj.weight", "blocks.0.norm_1.weight", "blocks.0.mlp.layers.1.weight"} <= state.keys()
    assert not [name for name in state if name.endswith("bias")]
    names.load(Encoder(2, 4, 2, 6, bias=False, rng=generator()), state)


def test_without_the_package_it_is_said_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "safetensors", None)  # which makes importing it fail
    message = r"read with the package safetensors, which is not installed; pip install 'refnp\[safetensors\]', or pass"
    with pytest.raises(ImportError, match=message):
        from_file.read(tmp_path / "model.safetensors")
    with pytest.raises(ImportError, match=message):
        from_file.write(tmp_path / "model.safetensors", {})
    assert list(tmp_path.iterdir()) == []


# ---- files


def bytes_of(arrays):
    """A file as the format's documentation says it: the header's length in 8 bytes, the header in JSON, the numbers."""
    header, end, content = {}, 0, b""
    for name, (dtype, shape, data) in arrays.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(data)]}
        end, content = end + len(data), content + data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content


@needs_package
def test_a_file_there_and_back(tmp_path):
    model, file = drawn(Encoder(1, 4, 2, 6, rng=generator())), tmp_path / "model.safetensors"
    from_file.write(file, from_file.save(model))
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
    other = Encoder(1, 4, 2, 6, rng=generator())
    from_file.load(other, from_file.read(file))
    for name, array in model.state_dict().items():
        assert_same_bits(other.state_dict()[name], array)


@needs_package
def test_a_file_byte_by_byte(tmp_path):
    """Written by hand from the format's documentation; bfloat16 is the upper half of float32."""
    weight = normal(0, (5, 3), np.float32)
    half = np.array([1.0, -2.5, 0.15625], np.float32)
    upper = (half.view(np.uint32) >> 16).astype("<u2")
    content = {
        "weight": ("F32", [5, 3], weight.tobytes()),
        "half": ("BF16", [3], upper.tobytes()),
        "none": ("F64", [0, 2], b""),
    }
    (tmp_path / "x").write_bytes(bytes_of(content))
    found = from_file.read(tmp_path / "x")
    assert_same_bits(found["weight"], weight)
    assert_same_bits(found["half"], half)
    assert_same_bits(found["none"], np.empty((0, 2)))


@needs_package
def test_transposed_and_foreign_arrays_are_written_as_they_are(tmp_path):
    x = np.asfortranarray(normal(0, (3, 4)))[::-1]
    from_file.write(tmp_path / "x", {"x": x, "y": [1.0, 2.0], "z": x.astype(">f4"), "b": x > 0})
    found = from_file.read(tmp_path / "x")
    assert_same_bits(found["x"], x)
    assert_same_bits(found["z"], x.astype(np.float32))
    assert_same_bits(found["b"], x > 0)
    assert_same_bits(found["y"], np.array([1.0, 2.0]))


@needs_package
def test_what_is_no_such_file_and_what_the_format_has_not(tmp_path):
    with pytest.raises(FileNotFoundError):
        from_file.read(tmp_path / "nowhere")
    for content in (b"", b"hello", bytes_of({"x": ("F64", [3], b"1")})):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(ValueError, match=r"published\.safetensors: .*x is no safetensors file: "):
            from_file.read(tmp_path / "x")
    (tmp_path / "x").write_bytes(bytes_of({"x": ("F8_E4M3", [2], b"12")}))
    with pytest.raises(TypeError, match=r"published\.safetensors: x is F8_E4M3, which NumPy has not; convert the file"):
        from_file.read(tmp_path / "x")
    before = (tmp_path / "x").read_bytes()
    with pytest.raises(
        TypeError, match=r"published\.safetensors: w is \S+, which the format has not; use model\.astype"
    ):
        from_file.write(tmp_path / "x", {"w": np.ones(2, np.longdouble)})
    assert (tmp_path / "x").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1
