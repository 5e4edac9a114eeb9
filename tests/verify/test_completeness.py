"""Whatever refnp offers has an equation, cases, gradient inputs and a transcription; tests/test_api.py shows it.

Or the page of its family in refnp/verify/layers says why not, in WITHOUT. What is forgotten is named.
"""

import inspect
import re
from pathlib import Path

import pytest

from refnp import layers, models
from refnp.verify import layers as pages
from refnp.verify.case import LACKING

ROOT = Path(__file__).parents[2]


def public_names():
    """What is public in the layers and in the models, and can be called."""
    return sorted(name for chapter in (layers, models) for name in chapter.__all__ if callable(getattr(chapter, name)))


def found():
    """{what: the public names that have it}."""
    spelled = {word for case in pages.cases() for word in case.layer.names or (case.layer.name,)}
    stated = {name for name in public_names() if {name, snake_case(name)} & spelled}
    words = {
        word for inputs in pages.gradient_inputs() for word in inputs.names or re.findall(r"[A-Za-z_]\w*", inputs.name)
    }
    return {
        "equation": stated | {name for lack in pages.without() if lack.what == "cases" for name in lack.names},
        "cases": stated,
        "gradient inputs": words,
        "transcription": {name for name in public_names() if transcription_of(name)},
    }


def snake_case(name):
    """LayerNorm → layer_norm, RMSNorm → rms_norm."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def transcription_of(name):
    """The file that the docstring of a public name, or of its module, gives for its transcription; None without one."""
    thing = getattr(layers, name, None) or getattr(models, name)
    for text in (inspect.getdoc(thing), inspect.getdoc(inspect.getmodule(inspect.unwrap(thing)))):
        for file in re.findall(r"tests/transcriptions/\w+\.py", text or ""):
            if (ROOT / file).exists():
                return file
    return None


def forgotten(names):
    """{name: what it lacks, without a reason}. A name without an equation has no cases either, for the same reason."""
    has = found()
    excused = {(name, lack.what) for lack in pages.without() for name in lack.names}
    excused |= {(name, "cases") for name, what in excused if what == "equation"}
    lacks = {name: [w for w in LACKING if name not in has[w] and (name, w) not in excused] for name in names}
    return {name: what for name, what in lacks.items() if what}


def test_nothing_is_forgotten():
    assert forgotten(public_names()) == {}


def test_what_is_new_is_noticed():
    assert forgotten(["relu"]) == {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "no_such_layer", lambda x: x, raising=False)
        assert forgotten(["no_such_layer"]) == {"no_such_layer": list(LACKING)}


@pytest.mark.parametrize(
    ("part", "name", "lacks"),
    [
        ("cases", "softmax", ["equation", "cases"]),
        ("gradient_inputs", "gelu", ["gradient inputs"]),
        ("without", "random_orders", ["equation", "cases", "gradient inputs"]),
    ],
)
def test_what_is_forgotten_on_a_page_is_noticed(part, name, lacks, monkeypatch):
    def of(entry):
        return name in str(getattr(entry, "names", "") or entry.name)

    rest = [entry for entry in getattr(pages, part)() if not of(entry)]
    monkeypatch.setattr(pages, part, lambda: rest)
    assert forgotten([name]) == {name: lacks}


def test_a_transcription_that_is_not_there_is_noticed(monkeypatch):
    monkeypatch.setattr(layers.relu, "__doc__", "Transcription: tests/transcriptions/nowhere.py")
    monkeypatch.setattr(inspect.getmodule(inspect.unwrap(layers.relu)), "__doc__", "")
    assert transcription_of("relu") is None


def test_reasons_are_of_names_that_exist_and_of_what_they_lack():
    has, public = found(), set(public_names())
    for lack in pages.without():
        assert lack.what in LACKING
        assert len(lack.why) > 20
        assert set(lack.names) <= public
        assert not (set(lack.names) & has[lack.what]) or lack.what == "cases", lack
