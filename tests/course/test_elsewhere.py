"""What chapters say of other software. CI runs it with the versions that they name, those of .ci/constraints.txt."""

import inspect
import re

import numpy as np
import pytest

from refnp import course
from refnp.autograd import linear, vjp
from refnp.layers import cross_entropy, gaussian_nll, gelu, layer_norm, softmax, softplus


@pytest.fixture
def wide(jax):
    """Within it JAX computes in float64."""
    return jax.enable_x64() if hasattr(jax, "enable_x64") else jax.experimental.enable_x64()


def says(chapter, words):
    """The chapter has these words, whatever its line breaks are."""
    text = re.sub(r"\s+", " ", course.chapter(chapter).read_text(encoding="utf-8"))
    assert words in text, f"{chapter} no longer says {words!r}"


def rows(*shape):
    return np.random.default_rng(0).normal(size=shape)


# ---- a function and its transpose, the tape, checking


def test_vjp_and_linear(torch, jax, wide):
    """torch.func.vjp and jax.vjp give value and pullback; nn.Linear keeps Wᵀ; PyTorch alone conjugates."""
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(4, 3)), rng.normal(size=(3, 2))
    layer = torch.nn.Linear(3, 2, bias=False, dtype=torch.float64)
    assert tuple(layer.weight.shape) == (2, 3)
    layer.load_state_dict({"weight": torch.from_numpy(weight.T.copy())})
    assert np.allclose(layer(torch.from_numpy(x)).detach().numpy(), linear(x, weight), rtol=1e-13)
    z, bar = 1.0 + 2.0j, 3.0 - 1.0j
    by_torch = torch.func.vjp(lambda t: t * t, torch.tensor(z, dtype=torch.complex128))[1](
        torch.tensor(bar, dtype=torch.complex128)
    )[0].item()
    with wide:
        by_jax = complex(jax.vjp(lambda t: t * t, jax.numpy.asarray(z))[1](jax.numpy.asarray(bar))[0])
    (by_refnp,) = vjp(lambda t: t * t, np.array(z))[1](np.array(bar))
    assert by_refnp == by_jax == 2 * z * bar
    assert by_torch == np.conj(2 * z) * bar != by_refnp


def test_tapes(torch, jax):
    """PyTorch refuses what was changed in place, and a second walk unless retain_graph; it adds to .grad."""
    t = torch.tensor(3.0, requires_grad=True)
    inner = t * 1.0
    square = inner * inner
    inner.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.backward()
    square = t * t
    square.backward(retain_graph=True)
    square.backward()
    assert t.grad == 12.0
    with pytest.raises(RuntimeError, match="second time"):
        square.backward()
    assert jax.grad(lambda x: x * x)(3.0) == 6.0
    assert not hasattr(jax.numpy.ones(()), "grad")
    assert callable(jax.checkpoint)
    from torch.utils.checkpoint import checkpoint

    assert callable(checkpoint)


def test_gradient_checks(torch, jax, wide):
    """A sigmoid whose gradient is wrong in the fourth digit passes torch's gradcheck, and JAX's in float32 alone."""

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.sigmoid(x)

        @staticmethod
        def backward(ctx, s_bar):
            s = torch.sigmoid(ctx.saved_tensors[0])
            return 1.0001 * s_bar * s * (1 - s)

    places = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Wrong.apply, (places,), eps=1e-6, atol=1e-5, rtol=1e-3)
    defaults = inspect.signature(torch.autograd.gradcheck).parameters
    assert [defaults[name].default for name in ("eps", "atol", "rtol")] == [1e-6, 1e-5, 1e-3]

    from jax.test_util import check_grads

    @jax.custom_vjp
    def wrong(x):
        return jax.nn.sigmoid(x)

    def backward(s, s_bar):
        return (1.0001 * s_bar * s * (1 - s),)

    wrong.defvjp(lambda x: (jax.nn.sigmoid(x), jax.nn.sigmoid(x)), backward)
    check_grads(wrong, (np.float32([0, 1, 2]),), 1, modes=["rev"])
    with wide, pytest.raises(AssertionError, match="rtol=1e-05, atol=1e-05"):
        check_grads(wrong, (np.array([0.0, 1.0, 2.0]),), 1, modes=["rev"])


# ---- softmax


