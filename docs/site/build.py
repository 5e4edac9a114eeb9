"""Builds the site: docs/ becomes docs/_site/."""

import os
import pathlib
import shutil
import time

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
SITE = DOCS / "_site"
WORK = ROOT / "build" / "docs"  # what Sphinx keeps from one build to the next
ONLY = "REFNP_DOCS_ONLY"  # in the environment: the only page that is built


def build(*, only=None, draft=False, processes=2, into=SITE):
    """Builds the whole site anew, or one page of it; returns 0, or 1 if there was a warning, an error, or both.

    A draft may have warnings: chapters that are not there yet, links that lead nowhere. A single page is a draft.
    """
    from sphinx.cmd.build import build_main

    from docs.site import api

    prepare(only)
    api.write()
    started = time.perf_counter()
    shutil.rmtree(WORK / "made", ignore_errors=True)
    made = WORK / "made" / "html"
    strict = [] if draft or only else ["--fail-on-warning"]
    fresh = ["--fresh-env", "--write-all"]
    places = ["-c", str(DOCS / "site"), "-d", str(WORK / "doctrees"), str(DOCS), str(made)]
    status = build_main(["-q", *strict, *fresh, f"-j{processes}", *places])
    if status == 0:
        if only is None:  # a whole site replaces the one that is there, once it is complete
            shutil.rmtree(into, ignore_errors=True)
        shutil.copytree(made, into, dirs_exist_ok=True)
        print(f"{into / (only or 'index')}.html, in {time.perf_counter() - started:.0f} s")
    return status


def prepare(only=None):
    """The environment of the processes that execute chapters: this repository, one thread, pictures as SVG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import font_manager  # noqa: F401  # builds its list of fonts once, not in every chapter

    settings = WORK / "ipython" / "profile_default"
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "ipython_kernel_config.py").write_text(
        'c.InlineBackend.figure_formats = {"svg"}\nc.InlineBackend.rc = {"svg.hashsalt": "refnp"}\n'
        "c.IPKernelApp.log_level = 40\n",
        encoding="utf-8",
    )
    os.environ["IPYTHONDIR"] = str(WORK / "ipython")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["JUPYTER_PLATFORM_DIRS"] = "1"
    os.environ.pop("PYTHONWARNINGS", None)  # what it asks for of Jupyter's own packages would stand in the chapters
    if only:
        os.environ[ONLY] = only


def left_out():
    """The pages that are not built when only one is."""
    only = os.environ.get(ONLY)
    if not only:
        return []
    pages = (path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    return [page for page in pages if page not in ("index.md", f"{only}.md")]
