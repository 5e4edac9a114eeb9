"""The lines of the figure are the draws whose coherence it prints."""

import numpy as np
import pytest

from refnp.figures import coherence
from refnp.studies import paths

pytest.importorskip("matplotlib")


def test_lines_are_draws_and_numbers_theirs():
    drawn, (task, _) = coherence.draw(), coherence.given()
    panels = coherence.panels(task)
    for axes, panel in zip(drawn.figure.axes, panels, strict=True):
        lines = np.array([line.get_ydata() for line in axes.lines[: coherence.SHOWN]])
        assert (lines == panel.draws[: coherence.SHOWN]).all()
        value = drawn.numbers[f"correlation of neighbours, {panel.title}"]
        assert value == paths.coherence(panel.draws)
        assert f"{value:z.2f}" in axes.get_title()
    alone, latent, chained = (drawn.numbers[f"correlation of neighbours, {p.title}"] for p in panels)
    assert abs(alone) < 0.1 < 0.4 < min(latent, chained)
