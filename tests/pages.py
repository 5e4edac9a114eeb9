"""The pages whose commands and programs are run, and what these print: `python -m tests.pages --write` renews it.

```python norms.py       is written to that file          ```console     "$ refnp …" is run, and prints what follows
```python                is run                           ```text output what the program before it prints
"""

import contextlib
import io
import math
import os
import pathlib
import re
import sys
import tempfile

from refnp.cli import main

ROOT = pathlib.Path(__file__).parents[1]
NAMES = "engine explain judging loading results symmetry training transformer unification vision"
PAGES = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in NAMES.split()))
BLOCK = re.compile(r"^```(python|console|text output)(?: (\S+))?\n(.*?)^```$", re.S | re.M)


def brought_up_to_date(page):
    """The text of a page with what its commands and programs print now, run in a folder with nothing but `docs`."""
    printed = ""
    with tempfile.TemporaryDirectory() as folder, inside(folder):
        os.symlink(ROOT / "docs", "docs")

        def block(found):
            nonlocal printed
            kind, file, text = found.groups()
            if kind == "python" and file:
                pathlib.Path(file).write_text(text, encoding="utf-8")
                sys.modules.pop(pathlib.Path(file).stem, None)
            elif kind == "python":
                printed = output_of(lambda: exec(compile(text, page.name, "exec"), {}))
            elif kind == "console":
                command = text.partition("\n")[0]
                text = f"{command}\n{output_of(lambda: main(command.split()[2:]))}"
            else:
                text = printed
            return f"```{kind}{' ' + file if file else ''}\n{text}```"

        return BLOCK.sub(block, page.read_text(encoding="utf-8"))


@contextlib.contextmanager
def inside(folder):
    """Work in a folder; modules are imported from it, anew, and forgotten afterwards."""
    before, path, known = pathlib.Path.cwd(), list(sys.path), set(sys.modules)
    unwritten, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        os.chdir(folder)
        sys.path.insert(0, os.getcwd())
        yield
    finally:
        os.chdir(before)
        sys.path[:], sys.dont_write_bytecode = path, unwritten
        for name in set(sys.modules) - known:
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


def output_of(work):
    """What is printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        work()
    return printed.getvalue()


def differences(written, now):
    """The lines that say something else; versions may differ, and figures by a tenth, those below 1 by a factor of 3.

    Machines round sums and functions differently, and what is left of a bound is all rounding.
    """
    pairs = zip(written.splitlines(), now.splitlines(), strict=False)
    found = [(a, b) for a, b in pairs if not alike(a, b)]
    lengths = len(written.splitlines()), len(now.splitlines())
    return found if lengths[0] == lengths[1] else [*found, lengths]


def alike(written, now):
    """Whether two lines say the same."""
    versions = re.compile(r"\d+\.\d+\.\d+\S*|longdouble, 64 bits|float64 \(longdouble.*?\)")
    a, b = (re.split(r"(-?\d[\d.]*(?:e[+-]?\d+)?)", versions.sub("V", text)) for text in (written, now))
    if a[::2] != b[::2]:
        return False
    figures = zip(a[1::2], b[1::2], strict=True)
    return all(near(float(x.rstrip(".")), float(y.rstrip("."))) for x, y in figures)


def near(x, y):
    """Whether two figures may be the same on different machines."""
    return math.isclose(x, y, rel_tol=0.1) or (0 < x * y < 1 and 1 / 3 < x / y < 3)


if __name__ == "__main__":
    for page in PAGES:
        text = brought_up_to_date(page)
        if "--write" in sys.argv:
            page.write_text(text, encoding="utf-8")
        print(page, *differences(page.read_text(encoding="utf-8"), text), sep="\n")
