"""The API is visible: what `dir` shows, that no module hides behind a function, and the pages of the site."""

import importlib
import inspect
import pathlib
import pkgutil
import re
import subprocess
import sys

import pytest

import gradcheck
import refnp
from docs.site import api, build
from tests import typed


def packages():
    """The names of refnp, gradcheck and every package inside them."""
    found = []
    for top in (refnp, gradcheck):
        inside = pkgutil.walk_packages(top.__path__, f"{top.__name__}.")
        found += [top.__name__, *(module.name for module in inside if module.ispkg)]
    return found


every_package = pytest.mark.parametrize("name", packages())


@every_package
def test_dir_is_the_api(name):
    package = importlib.import_module(name)
    assert sorted(dir(package)) == sorted(set(package.__all__))
    for public in package.__all__:
        assert hasattr(package, public), public


@pytest.mark.parametrize("name", typed.PACKAGES)
def test_a_list_of_names_that_is_written_down_has_all_that_is_imported(name):
    package = importlib.import_module(name)
    imported = {n for n, value in vars(package).items() if n[0] != "_" and not hasattr(value, "__spec__")}
    assert imported <= {*package.__all__, "Any", "TYPE_CHECKING"}


@every_package
def test_no_module_hides_behind_a_function_of_its_name(name):
    """`package.page` is the module of that name, or the public function of that name which stands in it."""
    package = importlib.import_module(name)
    for found in pkgutil.iter_modules(package.__path__):
        if found.name != "__main__":
            module = importlib.import_module(f"{name}.{found.name}")
            own = getattr(module, found.name, None) if found.name in package.__all__ else None
            assert getattr(package, found.name) in (module, own)


@pytest.mark.parametrize("name", api.PACKAGES)
def test_star_import_gives_the_api(name):
    space = {}
    exec(f"from {name} import *", space)
    assert set(importlib.import_module(name).__all__) == space.keys() - {"__builtins__"}


def test_import_refnp_gives_the_chapters_and_nothing_slow():
    """One import; neither a framework nor a drawing library nor the shipped weights are touched."""
    code = (
        "import sys, refnp\n"
        "chapters = 'autograd layers models tasks training symmetry verify'.split()\n"
        "assert all(getattr(refnp, name).__name__ == f'refnp.{name}' for name in chapters)\n"
        "slow = {'torch', 'jax', 'matplotlib', 'rich', 'sklearn', 'mlxtend', 'hypothesis', 'pytest'}\n"
        "assert not slow & sys.modules.keys(), slow & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


# ---- the API on the site


@pytest.mark.parametrize("name", api.PACKAGES)
def test_every_public_name_is_in_the_reference(name):
    text = api.page(name)
    for public in api.public_names(importlib.import_module(name)):
        assert f"### {public}\n" in text or f"`{public}`" in text


def test_the_pages_are_those_that_the_site_lists():
    listed = re.findall(r"^api/(.*)$", (build.DOCS / "index.md").read_text(encoding="utf-8"), re.M)
    assert [f"{name}.md" for name in listed] == [path.name for path in api.pages()]


def test_a_page_of_the_reference():
    """Signature without types, first sentence, equations, shapes, file."""
    text = api.page("refnp.layers")
    start = text.index("### softmax")
    assert "softmax(x, *, axis=-1" in text[start:][:200]
    assert text.rindex("\n## [refnp/layers/softmax.py](../../refnp/layers/softmax.py)", 0, start) > 0
    assert "\nShapes: x (..., D), gain and shift (D,)" in text[text.index("### layer_norm\n") :]
    assert "\nVJP: x̄ = ȳ where x > 0" in text[text.index("### relu\n") :][:200]
    assert "### masks.causal" in text


def test_parts_of_a_docstring():
    def f(x, /, y=1.0, *args, mode="a", act=abs, where=(pathlib.Path,), **rest):
        """y = x, e.g. one number. The rest
        follows.

            y = x
              = x + 0

        Shapes: x (..., D) → y (..., D), or (). Raises ValueError. Shapes follow.
        """

    text = inspect.getdoc(f)
    assert api.first_sentence(text) == "y = x, e.g. one number."
    assert api.equations(text) == "    y = x\n      = x + 0"
    assert api.shapes(text) == "x (..., D) → y (..., D), or ()"
    assert api.signature("f", f) == 'f(x, /, y=1.0, *args, mode="a", act=abs, where=(Path,), **rest)'
    assert api.signature("f", lambda a, *, b: 0) == "f(a, *, b)"
    assert "0x" not in api.shown(object())
    assert api.first_sentence("Softmax: p = e/Σ e") == "Softmax: p = e/Σ e"
    assert api.shapes("Nothing.") == api.equations("Nothing.") == ""
    assert api.gradient("y = x.   VJP: x̄ = ȳ,\nor 0.   Raises no error.") == ("VJP: x̄ = ȳ, or 0.", 9)
