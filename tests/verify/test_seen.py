"""What a function is seen to do where no mistake fits, and wrong functions of which no table knows."""

import json

import numpy as np
import pytest

import refnp
from refnp import autograd, layers
from refnp.verify.causes.matrices import Matrix, told_apart
from refnp.verify.report import as_json
from tests.verify.test_causes import in_bfloat16, scores_of, softmax_of


def padded(query, key, value):
    """Zeros up to a multiple of 16 keys count."""
    more = lambda x: np.pad(x, [(0, 0)] * (x.ndim - 2) + [(0, -x.shape[-2] % 16), (0, 0)])
    return softmax_of(scores_of(query, more(key))) @ more(value)


def of_one_key_more(query, key, value, *, before, after):
    step = np.arange(key.shape[-2]) - np.arange(query.shape[-2])[:, None]
    scores = np.where((-before <= step) & (step <= after) | (step == 3), scores_of(query, key), -1e30)
    return softmax_of(scores) @ value


def without_the_third_key(query, key, value):
    return softmax_of(np.where(np.arange(key.shape[-2]) == 2, -np.inf, scores_of(query, key))) @ value


def of_a_ring(x, size, **_):
    """A mean of windows, of which the first sees the last place too."""
    y = np.stack([x[..., i : i + size].mean(-1) for i in range(0, x.shape[-1] - size + 1, size)], -1)
    y[..., 0] += x[..., -1] * x.dtype.type(0.37)
    return y


def without_a_feature(x, weight, bias):
    return np.where(np.arange(x.shape[-1]) == 1, x.dtype.type(0), x) @ weight + bias


def with_noise(x):
    return np.maximum(x, 0) + np.random.default_rng().normal(size=x.shape).astype(x.dtype)


def of_all_but_the_third(x, gain, eps=1e-5):
    squares = (x**2).mean(-1, keepdims=True) - x[..., 2:3] ** 2 / x.dtype.type(x.shape[-1])
    return x / np.sqrt(squares + np.asarray(eps, x.dtype)) * gain


def as_wrongly_by_welford(x, gain, shift, eps=1e-5):
    mean, squares = 0 * x[..., :1], 0 * x[..., :1]
    for k in range(x.shape[-1]):
        away = x[..., k : k + 1] - mean
        mean, squares = mean + away / (k + 1), squares + away * away
    return gain * (x - mean) / np.sqrt(squares / x.shape[-1] + np.asarray(eps, x.dtype)) + shift


def first_tap_twice(x, weight, bias):
    taps = weight * np.where(np.arange(weight.shape[-1]) == 0, 2, 1).astype(x.dtype)
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[-1], -1)
    return np.einsum("bipt,oit->bop", windows, taps) + bias[:, None]


def half_of_no(logits, targets, reduction="mean"):
    losses = targets * np.logaddexp(0, -logits) + (1 - targets) * np.logaddexp(0, logits)
    return {"none": lambda x: x, "sum": np.sum, "mean": np.mean}[reduction](losses * np.where(targets < 0.5, 0.5, 1))


def first_class_thrice(logits, targets, reduction="mean"):
    away = logits - logits.max(-1, keepdims=True)
    at_target = np.take_along_axis(away, targets[..., None], -1)[..., 0]
    losses = (np.log(np.exp(away).sum(-1)) - at_target) * np.where(targets == 0, 3, 1)
    return {"none": lambda x: x, "sum": np.sum, "mean": np.mean}[reduction](losses)


def cut_off_loss(logits, targets):
    return 0 * logits.sum() + logits.dtype.type(16)


def own_key_half(query, key, value):
    scores = np.where(np.tri(query.shape[-2], key.shape[-2], dtype=bool), scores_of(query, key), -np.inf)
    return softmax_of(scores - np.log(2) * np.eye(*scores.shape[-2:])) @ value


def with_slow_places(x, *, places=None, layout="interleaved"):
    angles = (np.arange(x.shape[-2]) if places is None else np.asarray(places))[:, None] * 10000.0 ** (
        -np.arange(0, x.shape[-1], 2) / (x.shape[-1] + 1)
    )
    pairs = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
    return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)


def filled_with_zeros(x, axis=-1):
    """Rows are filled up with zeros, which count, and not with −∞."""
    x = np.moveaxis(x, axis, -1)
    p = softmax_of(np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, 3)]))[..., : x.shape[-1]]
    return np.moveaxis(p, -1, axis)


