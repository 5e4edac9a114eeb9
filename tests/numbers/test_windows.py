"""Windows: which place each of them reads, by loops; reading and adding up, on every kind of number."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refnp.numbers.field import Field
from refnp.numbers.rounding import exact
from refnp.numbers.windows import BEYOND, PADDING, Axis, windows
from refnp.numbers.words import added_at, read_at
from tests.helpers import normal, seeds

AXES = st.builds(Axis, *(st.integers(1, n) for n in (6, 4, 3, 3, 3)), *(st.integers(0, 2) for _ in range(2)))


@given(AXES, AXES)
def test_windows_read_the_places_of_the_equation(first, second):
    places = windows((first, second))
    windows_of = itertools.product(range(first.positions), range(second.positions))
    taps = [*itertools.product(range(first.kernel), range(second.kernel))]
    for row, position in zip(places, windows_of, strict=True):
        for place, tap in zip(row, taps, strict=True):
            at = [
                a.stride * p + a.dilation * t - a.before for a, p, t in zip((first, second), position, tap, strict=True)
            ]
            if all(0 <= i < a.length for i, a in zip(at, (first, second), strict=True)):
                assert place == at[0] * second.length + at[1]
            else:
                out = any(i >= a.length + a.after for i, a in zip(at, (first, second), strict=True))
                assert place == (BEYOND if out else PADDING)


@pytest.mark.parametrize("mode", ["circular", "reflect", "replicate"])
@given(st.integers(3, 6), st.integers(0, 2), st.integers(0, 2))
def test_padding_repeats_what_numpy_repeats(mode, n, before, after):
    name = {"circular": "wrap", "reflect": "reflect", "replicate": "edge"}[mode]
    places = windows((Axis(n, n + before + after, 1, before=before, after=after),), mode)[:, 0]
    assert places.tolist() == np.pad(np.arange(n), (before, after), mode=name).tolist()


@given(seeds)
def test_to_read_and_to_add_up_are_adjoint_on_every_kind_of_number(seed):
    x, places = normal(seed, (2, 5)), np.random.default_rng(seed).integers(-2, 5, (3, 4))
    y = normal(seed + 1, (2, 3, 4))
    seen, added = read_at(x, places), added_at(y, places, 5)
    np.testing.assert_array_equal(seen, np.where(places < 0, 0, x[:, np.maximum(places, 0)]))
    np.testing.assert_allclose((seen * y).sum(), (x * added).sum(), rtol=0, atol=1e-13)
    np.testing.assert_array_equal(read_at(exact(x), places).value, seen)
    np.testing.assert_allclose(added_at(exact(y), places, 5).value.astype(float), added, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(read_at(Field(x), places).real, seen)
    np.testing.assert_allclose(added_at(Field(y), places, 5).real, added, rtol=0, atol=1e-13)
