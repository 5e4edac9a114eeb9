"""The course in a terminal: `refnp study` lists the chapters, `refnp study softmax` shows one page by page.

Chapters are the files of docs/course, from which the site is built. Their code is read from the source, their cells run
when they are shown. With the extra `study` formulas become Unicode (pylatexenc) and text has colours (rich); without it
formulas stay LaTeX, and the text is plain.
"""

import importlib.util
import io
import os
import pydoc
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from refnp.autograd.errors import closest
from refnp.course.formulas import readable
from refnp.course.myst import Block, Cells, Section, sections_of
from refnp.course.statements import Statements

__all__ = ["chapters", "listing", "study"]

FOLDERS = (Path(__file__).parent / "chapters", Path(__file__).parents[2] / "docs" / "course")
WIDTH, WIDEST = 100, 120
NO_CHAPTERS = {"index", "explain"}


def __dir__() -> list[str]:
    return __all__


def chapters() -> dict[str, Path]:
    """The files of the chapters by name, in the order of the course."""
    folder = next((folder for folder in FOLDERS if folder.is_dir()), None)
    if folder is None:
        raise FileNotFoundError("study: the chapters are not there; install refnp again, or read docs/course")
    files = {file.stem: file for file in sorted(folder.glob("*.md")) if file.stem not in NO_CHAPTERS}
    index = folder / "index.md"
    order = re.findall(r"^\s*([a-z_]+)\s*$", index.read_text(encoding="utf-8"), re.M) if index.is_file() else []
    return {name: files[name] for name in [*dict.fromkeys(n for n in order if n in files), *files]}


def listing() -> str:
    """A line for each chapter: its name, and the idea."""
    found = chapters()
    width = max(map(len, found), default=0)
    lines = [f"  {name:{width}}  {_title(file.read_text(encoding='utf-8'))}" for name, file in found.items()]
    return "\n".join(["chapters, in the order of the course:", *lines, "", "refnp study NAME shows one"])


def _title(text: str) -> str:
    found = re.search(r"^# (.*)", text, re.M)
    return _inline(found[1], readable) if found else ""


def study(
    name: str,
    *,
    sections: Sequence[str] = (),
    solutions: bool = False,
    plain: bool = False,
    pictures: str | Path | None = None,
) -> int:
    """Show a chapter, or the `sections` named, without the solutions of its exercises unless `solutions`.

    On a terminal page by page, with colours unless `plain`; elsewhere as plain text of 100 columns. Where `pictures` is
    a folder, the chapter's pictures are written there. Returns 1 if a cell failed, and 0.
    Raises ValueError for a chapter or section that there is not, with the nearest names.
    """
    file = chapter(name)
    found = sections_of(file.read_text(encoding="utf-8"))
    titles = [section.title for section in found[1:]]
    chosen = [_named(words, titles, name) for words in sections] if sections else titles
    if pictures is not None:
        Path(pictures).mkdir(parents=True, exist_ok=True)
    is_terminal = sys.stdout.isatty()
    coloured = is_terminal and not plain and importlib.util.find_spec("rich") is not None
    width = min(shutil.get_terminal_size((WIDTH, 24)).columns, WIDEST) if is_terminal else WIDTH
    page, cells = (_Coloured if coloured else _Plain)(width), Cells(None if pictures is None else Path(pictures), name)
    with np.printoptions():  # which cells may change
        _write(page, found, {found[0].title, *chosen}, cells, solutions)
    _show(page.text(), is_terminal)
    if importlib.util.find_spec("pylatexenc") is None:
        print("study: formulas are LaTeX; with python -m pip install 'refnp[study]' Unicode", file=sys.stderr)
    return int(cells.failed)


def _write(page: "_Plain", sections: list[Section], chosen: set[str], cells: Cells, solutions: bool) -> None:
    """Write the chosen sections. All cells run, for those shown need the others; of what is not shown, a cell that is
    shown is preceded by the statements that it needs, so that code copied from the page runs."""
    hidden = Statements()
    for place, section in enumerate(sections):
        is_chosen = section.title in chosen
        if is_chosen:
            page.heading(section.title, 2 if place else 1)
        for block in section.blocks:
            output = cells.run(block.content) if block.kind == "cell" else ""
            is_shown = is_chosen and (solutions or not block.is_solution)
            if block.kind == "cell" and not (is_shown and not block.is_input_hidden):
                hidden.add(block.content)
                block = Block("picture", block.title)
                is_shown = is_shown and bool(block.content or output)
            elif block.kind == "cell" and (before := hidden.needed(block.content)):
                page.block(Block("cell", before), "")
            if is_shown:
                page.block(block, output)
        if is_chosen and not solutions and any(block.is_solution for block in section.blocks):
            page.block(Block("text", "Solutions are shown with --solutions."), "")


def chapter(name: str) -> Path:
    """The file of a chapter; ValueError with the nearest names if there is none."""
    found = chapters()
    if name not in found:
        raise ValueError(f"there is no chapter {name!r}{closest(name, found)}")
    return found[name]


def _named(words: str, titles: list[str], name: str) -> str:
    """The section whose title has these words."""
    for title in titles:
        if words.lower() in title.lower():
            return title
    raise ValueError(f"{name} has no section {words!r}; its sections are {', '.join(titles)}")


def _show(text: str, is_terminal: bool) -> None:
    if not is_terminal:
        sys.stdout.write(text)
        return
    os.environ.setdefault("LESS", "-R")  # colours
    pydoc.pager(text)


# ---- text


