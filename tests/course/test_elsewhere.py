"""What chapters say of other software. CI runs it with the versions that they name, those of .ci/constraints.txt."""

import numpy as np
import pytest

from refnp.autograd import linear, vjp
from refnp.layers import cross_entropy, gaussian_nll, gelu, layer_norm, softmax, softplus


def wide_jax():
    jax = pytest.importorskip("jax")
    return jax, jax.enable_x64() if hasattr(jax, "enable_x64") else jax.experimental.enable_x64()


# ---- a function and its transpose, the tape, checking


def test_vjp_and_linear():
    """torch.func.vjp and jax.vjp give value and pullback; nn.Linear keeps Wᵀ; PyTorch alone conjugates."""
    torch = pytest.importorskip("torch")
    jax, wide = wide_jax()
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


def test_tapes():
    """PyTorch refuses what was changed in place, and a second walk unless retain_graph; it adds to .grad."""
    torch = pytest.importorskip("torch")
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
    jax = pytest.importorskip("jax")
    assert jax.grad(lambda x: x * x)(3.0) == 6.0
    assert not hasattr(jax.numpy.ones(()), "grad")
    assert callable(jax.checkpoint)
    from torch.utils.checkpoint import checkpoint

    assert callable(checkpoint)


def test_gradient_checks():
    """A sigmoid whose gradient is wrong in the fourth digit passes torch's gradcheck, and JAX's in float32 alone."""
    torch = pytest.importorskip("torch")

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
    import inspect

    defaults = inspect.signature(torch.autograd.gradcheck).parameters
    assert [defaults[name].default for name in ("eps", "atol", "rtol")] == [1e-6, 1e-5, 1e-3]

    jax, wide = wide_jax()
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


def test_softmax():
    """At a gap of 40 the gradient is 0 in torch and JAX; a row of −∞ is NaN; axes, and ONNX's old softmax."""
    torch = pytest.importorskip("torch")
    jax, wide = wide_jax()
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


def test_layer_norm():
    """torch's ε is 1e-5; jax.nn.standardize takes the variance in one pass."""
    torch = pytest.importorskip("torch")
    jax = pytest.importorskip("jax")
    assert torch.nn.LayerNorm(4).eps == 1e-5
    rows = np.float32(1e4) + np.random.default_rng(0).normal(size=(1000, 64)).astype(np.float32)
    with np.errstate(invalid="ignore"):
        by_jax = np.asarray(jax.nn.standardize(rows, axis=-1))
    right = layer_norm(rows.astype(np.float64))
    off = np.abs(by_jax - right).max(-1)
    assert np.median(np.where(np.isfinite(off), off, np.inf)) > 0.1 > np.abs(layer_norm(rows) - right).max()


# ---- activations


def test_activations():
    """Slopes at a kink, GELU's forms and its tail, the softplus of torch above 20, the slope of its sigmoid."""
    torch = pytest.importorskip("torch")
    jax, wide = wide_jax()

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


def test_losses():
    """torch's cross-entropy: logits, classes second, smoothing over all classes, NaN over nothing, lost digits."""
    torch = pytest.importorskip("torch")
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


def test_gaussian_nll():
    """torch's takes the variance, bounds it below by 1e-6, and leaves ½ log 2π out unless full=True."""
    torch = pytest.importorskip("torch")
    mean, std, y = (torch.tensor([v], dtype=torch.float64) for v in (1.0, 2.0, 4.0))
    ours = gaussian_nll(mean.numpy(), std.numpy(), y.numpy())
    loss = torch.nn.functional.gaussian_nll_loss
    assert np.isclose(loss(mean, y, std**2, full=True).item(), ours, rtol=1e-14)
    assert np.isclose(loss(mean, y, std**2).item(), ours - 0.5 * np.log(2 * np.pi), rtol=1e-14)
    assert loss(mean, y, 0 * std) == loss(mean, y, 0 * std + 1e-6) != loss(mean, y, 0 * std + 2e-6)


# ---- training


def test_training():
    """torch's Adam adds ε to √v̂; clip_grad_norm_ takes all together, adds 1e-6, and spreads a NaN."""
    torch = pytest.importorskip("torch")
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


def test_conventions_of_slopes():
    """At a NaN and at equal numbers; the determinant of a singular matrix."""
    torch = pytest.importorskip("torch")
    jax = pytest.importorskip("jax")
    nan = torch.tensor(float("nan"), requires_grad=True)
    torch.relu(nan).backward()
    assert (nan.grad.item(), float(jax.grad(jax.nn.relu)(np.nan))) == (1, 0)
    equal = torch.ones(3, requires_grad=True)
    equal.std(correction=0).backward()
    assert equal.grad.tolist() == [0, 0, 0]
    assert np.isnan(jax.grad(jax.numpy.std)(np.ones(3))).all()
    assert torch.var(torch.tensor([0.0, 2.0])) == 2
    singular = torch.tensor([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]], dtype=torch.float64, requires_grad=True)
    torch.det(singular).backward()
    assert singular.grad.abs().max() < 1e-12  # the cofactors are up to 4


def test_conventions_of_masks_windows_and_norms():
    """True means hidden in nn.MultiheadAttention alone; is_causal is top-left; the last NaN; constants of norms."""
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    q, k = torch.zeros(1, 1, 1), torch.zeros(1, 2, 1)
    v = torch.tensor([[[1.0], [3.0]]])
    seen = torch.tensor([[True, False]])
    assert functional.scaled_dot_product_attention(q, k, v, attn_mask=seen).item() == 1
    assert functional.scaled_dot_product_attention(q, k, v, is_causal=True).item() == 1
    layer = torch.nn.MultiheadAttention(1, 1, bias=False, batch_first=True)
    layer.in_proj_weight.data[:] = layer.out_proj.weight.data[:] = 1.0
    assert layer(q, k, v, attn_mask=seen)[0].item() == 3
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
