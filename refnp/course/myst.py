"""A chapter of the course as blocks: text, formulas, code that is included from the source, and cells that run.

A chapter is MyST Markdown, docs/course/NAME.md, from which the site is built. Here are only those of its forms that
chapters have: headings, fences of three colons (their contents count, and the title of a dropdown), displayed formulas,
`literalinclude` by name and text, `code-cell`, and Markdown. Everything that is shown is taken from the chapter and the
source when it is asked for; nothing is kept beside them.
"""

import ast
import contextlib
import io
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = Path(__file__).parents[1]
FENCE = re.compile(r"`{3,}\{(?P<name>[\w-]+)\}(?P<argument>.*)")
OPTION = re.compile(r":(?P<name>[\w-]+):\s*(?P<value>.*)")


class Block(NamedTuple):
    """A part of a chapter. `kind` is "text", "formula", "code" (with `title`, where it comes from) or "cell" (with
    `title`, the words of its picture). `tags` are those of a cell, and "solution" of what stands in one.
    """

    kind: str
    content: str
    title: str = ""
    tags: str = ""

    @property
    def is_solution(self) -> bool:
        return "solution" in self.tags or "hide-cell" in self.tags

    @property
    def is_input_hidden(self) -> bool:
        return "hide-input" in self.tags


class Section(NamedTuple):
    """What stands under a heading; the first section has the chapter's own."""

    title: str
    blocks: list[Block]


def sections_of(text: str) -> list[Section]:
    """The sections of a chapter, whose code is read from the source.

    Raises ValueError for a fence that is not closed, and for code whose name or text is no longer in the source.
    """
    lines = iter(re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S).split("\n"))
    sections = [Section("", [])]
    prose: list[str] = []
    inside: list[str] = []  # the tags of the fences of colons that are open

    def add(block: Block | None) -> None:
        tags = " ".join(filter(None, inside))
        if any(line.strip() for line in prose):
            sections[-1].blocks.append(Block("text", "\n".join(prose).strip("\n"), tags=tags))
        prose.clear()
        if block is not None:
            sections[-1].blocks.append(block._replace(tags=f"{block.tags} {tags}".strip()))

    for line in lines:
        heading = re.match(r"#{1,2} (.*)", line)
        fence = FENCE.match(line)
        if heading:
            add(None)
            sections.append(Section(heading[1], []))
        elif line.startswith(":::"):
            add(None)
            words = line.lstrip(":").strip()
            title = words.removeprefix("{dropdown}").strip()
            if words:
                inside.append("solution" if words.startswith("{dropdown}") else "")
            elif inside:
                inside.pop()
            prose += ["", f"**{title}**", ""] if title and "{" not in title else [""]
        elif fence:
            add(_fenced(fence["name"], fence["argument"].strip(), _until(lines, "```", fence["name"])))
        elif line.startswith("```"):
            add(Block("code", "\n".join(_until(lines, "```", "code")), line.strip("`").strip()))
        elif line.startswith("<!--"):  # what a command renews stands between two of them
            continue
        elif line.startswith("$$"):
            first = line.removeprefix("$$")
            closed = first.endswith("$$") and first
            add(Block("formula", first[:-2] if closed else "\n".join([first, *_until(lines, "$$", "formula")])))
        else:
            prose.append(line)
    add(None)
    return [section for section in sections if section.title or section.blocks]


def _until(lines: Any, end: str, what: str) -> list[str]:
    found: list[str] = []
    for line in lines:
        if line.strip() == end:
            return found
        found.append(line)
    raise ValueError(f"study: a {what} of the chapter is not closed by {end}")


def _fenced(name: str, argument: str, body: list[str]) -> Block | None:
    """A cell, included code, or the text of another directive."""
    options = {}
    while body and (found := OPTION.match(body[0])):
        options[found["name"]] = found["value"].strip().strip('"')
        body = body[1:]
    if name == "code-cell":
        words = re.search(r'alt: "([^"]*)"', options.get("mystnb", ""))
        return Block("cell", "\n".join(body).strip("\n"), words[1] if words else "", options.get("tags", ""))
    if name == "literalinclude":
        return included(argument, options)
    return Block("text", "\n".join(body)) if body else None


# ---- code from the source