def _inline(text: str, formula: Any) -> str:
    """Markdown with its formulas as text, roles, links and pictures by their names. A stroke of a formula is no border
    of a table."""
    is_table = text.lstrip().startswith("|")

    def written(found: re.Match[str]) -> str:
        line: str = formula(found[1].replace("\n", " "))
        return line.replace("|", "∣") if is_table else line

    text = re.sub(r"(?<![\\$])\$([^$]+?)\$", written, text)
    text = re.sub(r"!\[([^]]*)\]\([^)\s]+\)(\{[^}]*\})?", r"[a picture, on the site: \1]", text)
    text = re.sub(r"\{source\}`(?:[^`<]*<([^`>]+)>|([^`]+))`", lambda found: f"`{found[1] or found[2]}`", text)
    text = re.sub(r"\{[\w:-]+\}`([^`]+)`", r"`\1`", text)
    return re.sub(r"\[([^]]+)\]\([^)\s]+\)", r"\1", text)


def _without_marks(text: str) -> str:
    """Without the stars of emphasis; those of code stay."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"(\*{1,2})(?=\S)(.+?)(?<=\S)\1", r"\2", part, flags=re.S) for part in parts[::2]]
    return "".join(parts)


class _Plain:
    """A chapter as plain text."""

    def __init__(self, width: int):
        self.width = width
        self.lines: list[str] = []

    def heading(self, title: str, level: int) -> None:
        title = _without_marks(_inline(title, readable))
        self.lines += ["", title, ("=" if level == 1 else "-") * len(title), ""]

    def block(self, block: Block, output: str) -> None:
        if block.kind == "text":
            for paragraph in re.split(r"\n\s*\n", block.content):
                self.lines += [*self._paragraph(paragraph), ""]
        elif block.kind == "formula":
            self.lines += [*textwrap.indent(readable(block.content), "    ").split("\n"), ""]
        elif block.kind == "picture":
            words = [f"[{block.content}]"] if block.content else []
            self.lines += [*(line for part in words for line in _wrapped(part, self.width)), ""]
            self._output(output)
        else:
            if block.kind == "code" and block.title:
                self.lines.append(f"  {block.title}:")
            self.lines += [*textwrap.indent(block.content, "    ").split("\n"), ""]
            self._output(output)

    def _output(self, output: str) -> None:
        if output:
            self.lines += [*textwrap.indent(output, "  | ").split("\n"), ""]

    def _paragraph(self, text: str) -> list[str]:
        text = _without_marks(_inline(text, readable))
        if text.lstrip().startswith("|"):
            return _table(text, self.width)
        items = re.split(r"\n(?=\s*(?:[-*]|\d+\.) )", text)
        return [line for item in items for line in _wrapped(item, self.width)]

    def text(self) -> str:
        return re.sub(r"\n{3,}", "\n\n", "\n".join(self.lines)).strip("\n") + "\n"


def _wrapped(text: str, width: int) -> list[str]:
    mark = re.match(r"\s*(?:[-*]|\d+\.) ", text)
    return textwrap.wrap(" ".join(text.split()), width, subsequent_indent=" " * len(mark[0]) if mark else "",
                         break_long_words=False, break_on_hyphens=False)  # fmt: skip


def _cells(line: str) -> list[str]:
    """The cells of a row of a Markdown table."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def _table(text: str, width: int) -> list[str]:
    """A Markdown table in columns, the last of which is wrapped."""
    rows = [_cells(line) for line in text.strip().split("\n")]
    rows = [row for row in rows if not all(re.fullmatch(r":?-+:?", cell) for cell in row)]
    count = max(map(len, rows))
    rows = [row + [""] * (count - len(row)) for row in rows]
    lengths = [max(_length(row[i]) for row in rows) for i in range(count - 1)]
    left = sum(lengths) + 2 * (count - 1)
    lines = []
    for row in rows:
        start = "".join(cell + " " * (n + 2 - _length(cell)) for cell, n in zip(row, lengths, strict=False))
        last = textwrap.wrap(row[-1], max(width - left, 20)) or [""]
        lines += [(start if i == 0 else " " * left) + part for i, part in enumerate(last)]
    return [line.rstrip() for line in lines]


def _length(text: str) -> int:
    """How many places the text takes: the bar of x̄ takes none."""
    return sum(not unicodedata.combining(letter) for letter in text)


class _Coloured(_Plain):
    """The same in colours, by rich."""

    def __init__(self, width: int):
        from rich.console import Console

        super().__init__(width)
        self.console = Console(file=io.StringIO(), width=width, force_terminal=True, legacy_windows=False)

    def heading(self, title: str, level: int) -> None:
        from rich.rule import Rule
        from rich.text import Text

        text = Text(_inline(title, readable), style="bold" if level == 1 else "bold underline")
        self.console.print("", Rule(text) if level == 1 else text, "", sep="\n")

    def block(self, block: Block, output: str) -> None:
        from rich.markdown import Markdown
        from rich.padding import Padding
        from rich.syntax import Syntax
        from rich.text import Text

        if block.kind == "text":
            self.console.print(Markdown(_inline(block.content, readable)), "")
        elif block.kind == "formula":
            self.console.print(Padding(Text(readable(block.content), style="bold cyan"), (0, 4)), "")
        elif block.kind == "picture":
            if block.content:
                self.console.print(Text(f"[{block.content}]", style="dim"), "")
            if output:
                self.console.print(Padding(Text(output, style="green"), (0, 4)), "")
        else:
            if block.kind == "code" and block.title:
                self.console.print(Text(f"  {block.title}", style="dim"))
            self.console.print(Padding(Syntax(block.content, "python", theme="ansi_dark", word_wrap=True), (0, 2)), "")
            if output:
                self.console.print(Padding(Text(output, style="green"), (0, 4)), "")

    def text(self) -> str:
        return self.console.file.getvalue()