SEEN = [
    ("softmax", filled_with_zeros, "*/[fm]*axis", "results along axis 0 sum to 0."),
    ("causal_attention", own_key_half, "*/square", "the key at offset 0 counts 0.5 times what is right, beside the"),
    ("rotate", with_slow_places, "rotate/interleaved*", "takes "),
    ("silu", lambda x: x * (1 + in_bfloat16(np.tanh(x / 2))) / 2, "*/ordinary*", "jumps "),
    ("attention", padded, "*/[a-l]*", "weights do not sum to 1 but to "),
    ("attention", padded, "*/[a-l]*", ", as if there were more keys"),
    ("window_attention", of_one_key_more, "*/[a-l]*", "(offset 3), which is hidden"),
    ("attention", without_the_third_key, "*/ordinary", "query 0 does not see key 2 (offset 2)"),
    ("average_pool", of_a_ring, "*/1-D", "output[0, 0, 0] depends on x[0, 0, "),
    ("linear", without_a_feature, "*/ordinary*", "x[0, 1] has no influence on output, as all where axis 1 is 1"),
    ("linear", lambda x, weight, bias: x @ weight + np.roll(bias, -2), "*/ordinary", "reads bias[2] where bias[0] is"),
    (
        "embedding",
        lambda table, tokens: table[np.where(tokens == 3, 1, tokens)],
        "*/ordinary",
        "reads table[1, 0] where table[3, 0]",
    ),
    ("convolution", first_tap_twice, "*/1-D", "weight[0, 0, 0] counts 2 times what is right, as all where axis 2 is 0"),
    ("relu", with_noise, "*/ordinary*", "two calls with the same arguments differ"),
    (
        "relu",
        lambda x: np.maximum(x, 0) * (1 + np.sin(x) / 8),
        "*/ordinary*",
        "the curve leaves the right one from x = ",
    ),
    ("binary_cross_entropy", half_of_no, "*/mean", "rows of class 0 count 0.5 times what is right"),
    ("cross_entropy", first_class_thrice, "*/mean", ", of class 0, counts 3 times what is right"),
    ("cross_entropy", cut_off_loss, "*/mean", "no row of logits changes the loss, which stays 16"),
    ("rms_norm", of_all_but_the_third, "*/ordinary", "does not count in the deviation"),
    ("layer_norm", as_wrongly_by_welford, "*/ordinary", "of the row of x[0, 0] the mean is right"),
]


@pytest.mark.parametrize(("layer", "function", "only", "says"), SEEN)
def test_where_nothing_fits_it_is_told_what_is_seen(layer, function, only, says):
    report = refnp.judge(layer, function, only=only, dtypes="float64")
    (cause,) = report.causes
    assert cause.says == ""
    assert says in cause.seen, cause.seen
    assert cause.seen in str(report)
    assert json.loads(as_json(report.judgements, report.causes))["causes"][0]["seen"] == cause.seen


def of_batches(log_probabilities, targets, reduction="mean"):
    """Divided by the number of rows, and not of all numbers."""
    losses = targets * (np.log(targets) - log_probabilities)
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / len(losses)}[reduction]


def new_before_kept(query, key, value, cached_key, cached_value):
    n, both = query.shape[-2], [np.concatenate(pair, -2) for pair in ((key, cached_key), (value, cached_value))]
    mask = np.tri(n, both[0].shape[-2], both[0].shape[-2] - n, dtype=bool)
    return softmax_of(np.where(mask, scores_of(query, both[0]), -np.inf)) @ both[1]


NOT_SEEN = [  # a sum is no share, values that are kept are no weights, and there is one class alone
    ("sum", lambda x, axis=-1: np.float32(x).cumsum(axis, dtype=np.float16).take(-1, axis).astype(x.dtype), "not to 1"),
    ("decoding_attention", new_before_kept, "weights of"),
    ("kl_div of log-probabilities", of_batches, "of class"),
]


@pytest.mark.parametrize(("layer", "function", "says"), NOT_SEEN)
def test_what_is_no_share_no_weight_and_no_class_is_not_called_so(layer, function, says):
    report = refnp.judge(layer, function, dtypes="float64", skip="*zeros*")
    assert not report.holds
    assert says not in str(report)


