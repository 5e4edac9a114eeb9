"""examples/judge_js: what TensorFlow.js answers to exported cases is judged, and deviates where it is known to.

Skipped without Node.js, or before `npm ci` in the example's folder.
"""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from refnp.verify.exchange import export, judge_folder
from refnp.verify.judge import WITHIN

FOLDER = Path(__file__).parents[2] / "examples" / "judge_js"
KNOWN = {  # layers, and what of them deviates; the README beside layers.js says why
    "binary_cross_entropy": {"gradient of logits"},
    "cross_entropy of probabilities": {"gradient of targets"},
    "elu": {"output", "gradient of x"},
    "erf": {"output"},
    "gelu": {"output", "gradient of x"},
    "log_softmax": {"output", "gradient of x"},
    "logsumexp": {"output", "gradient of x"},
    "matmul": {"output"},  # no answer: its gradient throws
    "sigmoid": {"gradient of x"},
    "softmax": {"gradient of x"},
    "upsample": {"output"},  # likewise
}
RIGHT = {
    "arctan",
    "attention",
    "batch_norm of statistics",
    "convolution",
    "embedding",
    "huber",
    "layer_norm",
    "leaky_relu",
}
RIGHT |= {"linear", "average_pool", "max_pool", "causal_attention", "cosh", "mse", "relu", "silu", "sinh", "softplus"}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    if shutil.which("node") is None or not (FOLDER / "node_modules").is_dir():
        pytest.skip("Node.js, or its packages, are not installed")
    cases = tmp_path_factory.mktemp("js") / "cases"
    export(cases, "json", dtypes=("float32",))
    run = subprocess.run(
        ["node", str(FOLDER / "layers.js"), str(cases), str(cases / "answers")],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "Error in gradient for op BatchMatMul" in run.stderr
    return judge_folder(cases, name="TensorFlow.js")


def test_it_deviates_where_it_is_known_to(report):
    seen: dict[str, set[str]] = {}
    for row in report.deviations:
        seen.setdefault(row.case.partition("/")[0], set()).add(row.quantity)
    assert seen == KNOWN, str(report)


def test_most_is_right(report):
    within = [row for row in report.judgements if row.verdict == WITHIN]
    assert len(within) > 400
    assert {row.case.partition("/")[0] for row in within} >= RIGHT


def test_the_page_shows_what_happens(tmp_path):
    """Every expression in the README's table gives what the table says it gives."""
    if shutil.which("node") is None or not (FOLDER / "node_modules").is_dir():
        pytest.skip("Node.js, or its packages, are not installed")
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    (imports,) = re.findall(r"```js\n(.*?)```", page, re.S)
    claims = re.findall(r"\| `((?:tf|layers)\..*?)` (?:gives (.*?)|(throws)) \|", page)
    assert len(claims) > 10
    lines = [
        f"try {{ console.log(({expression}).dataSync().join(' ')); }} catch {{ console.log('throws'); }}"
        for expression, _, _ in claims
    ]
    script = FOLDER / f"{tmp_path.name}.mjs"  # packages are found from where a script lies
    script.write_text(f"{imports}\nawait tf.setBackend('cpu');\n" + "\n".join(lines))
    try:
        run = subprocess.run(["node", str(script)], check=True, capture_output=True, text=True, timeout=60)
    finally:
        script.unlink()
    printed = [line for line in run.stdout.splitlines() if re.match(r"[-\d]|NaN|throws", line)]
    for (expression, gives, _), given in zip(claims, printed, strict=True):
        if gives:
            right = [float(value) for value in re.findall(r"NaN|[-\d][-.\de]*", gives)]
            found = [float(value) for value in given.split()][: len(right)]
            np.testing.assert_allclose(found, right, rtol=1e-2, err_msg=expression)
        else:
            assert given == "throws", expression


def test_the_packages_are_pinned():
    lock = (FOLDER / "package-lock.json").read_text()
    assert lock.count('"integrity"') > 5
    for name in ("core", "layers", "backend-cpu"):
        assert f'"@tensorflow/tfjs-{name}": "4.22.0"' in (FOLDER / "package.json").read_text()
