"""Each chapter as a notebook and as a script: its text and cells, with what only the site knows written out."""

import pathlib
import posixpath
import re

from docs.site import build, chapters, sources


def write(folder):
    """Writes NAME.ipynb and NAME.py of every chapter into a folder; returns the names."""
    import jupytext

    from refnp.verify.record import write_whole

    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = [name for name in chapters.names() if (chapters.COURSE / f"{name}.md").exists()]
    for name in written:
        made = notebook(name)
        for ending, form in ((".ipynb", "ipynb"), (".py", "py:percent")):
            write_whole(folder / f"{name}{ending}", jupytext.writes(made, fmt=form).encode())
    return written


def notebook(name):
    """A chapter as a notebook, not executed."""
    import jupytext

    made = jupytext.reads(chapters.text(name), fmt="md:myst")
    for cell in made.cells:
        if cell.cell_type == "markdown":
            cell.source = plain(cell.source)
    return made


def plain(text):
    """Markdown for any notebook: included code is written out, grids are left away, solutions fold as in HTML."""
    text = chapters.FENCE.sub(_included, text)
    text = re.sub(r"\{source\}`([^`]+)`", lambda found: f"`{sources.parsed(found[1])[1]}`", text)
    text = re.sub(r"\[([^]]+)\]\(([^)\s]+)\)", _link, text)
    lines, open_directives = [], []
    for line in text.splitlines():
        started = re.match(r"(:{3,})\{([\w-]+)\}\s*(.*)", line)
        if started:
            open_directives.append(started[2])
            if started[2] == "dropdown":
                lines += [f"<details><summary>{started[3]}</summary>", ""]
        elif re.fullmatch(r":{3,}\s*", line) and open_directives:
            if open_directives.pop() == "dropdown":
                lines += ["", "</details>"]
        elif not (open_directives and re.match(r":[\w-]+:", line)):
            lines.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def _included(fence):
    _, kind, path, body = fence.groups()
    if kind != "literalinclude":
        return fence[0]
    from sphinx.config import Config
    from sphinx.directives.code import LiteralIncludeReader

    options = {key: value.strip().strip("\"'") for key, value in re.findall(r"^:([\w-]+):(.*)$", body, re.M)}
    if "dedent" in options:
        options["dedent"] = None  # by as much as the lines share
    file = posixpath.normpath(posixpath.join("docs/course", path.strip()))
    code, _ = LiteralIncludeReader(str(build.ROOT / file), options, Config()).read()
    return f"`{file}`\n\n```python\n{code.rstrip()}\n```"


def _link(found):
    """A link to a chapter becomes one to its notebook; of a link to another file the words stay."""
    words, target = found.groups()
    if re.match(r"https?:", target):
        return found[0]
    chapter = re.fullmatch(r"(\w+)\.md(?:#.*)?", target)
    return f"[{words}]({chapter[1]}.ipynb)" if chapter else words