@pytest.mark.parametrize(
    ("one", "other", "texts"),
    [(1.00012, 1.0, ("1.0001", "1")), (0.5, 1.0, ("0.5", "1")), (-0.0, 1.0, ("0", "1")), (7, 7.0000003, None)],
)
def test_numbers_that_differ_are_not_told_alike(one, other, texts):
    assert told_apart(one, other) == (texts or ("7", "7.0000003"))


@pytest.mark.parametrize(("factor", "says"), [(1.0003, "1.0003 times"), (3, "3 times what is right")])
def test_no_ratio_is_told_as_one(factor, says):
    one_more = lambda x: x * np.where(np.arange(x.size) == 1, factor, 1).astype(x.dtype)
    function = lambda x, weight, bias: x @ weight + one_more(bias)
    (cause,) = refnp.judge("linear", function, only="*/ordinary", dtypes="float64").causes
    assert says in cause.seen
    assert " 1 times" not in cause.seen


def test_what_is_known_of_a_framework_is_not_told_in_place_of_another_mistake(torch):
    """The VJP of PyTorch's softmax loses digits, which zeros that fill up rows have nothing to do with."""

    def padded(x, axis=-1):
        x = x.movedim(axis, -1)
        more = torch.nn.functional.pad(x, (0, -x.shape[-1] % 4 * (x.shape[-1] > 2)))
        return torch.softmax(more, -1)[..., : x.shape[-1]].movedim(-1, axis)

    options = {"framework": "torch", "gradients": True, "dtypes": "float64", "seconds": 12}
    report = refnp.judge("softmax", padded, only="softmax/[0fm]*", **options)
    assert any(cause.says.startswith("known of PyTorch") for cause in report.causes)
    told = [cause.seen for cause in report.causes if not cause.says]
    assert told
    assert all("sum to" in seen for seen in told)


def softmax_bar(p, bar):
    return p * (bar - (bar * p).sum(-1, keepdims=True))


PULLBACKS = [
    ("softmax", softmax_of, lambda x, bar: bar * softmax_of(x) * (1 - softmax_of(x)), "the diagonal alone"),
    ("softmax", softmax_of, lambda x, bar: 3 * softmax_bar(softmax_of(x), bar), "3 times what is right"),
    ("tanh", np.tanh, lambda x, bar: bar * (1 - np.tanh(x)), "the gradient of x were ȳ (1 − y)"),
    ("exp", np.exp, lambda x, bar: bar * np.exp(-x), "taken where x is of the other sign"),
    (
        "softmax",
        softmax_of,
        lambda x, bar: softmax_bar(softmax_of(x), bar**3),
        "is not linear in the incoming gradient",
    ),
    (
        "softmax",
        softmax_of,
        lambda x, bar: softmax_bar(softmax_of(x), bar) + bar.sum(-1, keepdims=True),
        "one number more",
    ),
]


@pytest.mark.parametrize(("layer", "function", "pullback", "says"), PULLBACKS)
def test_a_walk_back_is_told(layer, function, pullback, says):
    vjp = lambda f, x: (f(x), lambda bar: (pullback(x, bar),))
    causes = refnp.judge(layer, function, vjp=vjp, only="*ordinary*", dtypes="float64").causes
    assert any(says in text for cause in causes for text in (cause.says, *cause.others, cause.seen))


def test_nothing_is_said_of_what_is_nothing():
    nothing = np.zeros((1, 2, 3, 3))
    assert [*Matrix("x", "output", [(0,), (1,)], nothing, nothing).told()] == []


def as_eager_code(x):
    """silu in bfloat16, every operation stored: ½ (1 + tanh(x/2)) has few digits on the left, and no other name."""
    import torch

    x = torch.tensor(np.asarray(x, np.float32)).bfloat16()
    return (x * 0.5 * (1 + torch.tanh(x / 2))).float().numpy()


@pytest.mark.parametrize("precision", ["bfloat16", "bfloat16 in and out, float32 inside"])
def test_where_little_is_known_of_a_number_no_mistake_is_made_up(precision):
    """In a narrow format a known mistake of rounding allows much; with another mistake it is not to explain all."""
    pytest.importorskip("torch")
    said = " ".join(map(str, refnp.judge("silu", as_eager_code, precision=precision).causes))
    assert "GELU" not in said
    assert "hard" not in said


