"""A step of training in C (step.c), judged by refnp: python judge_step.py ./step"""

import sys

import numpy as np

import refnp
from refnp.layers import MLP, cross_entropy

rng = np.random.default_rng(0)
model = MLP([4, 6, 3], rng=rng)  # the same network in refnp
before = {name: rng.normal(size=value.shape).astype("float32") for name, value in model.state_dict().items()}
x, targets = rng.normal(size=(5, 4)).astype("float32"), rng.integers(0, 3, 5)

answers = {"output": ()} | {f"{kind}.{n}": a.shape for kind in ("gradient", "updated") for n, a in before.items()}
step = refnp.program(
    f"{sys.argv[1]} {{in}} {{out}}", answers, parameters=before, also={"targets": targets}, layout="raw"
)
report = refnp.judge_model(
    step,
    {"x": x},
    like=model,
    parameters=before,
    loss=lambda logits: cross_entropy(logits, targets),
    optimizer=("adam", {"learning_rate": 1e-2}),
)
print(report)
sys.exit(not report.holds)
