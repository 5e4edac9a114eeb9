"""Models by name: made with their defaults and with every option, and what does not fit is refused."""

import inspect
import json

import numpy as np
import pytest

from refnp.studies.registry import MODELS, build, options_of
from tests.studies.tiny import OPTIONS

every_model = pytest.mark.parametrize("name", MODELS)


def rng():
    return np.random.default_rng(0)


def size(name, **options):
    return sum(p.size for p in build(name, options, rng=rng()).parameters())


@every_model
def test_options_with_their_defaults_make_the_default_model(name):
    """Every option is accepted as JSON has it."""
    options = json.loads(json.dumps(options_of(name)))
    model, plain = build(name, options, rng=rng()), build(name, {}, rng=rng())
    assert {n: p.shape for n, p in model.named_parameters()} == {n: p.shape for n, p in plain.named_parameters()}
    assert {p.dtype for p in model.parameters()} == {np.dtype(np.float32)}


@every_model
def test_signatures_name_every_option(name):
    parameters = inspect.signature(MODELS[name].make).parameters.values()
    assert all(p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)


def test_sizes_are_the_published_ones():
    assert size("tnpd") == size("tnpa") == 222_082
    assert size("tnpnd", covariance="cholesky") == 332_821
    assert size("convcnp") == 50_612
    assert size("convcnp-simple") == 6_532


@every_model
def test_the_same_seed_gives_the_same_weights(name):
    first, second = (build(name, OPTIONS[name], dtype=np.float64, rng=rng()).state_dict() for _ in range(2))
    assert all((first[key] == second[key]).all() and first[key].dtype == np.float64 for key in first)


@pytest.mark.parametrize(
    ("name", "option", "value", "message"),
    [
        ("cpn", "hidden", 8, "no model 'cpn'; did you mean cnp"),
        ("cnp", "hiden", 8, "cnp: there is no option 'hiden'; did you mean hidden"),
        ("cnp", "dx", 2, "no option 'dx'"),
        ("cnp", "rng", 2, "no option 'rng'"),
        ("cnp", "activation", "relu", "no option 'activation'"),
        ("cnp", "hidden", 8.5, "hidden is 8.5; it must be a whole number, such as 128"),
        ("cnp", "hidden", True, "hidden is True; it must be a whole number"),
        ("canp", "before", 2.5, "before is 2.5; it must be a whole number or null, such as null"),
        ("cnp", "floor", "low", "floor is 'low'; it must be a number, such as 0.0"),
        ("convcnp", "margin", -1, "margin is -1; it must be 0 or positive"),
        ("tnpd", "flag", 1, "flag is 1; it must be true or false, such as false"),
        ("tnpnd", "covariance", 3, 'covariance is 3; it must be a word, such as "low_rank"'),
        ("tetnp", "kernel", [4, 0.5], r"kernel is \[4, 0.5\]; it must be a list of whole numbers, such as \[32, 32\]"),
    ],
)
def test_what_does_not_fit(name, option, value, message):
    with pytest.raises(ValueError, match=message):
        build(name, {option: value}, rng=rng())
