"""What chapters say of PyTorch and JAX, run: each test has the words of the chapter, which must still stand there."""

import re

import numpy as np
import pytest

from refnp import course


def says(chapter, words):
    """The chapter has these words, whatever its line breaks are."""
    text = re.sub(r"\s+", " ", course.chapter(chapter).read_text(encoding="utf-8"))
    assert words in text, f"{chapter} no longer says {words!r}"


def rows(*shape):
    return np.random.default_rng(0).normal(size=shape)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def jax():
    return pytest.importorskip("jax")


# ---- masks


def test_true_is_may_attend_in_one_half_of_pytorch_and_may_not_in_the_other(torch):
    says("masks", 'PyTorch\'s `scaled_dot_product_attention`, JAX, ONNX and Keras True is "may attend"')
    says("masks", 'in `torch.nn.MultiheadAttention` and `nn.Transformer` True is "may *not*"')
    x = torch.tensor(rows(1, 2, 4))
    first_only = torch.tensor([[True, False], [True, False]])
    attended = torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=first_only)
    assert torch.equal(attended, x[:, :1].expand(1, 2, 4))
    module = torch.nn.MultiheadAttention(4, 1, batch_first=True, dtype=torch.float64)
    weights = module(x, x, x, attn_mask=first_only)[1]
    assert torch.equal(weights, torch.tensor([[[0.0, 1.0], [0.0, 1.0]]], dtype=torch.float64))


def test_the_causal_mask_of_pytorch_is_aligned_at_the_top_left(torch):
    says("masks", "aligned at the top left (PyTorch's `is_causal`")
    says(
        "decoding",
        "The causal mask of PyTorch's `is_causal` is aligned at the top left: the new word then sees the *first* key",
    )
    q, k = torch.tensor(rows(1, 1, 4)), torch.tensor(rows(1, 3, 4))
    one = torch.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True)
    assert torch.equal(one, k[:, :1])


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("gradient", [True, False])
def test_a_query_that_sees_nothing(torch, need_weights, train, gradient):
    says(
        "masks",
        "NaN where it returns weights (`need_weights=True`, the default) and in evaluation without gradients",
    )
    module = torch.nn.MultiheadAttention(4, 2, batch_first=True).train(train)
    x = torch.tensor(rows(1, 3, 4), dtype=torch.float32)
    hidden = torch.tensor([[False] * 3, [True] * 3, [False] * 3])
    with torch.set_grad_enabled(gradient):
        row = module(x, x, x, attn_mask=hidden, need_weights=need_weights)[0][0, 1].detach()
    if need_weights or not (train or gradient):
        assert row.isnan().all()
    else:
        assert torch.equal(row, torch.zeros(4))


def test_a_query_that_sees_nothing_in_sdpa_and_in_jax(torch, jax):
    says("masks", "JAX and Keras give the mean of all values. PyTorch's SDPA since 2.5 and refnp give 0")
    x = torch.tensor(rows(1, 3, 4))
    nothing = torch.zeros(3, 3, dtype=torch.bool)
    assert not torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=nothing).any()
    values = np.arange(12, dtype=np.float32).reshape(1, 3, 1, 4)
    found = jax.nn.dot_product_attention(0 * values, 0 * values, values, mask=np.zeros((1, 1, 3, 3), bool))
    np.testing.assert_allclose(found, np.broadcast_to(values.mean(1, keepdims=True), values.shape), rtol=1e-6)


def test_nan_behind_a_mask_comes_through(torch, jax):
    says("masks", "**NaN behind a mask** comes through in PyTorch")
    x = rows(1, 3, 4)
    x[0, 2] = np.nan
    seen = np.array([[True, True, False]] * 2)
    q, k, v = (torch.tensor(a) for a in (x[:, :2], rows(1, 3, 4), x))
    assert torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=torch.tensor(seen)).isnan().all()
    heads = x[:, :, None].astype(np.float32)  # (B, N, H, d)
    finite = np.nan_to_num(heads)
    assert np.isnan(jax.nn.dot_product_attention(finite[:, :2], finite, heads, mask=seen[None, None])).all()


# ---- attention, multi-head attention, the Transformer