def included(path: str, options: dict[str, str]) -> Block:
    """What Sphinx' literalinclude shows: an object by `pyobject`, of it the lines from `start-at` to `end-at`.

    `start-after` and `end-before` leave the line itself out. Files of the package are found where it is installed; of
    others, as the tests', only the name is shown where there is no checkout.
    """
    parts = Path(path).parts
    name = "/".join(part for part in parts if part != "..")
    file = next((f for f in (PACKAGE.parent / name, PACKAGE / Path(name).relative_to("refnp")) if f.is_file()), None) \
        if name.startswith("refnp/") else PACKAGE.parent / name  # fmt: skip
    if file is None or not file.is_file():
        return Block("text", f"({name} stands in the repository)")
    lines = file.read_text(encoding="utf-8").splitlines()
    if "pyobject" in options:
        lines = _object(lines, options["pyobject"], name)
    lines = _between(lines, options, name)
    code = "\n".join(lines)
    title = f"{name} {options.get('pyobject', '')}".strip()
    return Block("code", textwrap.dedent(code) if "dedent" in options else code, title)


def _object(lines: list[str], dotted: str, file: str) -> list[str]:
    """The lines of a function or class, decorators first."""
    body: Any = ast.parse("\n".join(lines)).body
    found: Any = None
    for name in dotted.split("."):
        found = next((node for node in body if getattr(node, "name", None) == name), None)
        if found is None:
            raise ValueError(f"study: {file} has no {dotted}, which the chapter shows")
        body = found.body
    first = min([found.lineno, *(d.lineno for d in found.decorator_list)])
    return lines[first - 1 : found.end_lineno]


def _between(lines: list[str], options: dict[str, str], file: str) -> list[str]:
    start = 0
    for option, beyond in (("start-at", 0), ("start-after", 1)):
        if option in options:
            start = _place(lines, options[option], 0, file) + beyond
    end = len(lines)
    for option, beyond in (("end-at", 1), ("end-before", 0)):
        if option in options:
            end = _place(lines, options[option], start + (not beyond), file) + beyond
    return lines[start:end]


def _place(lines: list[str], text: str, start: int, file: str) -> int:
    for i in range(start, len(lines)):
        if text in lines[i]:
            return i
    raise ValueError(f"study: {text!r}, which the chapter shows, is no longer in {file}")


# ---- cells


class Cells:
    """Runs the cells of a chapter one after the other, as a notebook does, in one namespace."""

    def __init__(self, pictures: Path | None = None, name: str = "picture") -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.failed = False
        self.pictures, self.name, self.drawn = pictures, name, 0

    def run(self, code: str) -> str:
        """What a cell prints, and the value of its last line; an error is text too.

        Pictures are written to the folder `pictures`, as NAME-1.png and so on, or only counted. What needs matplotlib
        is left out where it is not installed.
        """
        written = io.StringIO()
        missing = ""
        tree = ast.parse(code).body
        with _drawing(self._file) as drawn, contextlib.redirect_stdout(written):
            for statement in tree:
                try:
                    self._execute(statement, last=statement is tree[-1])
                except Exception as error:
                    if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("matplotlib"):
                        missing = "needs matplotlib: python -m pip install 'refnp[study]'"
                    elif not (missing and isinstance(error, NameError)):
                        self.failed = True
                        print(f"{type(error).__name__}: {error}")
                        break
        notes = [missing] if missing else drawn()
        return "\n".join(part for part in (written.getvalue().rstrip(), *(f"[{note}]" for note in notes)) if part)

    def _file(self) -> Path | None:
        """Where the next picture belongs."""
        self.drawn += 1
        return self.pictures and self.pictures / f"{self.name}-{self.drawn}.png"

    def _execute(self, statement: ast.stmt, *, last: bool) -> None:
        if last and isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), "<cell>", "eval"), self.names)
            if value is not None:
                print(repr(value))
            return
        exec(compile(ast.Module([statement], []), "<cell>", "exec"), self.names)


@contextlib.contextmanager
def _drawing(file: Callable[[], Path | None]) -> Any:
    """Within this block matplotlib draws on no screen. The function that it gives writes the pictures to `file`, where
    that says one, closes them, and tells of each where it is."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        yield list
        return
    before = matplotlib.get_backend()
    matplotlib.use("Agg")
    from matplotlib import pyplot

    def drawn() -> list[str]:
        notes = []
        for number in pyplot.get_fignums():
            place = file()
            if place is not None:
                pyplot.figure(number).savefig(place)
            notes.append(f"a picture: {place}" if place else "a picture, on the site")
        pyplot.close("all")
        return notes

    show, pyplot.show = pyplot.show, lambda *_, **__: None
    try:
        yield drawn
    finally:
        pyplot.show = show
        matplotlib.use(before)
