"""Sizes at which low precision and lost gradients show: long rows, many rows under one parameter, saturated rows.

A sum of 1000 terms kept in bfloat16 stops growing at 256; one that is added up in the wrong precision or in one pass
loses digits with its length. A gradient that many rows share, that of a gain, a bias, a table or a filter, is such a
sum too. So these cases are larger than all others; each has one row, or few numbers a row, and is cheap to judge.
"""

from typing import Any

import numpy as np

from refnp.verify.case import Case, normal, uniform
from refnp.verify.layers.attention import ATTENTION, IN_FLOAT32
from refnp.verify.layers.attention import LINEAR as LINEAR_ATTENTION
from refnp.verify.layers.convolution import CONVOLUTION
from refnp.verify.layers.distributions import CATEGORICAL_ENTROPY, NORMAL
from refnp.verify.layers.engine import STD, VAR
from refnp.verify.layers.linear import EMBEDDING, LINEAR, MATMUL
from refnp.verify.layers.losses import CROSS_ENTROPY, GAUSSIAN_NLL, MSE
from refnp.verify.layers.normalization import BATCH_NORM, GROUP_NORM, INSTANCE_NORM, JAX_VARIANCE, LAYER_NORM, RMS_NORM
from refnp.verify.layers.pooling import ADAPTIVE_AVERAGE
from refnp.verify.layers.set_convolution import SET_CONVOLUTION
from refnp.verify.layers.softmax import (
    DOMINATED,
    LOG_SOFTMAX,
    LOG_SOFTMAX_NEAR_ZERO,
    LOG_SOFTMAX_VJP,
    LOGSUMEXP,
    SOFTMAX,
)

LENGTH, ROWS = 512, 1024
SURE = (LOG_SOFTMAX_NEAR_ZERO, LOG_SOFTMAX_VJP)  # of a class with p near 1


def cases() -> list[Case]:
    """All cases of this page."""
    return [*long_rows(), *long_sums(), *many_rows(), *saturated()]


def long_rows() -> list[Case]:
    """One row, whose maximum, mean or sum is over all of it."""
    row, last = {"x": normal(1, LENGTH)}, {"axis": -1}
    affine = {"gain": normal(LENGTH, shift=1.0, scale=0.5), "shift": normal(LENGTH)}
    far = {"x": normal(1, LENGTH, shift=30.0)} | affine
    channel = {"gain": normal(1, shift=1.0, scale=0.5), "shift": normal(1)}
    found = [Case(layer, f"a row of {LENGTH}", row, last) for layer in (SOFTMAX, LOG_SOFTMAX, LOGSUMEXP)]
    found += [Case(layer, f"a row of {LENGTH}", row) for layer in (VAR, STD)]
    return [
        *found,
        Case(LAYER_NORM, f"a row of {LENGTH}", row | affine),
        Case(LAYER_NORM, f"a row of {LENGTH}, mean 30", far, known_defects=(JAX_VARIANCE,)),
        Case(RMS_NORM, f"a row of {LENGTH}", row | {"gain": affine["gain"]}, {"eps": 1e-5}),
        Case(GROUP_NORM, f"a group of {LENGTH}", {"x": normal(1, 1, LENGTH)} | channel, {"groups": 1}),
        Case(INSTANCE_NORM, f"a signal of {LENGTH}", {"x": normal(1, 1, LENGTH)} | channel),
        Case(BATCH_NORM, f"a channel of {LENGTH}", {"x": normal(LENGTH, 1)} | channel),
        Case(CATEGORICAL_ENTROPY, f"{LENGTH} classes", {"logits": normal(1, LENGTH)}),
        Case(CROSS_ENTROPY, f"{LENGTH} classes", {"logits": normal(1, LENGTH)}, {"targets": np.array([5])}),
    ]