def test_the_axis_of_the_heads(torch, jax):
    """A change of the last query changes its own output and no other, where the axes are the right ones."""
    says(
        "attention",
        "PyTorch, ONNX and refnp have $(B, H, N, d)$, `jax.nn.dot_product_attention`, flax and Keras $(B, N, H, d)$",
    )
    x = rows(1, 2, 5, 4).astype(np.float32)  # (B, H, N, d)
    other = x.copy()
    other[:, :, -1] += 1
    for attend, axes in (
        (
            lambda q, a: torch.nn.functional.scaled_dot_product_attention(*map(torch.tensor, (q, a, a))).numpy(),
            (0, 1, 2, 3),
        ),
        (
            lambda q, a: np.asarray(jax.nn.dot_product_attention(q, a, a)),
            (0, 2, 1, 3),
        ),
    ):
        keys = np.ascontiguousarray(x.transpose(axes))
        before, after = (attend(np.ascontiguousarray(q.transpose(axes)), keys) for q in (x, other))
        changed = (before != after).transpose(axes).any((0, 1, 3))
        assert changed.tolist() == [False] * 4 + [True]


def test_the_parts_of_torchs_transformer(torch):
    says(
        "transformer",
        "**torch.nn.Transformer** (PyTorch 2.13) has neither embeddings nor positions nor the last map",
    )
    says("transformer", "**LayerNorm's $\\varepsilon$** is $10^{-5}$ in PyTorch")
    says("transformer", "PyTorch drops attention weights and hidden units too")
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.25)
    assert [layer.self_attn.dropout, layer.dropout.p, layer.dropout1.p, layer.dropout2.p] == [0.25] * 4
    model = torch.nn.Transformer(4, 2, 1, 1, 8, batch_first=True, dropout=0.0, norm_first=False)
    outside = {name.rpartition(".")[0] for name, _ in model.named_parameters() if ".layers." not in name}
    assert outside == {"encoder.norm", "decoder.norm"}
    assert torch.nn.LayerNorm(3).eps == 1e-5
    source, target = torch.tensor(rows(1, 3, 4)).float(), torch.tensor(rows(1, 4, 4)).float()
    changed = target.clone()
    changed[:, -1] += 1
    assert (model.eval()(source, target) != model(source, changed))[0].any(-1).all(), "its decoder sees later words"


# ---- convolution, resolution


def test_convolutions_are_correlations(torch, jax):
    says("convolution", "PyTorch, JAX, TensorFlow, ONNX and refnp agree")
    x, w = np.array([1.0, 2.0, 0.0, -1.0]), np.array([1.0, 2.0, -1.0])
    right = np.correlate(x, w, "valid")
    found = torch.nn.functional.conv1d(torch.tensor(x)[None, None], torch.tensor(w)[None, None])[0, 0].numpy()
    np.testing.assert_array_equal(found, right)
    found = jax.lax.conv(np.float32(x)[None, None], np.float32(w)[None, None], (1,), "VALID")[0, 0]
    np.testing.assert_array_equal(found, right)


def test_where_channels_stand(jax):
    says("convolution", "`jax.lax.conv` have them first too, flax and Keras last")
    y = jax.lax.conv(np.ones((1, 2, 5), np.float32), np.ones((3, 2, 3), np.float32), (1,), "SAME")
    assert y.shape == (1, 3, 5)


def test_same_for_an_even_kernel_and_with_a_stride(torch, jax):
    says("convolution", "put the one more after $x$")
    says("convolution", "With a stride, PyTorch and refnp refuse")
    says("resolution", 'With padding "same" and a stride, JAX and TensorFlow choose the padding by the length')
    impulse = torch.tensor([[[0.0, 0.0, 1.0, 0.0]]])
    y = torch.nn.functional.conv1d(impulse, torch.tensor([[[2.0, 3.0]]]), padding="same")
    assert y.tolist() == [[[0.0, 3.0, 2.0, 0.0]]]  # y_p = 2 x_p + 3 x_{p+1}
    assert jax.lax.padtype_to_pads((4,), (2,), (1,), "SAME") == [(0, 1)]
    assert [jax.lax.padtype_to_pads((n,), (3,), (2,), "SAME") for n in (4, 5)] == [[(0, 1)], [(1, 1)]]
    with pytest.raises(ValueError, match="not supported for strided"):
        torch.nn.Conv1d(1, 1, 3, stride=2, padding="same")


def test_the_first_of_equal_maxima_gets_the_gradient(torch):
    says("resolution", "refnp gives all of it to the first, as PyTorch does")
    x = torch.tensor([[1.0, 1.0, 0.0, 1.0]], requires_grad=True)
    torch.nn.functional.max_pool1d(x, 4).sum().backward()
    assert x.grad.tolist() == [[1.0, 0.0, 0.0, 0.0]]