def test_a_defect_that_is_known_of_a_framework_is_named_where_the_numbers_are_its_own():
    """A focal loss, in PyTorch: wrong, and not by what is known of PyTorch's cross-entropy."""
    torch = pytest.importorskip("torch")

    def focal(logits, targets, reduction="mean"):
        losses = torch.nn.functional.cross_entropy(torch.tensor(logits), torch.tensor(targets), reduction="none")
        return getattr(torch, reduction)((1 - torch.exp(-losses)) * losses).numpy()

    report = refnp.judge("cross_entropy", focal, skip=("*made*",))
    assert report.causes
    assert "known of PyTorch" not in str(report)


def test_two_weights_lie_on_a_line_always():
    """From two keys no slope is read, and none from as few differences as a line has numbers."""
    from refnp.verify.causes.seen import of_weights

    p = softmax_of(np.array([[0.1, 0.7], [0.3, -2.0]]))
    other = softmax_of(np.array([[0.3, 0.1], [0.2, 0.5]]))
    assert not [says for says in of_weights(other, p) if says.startswith("log-weights")]
    right = np.random.default_rng(0).normal(size=(3, 5))
    assert [*of_weights(softmax_of(right / 2), softmax_of(right))] == ["log-weights are 0.5 times what is right"]


def test_arguments_may_be_bounded():
    def gaussian_nll(mean, std, y):
        std = np.maximum(std, std.dtype.type(0.1))
        return (((y - mean) / std) ** 2 / 2 + np.log(std) + std.dtype.type(np.log(2 * np.pi) / 2)).mean()

    assert refnp.judge("gaussian_nll", gaussian_nll).causes[0].says == "as if std were at least 0.1"


def test_a_curve_leaves_the_right_one_only_where_it_does():
    """The smallest case is a made one: what is kept of it is not the bound of the places where the curve is asked."""
    elu = lambda x, alpha=1.0: np.where(x > 0, x * 1.1, alpha * np.expm1(x)).astype(x.dtype)
    (cause,) = refnp.judge("elu", elu, dtypes="float64").causes
    assert "the curve leaves the right one from x = 0.125 to 12;" in cause.seen


def test_weights_of_a_query_that_sees_nothing_and_weights_that_are_small():
    from refnp.verify.causes.seen import of_weights

    nothing = of_weights(np.array([[0.25, 0.25]]), np.zeros((1, 2)))
    assert next(nothing) == "weights of queries that see no key sum to 0.5, not to 0"
    small, right = np.array([[1 - 1e-12, 1e-12]]), np.array([[0.25, 0.75]])
    assert not [says for says in of_weights(small, right) if "see" in says]  # a weight that is not 0 is seen


def test_ignored_rows_that_count_are_told():
    def smoothed(logits, targets, *, reduction="mean", ignore_index=None, label_smoothing=0.0):
        rows = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        keep = np.asarray(targets) != ignore_index
        hit = -np.take_along_axis(rows, np.where(keep, targets, 0)[..., None], -1)[..., 0] * keep
        loss = ((1 - label_smoothing) * hit - label_smoothing * rows.mean(-1)).astype(logits.dtype)  # of all rows
        return loss if reduction == "none" else loss.sum() / (1 if reduction == "sum" else max(keep.sum(), 1))

    report = refnp.judge(
        "cross_entropy", smoothed, only="*made: ignore_index = 0, label_smoothing = 0.1", dtypes=("float64",)
    )
    assert "counts, and must not" in str(report)
    assert "log_probabilities" not in str(report)  # which would be right of a function of logits as well


def test_a_reading_names_its_case_where_there_are_several():
    wrong = lambda x, gain, shift, eps=1e-5: np.where(x > 0.3, 1, x)
    report = refnp.judge("layer_norm", wrong, only="layer_norm/mean*", dtypes=("float64",))
    assert ", seen in layer_norm/mean" in str(report)


def test_dropped_weights_are_to_sum_to_what_is_right_and_not_to_one():
    def renormalized(query, key, value, keep, dropout, mask=None):
        weights = softmax_of(scores_of(query, key)) * keep
        return weights / weights.sum(-1, keepdims=True) @ value

    report = refnp.judge("dropout_attention", renormalized, only="*/a third dropped", dtypes=("float64",))
    assert "weights of a query sum to 1 where 1.05 is right" in str(report)