def test_softmax(torch, jax, wide):
    """At a gap of 40 the gradient is 0 in torch and JAX; a row of −∞ is NaN; axes, and ONNX's old softmax."""
    z, bar = np.array([0.0, -40.0]), np.array([1.0, 0.0])
    ours = vjp(softmax, z)[1](bar)[0]
    t = torch.tensor(z, requires_grad=True)
    torch.softmax(t, -1).backward(torch.from_numpy(bar))
    with wide:
        by_jax = np.asarray(jax.vjp(jax.nn.softmax, z)[1](bar)[0])
    assert t.grad[0] == by_jax[0] == 0 < ours[0]
    nothing = np.full(3, -np.inf, np.float32)
    assert torch.softmax(torch.from_numpy(nothing), -1).isnan().all()
    assert np.isnan(jax.nn.softmax(nothing)).all()
    assert softmax(nothing).tolist() == [0, 0, 0]
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.allclose(jax.nn.softmax(table).sum(-1), 1)
    with pytest.warns(UserWarning, match="Implicit dimension choice"):
        torch.nn.functional.softmax(torch.from_numpy(table))


def test_softmax_of_onnx():
    """Before opset 13 the default axis is 1, and it and all after it are one row."""
    defs = pytest.importorskip("onnx.defs")
    old, new = (defs.get_schema("Softmax", version) for version in (11, 13))
    assert (old.attributes["axis"].default_value.i, new.attributes["axis"].default_value.i) == (1, -1)
    assert "coerced" in old.doc
    assert "coerced" not in new.doc


# ---- LayerNorm


def test_layer_norm(torch, jax):
    """torch's ε is 1e-5; jax.nn.standardize takes the variance in one pass."""
    assert torch.nn.LayerNorm(4).eps == 1e-5
    rows = np.float32(1e4) + np.random.default_rng(0).normal(size=(1000, 64)).astype(np.float32)
    with np.errstate(invalid="ignore"):
        by_jax = np.asarray(jax.nn.standardize(rows, axis=-1))
    right = layer_norm(rows.astype(np.float64))
    off = np.abs(by_jax - right).max(-1)
    assert np.median(np.where(np.isfinite(off), off, np.inf)) > 0.1 > np.abs(layer_norm(rows) - right).max()


# ---- activations


def test_activations(torch, jax, wide):
    """Slopes at a kink, GELU's forms and its tail, the softplus of torch above 20, the slope of its sigmoid."""

    def slope(function, x):
        t = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        function(t).backward()
        return t.grad.item()

    assert slope(torch.relu, 0.0) == jax.grad(jax.nn.relu)(0.0) == 0
    assert slope(torch.sigmoid, 40.0) == 0 < slope(torch.sigmoid, 36.0)
    far = torch.tensor(-9.0, dtype=torch.float64)
    assert torch.nn.functional.gelu(far) == 0 > gelu(-9.0)
    grid = np.linspace(-4, 4, 81)
    by_torch = torch.nn.functional.gelu(torch.from_numpy(grid)).numpy()
    with wide:
        by_jax = np.asarray(jax.nn.gelu(grid))
    assert np.allclose(by_torch, gelu(grid), rtol=0, atol=1e-14)
    assert np.allclose(by_jax, gelu(grid, approximate="tanh"), rtol=0, atol=1e-14)
    assert np.abs(by_torch - by_jax).max() > 1e-4
    above = np.linspace(20, 24, 4001)[1:]
    off = np.abs(torch.nn.functional.softplus(torch.from_numpy(above)).numpy() - softplus(above))
    assert 2.0e-9 < off.max() < 2.1e-9


# ---- losses, likelihoods


def test_losses(torch):
    """torch's cross-entropy: logits, classes second, smoothing over all classes, NaN over nothing, lost digits."""
    entropy = torch.nn.functional.cross_entropy
    rng = np.random.default_rng(0)
    z, classes = rng.normal(size=(2, 4, 5)), rng.integers(0, 5, (2, 4))
    wide, target = torch.from_numpy(z).movedim(-1, 1), torch.from_numpy(classes)
    for alpha in (0.0, 0.1):
        ours = cross_entropy(z, classes, label_smoothing=alpha)
        assert np.isclose(entropy(wide, target, label_smoothing=alpha).item(), ours, rtol=1e-12)
    assert entropy(torch.zeros(2, 3), torch.tensor([0, 0]), ignore_index=0).isnan()
    sure = torch.tensor([[40.0, 0.0]], dtype=torch.float64, requires_grad=True)
    loss = entropy(sure, torch.tensor([0]))
    loss.backward()
    assert loss.item() == sure.grad[0, 0].item() == 0 < cross_entropy(sure.detach().numpy(), np.array([0]))