def long_sums() -> list[Case]:
    """Sums of many products: rows of a matrix, keys, points, places of a signal."""
    keys = {"query": normal(1, 2), "key": normal(LENGTH, 2), "value": normal(LENGTH, 1)}
    points = {"context_x": uniform(LENGTH, 1, low=-1, high=1), "context_y": normal(LENGTH, 1)}
    targets = {"target_x": uniform(2, 1, low=-1, high=1)}
    scale = {"length_scale": np.asarray(0.4)}
    return [
        Case(MATMUL, f"inner length {LENGTH}", {"x": normal(2, LENGTH), "y": normal(LENGTH, 2)}),
        Case(MATMUL, f"inner length {LENGTH}, all positive",
             {"x": uniform(1, LENGTH, low=0, high=1), "y": uniform(LENGTH, 1, low=0, high=1)}),
        Case(LINEAR, f"{LENGTH} features", {"x": normal(1, LENGTH), "weight": normal(LENGTH, 1), "bias": normal(1)}),
        Case(ATTENTION, f"{LENGTH} keys", keys, {}, IN_FLOAT32),
        Case(ATTENTION, f"{LENGTH} equal keys", keys | {"key": np.ones((LENGTH, 2))}, {}, IN_FLOAT32),
        Case(LINEAR_ATTENTION, f"{LENGTH} keys", keys),
        Case(SET_CONVOLUTION, f"{LENGTH} points", targets | points | scale),
        Case(ADAPTIVE_AVERAGE, f"1-D, one window of {LENGTH}", {"x": normal(1, 1, LENGTH)}, {"size": 1}),
    ]  # fmt: skip


def many_rows() -> list[Case]:
    """Few numbers a row, and parameters whose gradient adds up all rows."""
    parameters: dict[str, Any] = {"gain": normal(2, shift=1.0, scale=0.5), "shift": normal(2)}
    shared = ("gain", "shift")
    errors = {"mean": normal(1), "std": np.array([0.7]), "y": normal(ROWS)}
    twos = np.full(4096, 2)
    return [
        Case(LAYER_NORM, f"{ROWS} rows under one gain and bias", {"x": normal(ROWS, 2)} | parameters,
             known_defects=(JAX_VARIANCE,), gradients=shared),
        Case(RMS_NORM, f"{ROWS} rows under one gain", {"x": normal(ROWS, 2), "gain": parameters["gain"]}, {"eps": 1e-5},
             gradients=("gain",)),
        Case(BATCH_NORM, f"{ROWS} rows", {"x": normal(ROWS, 2)} | parameters, gradients=shared),
        Case(LINEAR, f"{ROWS} rows under one weight and bias",
             {"x": normal(ROWS, 2), "weight": normal(2, 1), "bias": normal(1)}, gradients=("weight", "bias")),
        Case(CONVOLUTION, f"1-D, one filter at {ROWS} places",
             {"x": normal(1, 1, ROWS), "weight": normal(1, 1, 3), "bias": normal(1)}, {"padding": 1},
             gradients=("weight", "bias")),
        Case(EMBEDDING, "one token 4096 times", {"table": normal(4, 1)}, {"tokens": twos}),
        Case(EMBEDDING, "one token 4096 times, equal cotangents", {"table": normal(4, 1)}, {"tokens": twos},
             cotangent=np.full((4096, 1), 0.1)),
        Case(MSE, f"{ROWS} numbers", {"prediction": normal(ROWS), "target": normal(ROWS)}, gradients=()),
        Case(GAUSSIAN_NLL, f"{ROWS} numbers, one mean and deviation", errors, gradients=("mean", "std")),
        Case(NORMAL, f"{ROWS} numbers, one mean and deviation", {name: errors[name] for name in ("y", "mean", "std")},
             gradients=("mean", "std")),
    ]  # fmt: skip


def saturated() -> list[Case]:
    """Long rows in which one element has nearly all the weight: what is left of the others must not be lost."""
    alone = np.zeros((1, LENGTH))
    alone[0, 5] = 30.0
    far = {"query": np.array([[8.0, 0.0]]), "key": np.repeat([[8.0, 0.0], [0.0, 1.0]], [1, 255], 0)}
    return [
        *(
            Case(layer, f"one of {LENGTH} is 30", {"x": alone}, {"axis": -1}, DOMINATED[layer.name])
            for layer in (SOFTMAX, LOG_SOFTMAX, LOGSUMEXP)
        ),
        Case(CROSS_ENTROPY, f"{LENGTH} classes, confident", {"logits": alone}, {"targets": np.array([5])}, SURE),
        Case(ATTENTION, "one of 256 keys has all weight", far | {"value": normal(256, 1)}, {}, IN_FLOAT32),
    ]