def test_what_has_no_influence_at_some_arguments_alone_is_not_said():
    """KL(q ‖ p) in place of KL(p ‖ q): where a class of p is improbable its q does not count, and elsewhere it does."""

    def divergence(logits_p, logits_q):
        log_p, log_q = map(refnp.layers.log_softmax, (logits_p, logits_q))
        return (np.exp(log_p) * (log_p - log_q)).sum(-1)

    swapped = lambda p, q: divergence(q, p)
    text = str(refnp.judge("categorical_kl", swapped, only="*/saturated rows", dtypes=("float64",), framework="numpy"))
    assert "influence" not in text
    assert "must not" not in text
    without = lambda p, q: divergence(p, np.where(np.arange(q.shape[-1]) == 1, 0, q))
    text = str(refnp.judge("categorical_kl", without, only="*/ordinary", dtypes=("float64",), framework="numpy"))
    assert "logits_q[0, 1] has no influence on output, as all where axis 1 is 1" in text


def of_sum(x, total):
    p = softmax_of(x)
    return p, lambda bar: (p * (bar - total(p * bar)),)


def test_gradients_that_take_the_rows_of_others_are_not_read_from_digits_of_one_row():
    """The smallest case has one row, of which the gradient is 4e-18: that all rows are summed shows elsewhere."""

    def vjp(function, x):
        p, pullback = of_sum(x, np.sum)
        return p, lambda bar: pullback(bar)

    report = refnp.judge("softmax", softmax_of, vjp=vjp, dtypes=("float64",), only="softmax/[0-9m]*[m0]", seconds=8)
    assert "and must not" in str(report)
    assert "4.248e-18" not in str(report)


def test_a_length_is_told_beside_the_size_of_numbers_and_a_sum_has_no_curve():
    """The only case with more than 16 numbers has large ones as well."""

    def cumsum(x, axis=-1):
        x = np.moveaxis(x, axis, -1)
        blocks = [np.cumsum(x[..., i : i + 16], -1) for i in range(0, x.shape[-1], 16)]
        return np.moveaxis(np.concatenate(blocks, -1), -1, axis)

    text = str(refnp.judge("cumsum", cumsum))
    assert "only where the last axis is longer than" in text
    descending = lambda x, axis=-1: np.sort(x, axis) if x.shape[axis] < 5 else -np.sort(-x, axis)
    for report in (text, str(refnp.judge("sort", descending))):
        assert "curve" not in report
        assert "it is" not in report.partition("the bounds")[0]


def test_a_row_counts_more_only_where_it_does_so_elsewhere():
    def with_squared_logarithm(logits, targets, reduction="mean", ignore_index=-100):
        """The loss, and 1e-5 (log Σ eˣ)²."""
        rows, targets = logits.reshape(-1, logits.shape[-1]), np.reshape(targets, -1)
        present, top = targets != ignore_index, rows.max(-1)
        logarithm = np.log(np.exp(rows - top[:, None]).sum(-1)) + top
        own = rows[np.arange(len(rows)), np.where(present, targets, 0)]
        loss = np.where(present, logarithm - own + rows.dtype.type(1e-5) * logarithm**2, 0).astype(rows.dtype)
        if reduction == "none":
            return loss.reshape(logits.shape[:-1])
        return loss.sum() / rows.dtype.type(1 if reduction == "sum" else max(present.sum(), 1))

    report = str(refnp.judge("cross_entropy", with_squared_logarithm))
    assert "does not hold" in report
    assert " counts " not in report


def test_rows_of_which_rounding_takes_the_differences_are_not_said_to_count_nothing():
    torch = pytest.importorskip("torch")

    def rounded(logits, targets, reduction="mean", ignore_index=-100):
        """log Σ eˣ as it is stored in bfloat16."""
        targets, logarithm = torch.as_tensor(targets).long(), torch.logsumexp(logits.float(), -1).to(logits.dtype)
        present = targets != ignore_index
        own = logits.float().gather(-1, torch.where(present, targets, 0)[..., None])[..., 0]
        loss = torch.where(present, logarithm.float() - own, 0.0)
        total = loss if reduction == "none" else loss.sum()
        return (total / present.sum().clamp(min=1) if reduction == "mean" else total).to(logits.dtype)

    precision = "bfloat16 in and out, float32 inside"
    report = refnp.judge("cross_entropy", rounded, framework="torch", precision=precision, excused=("PyTorch",))
    assert not report.holds
    report = str(report)
    assert "changes the loss" not in report