def test_gaussian_nll(torch):
    """torch's takes the variance, bounds it below by 1e-6, and leaves ½ log 2π out unless full=True."""
    mean, std, y = (torch.tensor([v], dtype=torch.float64) for v in (1.0, 2.0, 4.0))
    ours = gaussian_nll(mean.numpy(), std.numpy(), y.numpy())
    loss = torch.nn.functional.gaussian_nll_loss
    assert np.isclose(loss(mean, y, std**2, full=True).item(), ours, rtol=1e-14)
    assert np.isclose(loss(mean, y, std**2).item(), ours - 0.5 * np.log(2 * np.pi), rtol=1e-14)
    assert loss(mean, y, 0 * std) == loss(mean, y, 0 * std + 1e-6) != loss(mean, y, 0 * std + 2e-6)


# ---- training


def test_training(torch):
    """torch's Adam adds ε to √v̂; clip_grad_norm_ takes all together, adds 1e-6, and spreads a NaN."""
    theta = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    theta.grad = torch.full((1,), 1e-3, dtype=torch.float64)
    torch.optim.Adam([theta], lr=1.0, betas=(0.9, 0.999), eps=1e-3).step()
    assert np.isclose(theta.item(), -0.5, rtol=1e-12)  # g/(|g| + ε); with ε before the correction .03
    both = [torch.nn.Parameter(torch.zeros(1, dtype=torch.float64)) for _ in range(2)]
    for parameter, g in zip(both, (3.0, 4.0), strict=True):
        parameter.grad = torch.full((1,), g, dtype=torch.float64)
    assert torch.nn.utils.clip_grad_norm_(both, 1.0) == 5
    assert np.isclose(both[0].grad.item(), 3 / (5 + 1e-6), rtol=1e-13)
    both[0].grad[:] = float("nan")
    torch.nn.utils.clip_grad_norm_(both, 1.0)
    assert all(parameter.grad.isnan().all() for parameter in both)


# ---- conventions, the engine


def test_conventions_of_slopes(torch, jax):
    """At a NaN and at equal numbers; the determinant of a singular matrix."""
    nan = torch.tensor(float("nan"), requires_grad=True)
    torch.relu(nan).backward()
    assert (nan.grad.item(), float(jax.grad(jax.nn.relu)(np.nan))) == (1, 0)
    equal = torch.ones(3, requires_grad=True)
    equal.std(correction=0).backward()
    assert equal.grad.tolist() == [0, 0, 0]
    assert np.isnan(jax.grad(jax.numpy.std)(np.ones(3))).all()
    assert torch.var(torch.tensor([0.0, 2.0])) == 2
    singular = torch.tensor([[4.0, 2, 0], [2, 1, 0], [0, 0, 1]], requires_grad=True)  # on any machine
    torch.det(singular).backward()
    assert not singular.grad.any()  # the cofactors are up to 4


def test_conventions_of_windows_and_norms(torch):
    """The last NaN; constants of norms; windows of an adaptive pooling, places of an upsampling."""
    functional = torch.nn.functional
    nans = torch.tensor([[[float("nan"), 1.0, float("nan")]]])
    assert functional.max_pool1d(nans, 3, return_indices=True)[1].item() == 2
    for norm in (torch.nn.BatchNorm1d(2), torch.nn.InstanceNorm1d(2), torch.nn.GroupNorm(1, 2)):
        assert norm.eps == 1e-5
    assert torch.nn.BatchNorm1d(2).momentum == 0.1
    numbers = torch.arange(5.0)[None, None]
    windows = [(p * 5 // 3, -(-(p + 1) * 5 // 3)) for p in range(3)]
    means = [float(np.mean(range(start, stop))) for start, stop in windows]
    assert np.allclose(functional.adaptive_avg_pool1d(numbers, 3).numpy()[0, 0], means, rtol=1e-6)
    assert functional.interpolate(numbers, size=3, mode="nearest").tolist() == [[[i * 5 // 3 for i in range(3)]]]


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
