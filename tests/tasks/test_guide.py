"""The guide's example runs as it stands."""

import pathlib
import re

import numpy as np

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "tasks.md"


def test_the_example_of_the_guide_runs():
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)
    names = {}
    exec(compile(code, str(GUIDE), "exec"), names)
    assert names["oracle"].kl(names["Normal"](np.zeros((16, 50, 1)), 1.0)).shape == (16,)
    assert names["model_input"].dtype == np.float32
    assert names["task"].context_mask.any()