def test_a_density_too_small_to_matter_is_no_influence_that_must_not_be():
    def mean_of_logarithms(y, logits, mean, std):
        z = (y[..., None] - mean) / std
        weights = softmax_of(logits)
        return (weights * (-z * z / 2 - np.log(std) - np.log(2 * np.pi) / 2)).sum(-1).astype(y.dtype)

    report = refnp.judge("mixture_log_prob", mean_of_logarithms)
    assert not report.holds
    assert "must not" not in str(report)


def test_a_function_of_a_norm_has_no_curve():
    always = lambda gradient, norm: gradient * gradient.dtype.type(norm) / np.linalg.norm(gradient.ravel())
    report = refnp.judge("clip_by_norm", always)
    assert not report.holds
    assert "curve" not in str(report)


def test_of_a_function_that_keeps_results_nothing_is_said_of_views_and_layouts():
    kept = {}

    def linear(x, weight, bias=None):
        shapes = x.shape, weight.shape, x.dtype
        kept[shapes] = kept.get(shapes, 0) + (x @ weight if bias is None else x @ weight + bias)
        return kept[shapes]

    report = refnp.judge("linear", linear, only="linear/made: *")
    assert [cause.seen.partition(",")[0] for cause in report.causes] == ["two calls with the same arguments differ"]
    assert not report.hints


def test_a_deviation_within_the_rounding_of_results_is_right():
    torch = pytest.importorskip("torch")

    def norm(x, gain, shift, eps=1e-5):  # what is stored before gain and shift is rounded
        wide = x.float()
        centred = wide - wide.mean(-1, keepdim=True)
        unit = centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + eps)
        return unit.to(x.dtype) * gain + shift

    report = refnp.judge(
        "layer_norm", norm, framework="torch", precision="bfloat16 in and out, float32 inside", seconds=5
    )
    assert not report.holds
    assert not any(cause.seen for cause in report.causes)


def test_an_answer_that_hangs_on_earlier_calls_is_told():
    largest = 0.0

    def softmax(x):
        """Of which the largest number that ever came is an outlier: in the end it stays."""
        nonlocal largest
        largest = max(largest, float(np.abs(x[np.isfinite(x)]).max(initial=0)))
        return softmax_of(x) * (1 + 1e-3 * np.tanh(largest / 1e4))

    (cause,) = refnp.judge("softmax", softmax, dtypes="float64").causes
    assert cause.seen.startswith("two calls with the same arguments differ")


def test_shares_of_several_classes_are_no_classes_and_counts_are_told_of_two_lengths():
    def kl(log_probabilities, targets, *, reduction="mean"):
        safe = np.where(targets > 0, targets, 1)
        loss = np.where(targets > 0, targets * (np.log(safe) - log_probabilities), 0)
        totals = {"none": loss, "rows": loss.sum(-1), "sum": loss.sum(), "mean": loss.mean()}
        return np.asarray(totals.get(reduction, loss.sum() / loss.shape[-1]), loss.dtype)

    (cause,) = refnp.judge("kl_div of log-probabilities", kl).causes
    assert cause.seen.count("every row counts") == 2
    assert "of class" not in cause.seen


def test_what_is_seen_of_gradients_is_not_said_of_outputs():
    def layer_norm(x, gain, shift):
        y = layers.layer_norm(x, gain, shift)
        return y + 0.01 * np.roll(y, 1, -1) if x.ndim > 2 else y

    def pair(function, x, gain, shift):
        _, pullback = autograd.vjp(layers.layer_norm, x, gain, shift)
        return layer_norm(x, gain, shift), lambda bar: (*pullback(bar)[:2], pullback(bar * np.roll(bar, 1, 0))[2])

    causes = refnp.judge("layer_norm", layer_norm, vjp=pair, dtypes="float64").causes
    quantities = [{row[2] == "output" for row in cause.rows} for cause in causes if "ȳ" in cause.seen]
    assert quantities
    assert all(kinds == {False} for kinds in quantities)
