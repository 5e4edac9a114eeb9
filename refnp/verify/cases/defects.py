"""Cases made to show what frameworks are known to get wrong. Several of them came from their own issue trackers."""

from __future__ import annotations

import numpy as np

from refnp.verify import known
from refnp.verify.case import Case
from refnp.verify.cases.activations import LAYERS
from refnp.verify.cases.attention import ATTENTION, tensors
from refnp.verify.cases.multi_head import WITH_WEIGHTS, inputs
from refnp.verify.cases.rows import LAYER_NORM, LOG_SOFTMAX, LOGSUMEXP
from refnp.verify.cases.transformer import ENCODER_FAST_PATH, encoder_inputs

LAST_KEY_HIDDEN = np.broadcast_to(np.arange(6) < 5, (5, 6))
NEARLY_ONE = 37.42994775023705  # exp(−x) is 2⁻⁵⁴: half the distance from 1 to its neighbour below


def cases() -> list[Case]:
    """All cases of this page."""
    nothing = np.full((2, 3), -np.inf)
    one_row = np.arange(4)[:, None] != np.full(4, 1)
    padding = np.array([[[True] * 4], [[False] * 4]])
    return [
        Case(LAYERS["gelu"], "at -5 and -8", {"x": np.array([-5.0, -8.0])}, {}, (known.GELU_TAIL,)),
        Case(
            LOG_SOFTMAX,
            "20 and 0",
            {"x": np.array([[20.0, 0.0]])},
            {"axis": -1},
            (known.LOG_SOFTMAX_NEAR_ZERO, known.JAX_LOG_SOFTMAX),
        ),
        Case(
            LOG_SOFTMAX,
            "one component of the gradient",
            {"x": np.array([NEARLY_ONE, 0.0])},
            {"axis": -1},
            (known.LOG_SOFTMAX_NEAR_ZERO, known.JAX_LOG_SOFTMAX, known.LOG_SOFTMAX_VJP, known.JAX_LOG_SOFTMAX_VJP),
            cotangent=[1.0, 0.0],
        ),
        Case(
            LAYER_NORM,
            "one element of 1e6",
            {"x": np.full((4, 1), 1e6), "gain": np.ones(1), "shift": np.zeros(1)},
            {},
            (known.LAYER_NORM_ONE, known.JAX_VARIANCE),
        ),
        Case(
            LOGSUMEXP,
            "-inf alone",
            {"x": nothing},
            {"axis": -1},
            (known.LOGSUMEXP_NOTHING, known.JAX_LOGSUMEXP_NOTHING),
        ),
        *(poisoned(name, value) for name in ("key", "value") for value in (np.nan, np.inf)),
        Case(
            WITH_WEIGHTS, "fully masked row", inputs(m=4, n=4), {"heads": 2, "mask": one_row}, (known.MHA_MASKED_ROW,)
        ),
        Case(
            ENCODER_FAST_PATH,
            "a sequence of padding",
            encoder_inputs(),
            {"heads": 2, "mask": padding},
            (known.ENCODER_FAST_PATH,),
            gradients=(),
        ),
    ]


def poisoned(name: str, value: float) -> Case:
    """Attention with a last key that no query may attend to, and a NaN or infinity in it or in its value."""
    draw = tensors()[name]

    def with_poison(rng):
        array = draw(rng)
        array[-1, 1] = value
        return array

    shown = (known.MASKED_NAN, known.JAX_MASKED_NAN, known.JAX_ATTENTION_DOUBLE)
    return Case(
        ATTENTION, f"{value} in a masked {name}", tensors() | {name: with_poison}, {"mask": LAST_KEY_HIDDEN}, shown
    )
