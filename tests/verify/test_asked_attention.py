"""Attention with a scale, in either corner, with a sink, a given dropout mask, and kept keys: right and wrong ones."""

import pytest

import refnp

torch = pytest.importorskip("torch")
F = torch.nn.functional


def corner(n, m, offset):
    return torch.ones(n, m, dtype=torch.bool).tril(offset)


def scaled(q, k, v, scale, attn_mask=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, scale=scale)


def causal(q, k, v, align="top_left"):
    """Weights that are NaN, of a query without any key, are 0."""
    n, m = q.shape[-2], k.shape[-2]
    scores = q @ k.mT / q.shape[-1] ** 0.5
    allowed = corner(n, m, m - n if align == "bottom_right" else 0)
    return scores.masked_fill(~allowed, -torch.inf).softmax(-1).masked_fill(~allowed, 0) @ v


def window(q, k, v, window_left, window_right, align="top_left"):
    n, m = q.shape[-2], k.shape[-2]
    shift = m - n if align == "bottom_right" else 0
    allowed = corner(n, m, shift + window_right) & ~corner(n, m, shift - window_left - 1)
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~allowed, -torch.inf)
    return scores.softmax(-1).masked_fill(~allowed, 0) @ v


def with_sink(q, k, v, sinks, mask=None):
    """As in OpenAI's gpt-oss: a column of logits, whose weights are thrown away."""
    scores = q @ k.mT * q.shape[-1] ** -0.5
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    column = sinks.reshape(-1, 1, 1).expand(*scores.shape[:-1], 1)
    return torch.cat([scores, column], -1).softmax(-1)[..., :-1] @ v


def off_by_one(q, k, v, sinks, mask=None):
    """A sink of 0 for all heads, as softmax1 has it."""
    return with_sink(q, k, v, 0 * sinks, mask)


def sink_as_key(q, k, v, sinks, mask=None):
    """A sink that is added to the largest logit's place, and not a key of its own."""
    scores = q @ k.mT * q.shape[-1] ** -0.5 - sinks.reshape(-1, 1, 1)
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1).nan_to_num() @ v


def dropped(q, k, v, keep_mask, dropout_p, mask=None):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) * keep_mask / (1 - dropout_p) @ v


def weights(q, k, mask=None):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    return (
        scores.softmax(-1) if mask is None else scores.masked_fill(~mask, -torch.inf).softmax(-1).masked_fill(~mask, 0)
    )


def before_the_softmax(q, k, v, keep_mask, dropout_p, mask=None):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    allowed = keep_mask if mask is None else keep_mask & mask
    return scores.masked_fill(~allowed, -torch.inf).softmax(-1) @ v


def decoded(q, k, v, past_key, past_value):
    keys, values = torch.cat([past_key, k], -2), torch.cat([past_value, v], -2)
    n, m = q.shape[-2], keys.shape[-2]
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=corner(n, m, m - n))


def decoded_top_left(q, k, v, past_key, past_value):
    keys, values = torch.cat([past_key, k], -2), torch.cat([past_value, v], -2)
    return F.scaled_dot_product_attention(q, keys, values, is_causal=True)


RIGHT = [
    ("scaled_attention", scaled), ("scaled_attention", lambda q, k, v, softmax_scale: scaled(q, k, v, softmax_scale)),
    ("causal_attention", causal), ("sliding_window_attention", window), ("attention_sink", with_sink),
    ("dropout_attention", dropped), ("kv_cache", decoded), ("attention_weights", weights),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function"), RIGHT, ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_right_ones_hold_with_their_gradients(name, function):
    report = refnp.judge(name, function, framework="torch", gradients=True, dtypes="float32")
    assert report.holds, str(report)
    assert not any("align" in why for why in report.skipped)


WRONG = [
    ("attention_weights", lambda q, k: (q @ k.mT).softmax(-1)),
    ("scaled_attention", lambda q, k, v, scale: scaled(q, k, v, scale / q.shape[-1] ** 0.5)),
    ("causal_attention", lambda q, k, v, align="top_left": causal(q, k, v)),
    ("window_attention", lambda q, k, v, before, after, align="top_left": window(q, k, v, before - 1, after, align)),
    ("sink_attention", off_by_one), ("sink_attention", sink_as_key), ("dropout_attention", before_the_softmax),
    ("dropout_attention", lambda q, k, v, keep, dropout, mask=None: dropped(q, k, v, keep, 0.0, mask)),
    ("decoding_attention", decoded_top_left),
    ("decoding_attention", lambda q, k, v, past_key, past_value: scaled(q, past_key, past_value, q.shape[-1] ** -0.5)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function"), WRONG, ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_wrong_ones_do_not_hold(name, function):
    assert not refnp.judge(name, function, framework="torch", dtypes="float32").holds


def test_a_function_that_is_aligned_bottom_right_is_asked_so():
    """As flash-attention is: what stands in the case is what it computes with."""
    own = lambda q, k, v: causal(q, k, v, "bottom_right")
    asked = {"framework": "torch", "dtypes": "float32"}
    assert not refnp.judge("causal_attention", own, **asked).holds
    assert refnp.judge("causal_attention", own, options={"align": "bottom_right"}, **asked).holds


def test_heads_that_share_keys():
    """Grouped heads, and one head of keys for all queries."""

    def grouped(q, k, v, mask=None):
        r = q.shape[-3] // k.shape[-3]
        return F.scaled_dot_product_attention(q, k.repeat_interleave(r, -3), v.repeat_interleave(r, -3), attn_mask=mask)

    def tiled(q, k, v, mask=None):
        r = q.shape[-3] // k.shape[-3]
        return F.scaled_dot_product_attention(q, k.repeat(1, r, 1, 1), v.repeat(1, r, 1, 1), attn_mask=mask)

    asked = {"framework": "torch", "dtypes": "float32"}
    assert refnp.judge("grouped_query_attention", grouped, gradients=True, skip="*1027*", **asked).holds
    for name in ("grouped_query_attention", "mqa"):
        assert refnp.judge(name, grouped, skip="*made*", **asked).holds
        assert not refnp.judge(name, tiled, skip="*made*", **asked).holds


def test_jax_takes_a_scale():
    jax = pytest.importorskip("jax")
    report = refnp.judge("scaled_attention", jax.nn.dot_product_attention, dtypes="float32", gradients=True)
    assert report.holds, str(report)


def test_kept_keys_with_the_heads_behind_the_tokens():
    def own(q, k, v, past_key, past_value):
        return decoded(*(x.transpose(1, 2) for x in (q, k, v, past_key, past_value))).transpose(1, 2)

    assert refnp.judge("decoding_attention", own, framework="torch", layout="BNHD", gradients=True).holds


def test_a_softcap_whose_slope_cancels_holds():
    def softcap_attention(query, key, value, *, softcap):
        scores = query @ key.mT / query.shape[-1] ** 0.5
        return torch.softmax(softcap * torch.tanh(scores / softcap), -1) @ value

    assert refnp.judge("softcap_attention", softcap_attention, gradients=True, dtypes="float64").holds
