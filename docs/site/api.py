"""The API on the site, made from the docstrings into docs/api when the site is built.

One page for each package, one section for each file: what the file says in one sentence, its equations (the indented
lines of its docstring), and of every public name the signature, the first sentence, equations, shapes, and
what it declares that it takes.
"""

import ast
import functools
import importlib
import inspect
import json
import pathlib
import re
import shutil
from operator import attrgetter

from docs.site.build import DOCS, ROOT

FOLDER = DOCS / "api"
PACKAGES = (
    "refnp",
    "refnp.autograd",
    "refnp.layers",
    "refnp.models",
    "refnp.tasks",
    "refnp.training",
    "refnp.symmetry",
    "refnp.symmetry.testing",
    "refnp.verify",
    "refnp.studies",
    "refnp.figures",
    "gradcheck",
)
OURS = ("refnp", "gradcheck")


def public_names(package):
    """What a package offers: its `__all__`, in alphabetical order; of a module in it the functions and classes."""
    found = []
    for name in package.__all__:
        value = getattr(package, name)
        if not inspect.ismodule(value):
            found.append(name)
        elif value.__name__ not in PACKAGES:
            own = (member for member in vars(value).values() if getattr(member, "__module__", "") == value.__name__)
            found += [f"{name}.{member.__name__}" for member in own if member.__name__[0] != "_"]
    return sorted(found)


def file_of(package, name):
    """The file that defines a public name, relative to the root; that of a constant is found by reading imports."""
    value = attrgetter(name)(package)
    module = getattr(value, "__module__", "")
    if (inspect.isroutine(value) or inspect.isclass(value)) and module.split(".")[0] in OURS:
        return relative(inspect.unwrap(value).__module__)
    return relative(_imported_from(package.__name__, name))


def _imported_from(module, name):
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name and node.module.split(".")[0] in OURS:
                    return _imported_from(node.module, alias.name)
    return module


def relative(module):
    return pathlib.Path(importlib.import_module(module).__file__).relative_to(ROOT).as_posix()


# ---- what a docstring says


def paragraphs(text):
    return re.split(r"\n\s*\n", inspect.cleandoc(text or ""))


def first_sentence(text):
    """The first sentence of a docstring, on one line; of "Title: x = 1." all of it."""
    first = " ".join(paragraphs(text)[0].split())
    end = re.search(r"(?<!e\.g)(?<!i\.e)(?<!cf)(?<!eq)[.?!](?=\s|$)", first)
    return first[: end.end()] if end else first


def equations(text):
    """The paragraphs of a docstring that are indented: its equations, pictures and tables, as they stand there."""
    blocks = paragraphs(text)[1:]
    return "\n\n".join(block for block in blocks if all(line.startswith("    ") for line in block.split("\n")))


def gradient(text):
    """What stands after "VJP" in its paragraph, on one line, and where it begins; ("", the end) if nothing does."""
    text = inspect.cleandoc(text or "")
    labels = r"Raises|Source|Elsewhere|Shapes|Transcription"
    found = re.search(rf"\bVJP\b.*?(?=\n\s*\n|   (?:{labels})\b|\n(?:{labels})\b|\Z)", text, re.S)
    return (" ".join(found[0].split()), found.start()) if found else ("", len(text))


def shapes(text):
    """What stands after "Shapes:", up to the end of that sentence."""
    found = re.search(r"\bShapes?: (.*?)(?:(?<!\.\.)\.(?=\s|$)|(?=\n\s*\n)|\Z)", inspect.cleandoc(text or ""), re.S)
    return " ".join(found[1].split()) if found else ""


# ---- what a signature says


def shown(value):
    """A default as it would be written: functions, classes and modules by name, no address in memory."""
    if inspect.isfunction(value) or inspect.isclass(value) or inspect.isbuiltin(value):
        return value.__name__
    if isinstance(value, tuple):
        return "(" + ", ".join(map(shown, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    text = repr(value)
    if text == "<factory>":  # of a dataclass: a new dict or list
        return "…"
    return f"{type(value).__name__}(…)" if " at 0x" in text or len(text) > 60 else text


def signature(name, value):
    """`name(a, b=1, *, c)`: the arguments and their defaults, without types."""
    try:
        parameters = [p for p in inspect.signature(value).parameters.values() if p.name != "self"]
    except (TypeError, ValueError):
        return name
    parts, before = [], None
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and before not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            parts.append("*")
        if before is p.POSITIONAL_ONLY and p.kind is not p.POSITIONAL_ONLY:
            parts.append("/")
        text = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name
        parts.append(text if p.default is p.empty else f"{text}={shown(p.default)}")
        before = p.kind
    if before is inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    return f"{name}({', '.join(parts)})"


def own_methods(cls):
    """The public methods and properties that a class has from classes of ours, except those of every Module."""
    common = {
        "Module",
        "object",
        "Exception",
        "BaseException",
        "ValueError",
        "AssertionError",
        "Protocol",
        "Generic",
        "ABC",
    }
    found = {}
    for base in cls.__mro__:
        if (base.__name__ in common and base is not cls) or base.__module__.split(".")[0] not in OURS:
            continue
        for name, value in vars(base).items():
            if (not name.startswith("_") or name == "__call__") and (
                callable(value) or isinstance(value, (property, classmethod, staticmethod))
            ):
                found.setdefault(name, value)
    return {name: found[name] for name in sorted(found)}


# ---- a page


@functools.cache
def page(package_name):
    """The text of one page of docs/api."""
    package = importlib.import_module(package_name)
    files = {}
    for name in public_names(package):
        files.setdefault(file_of(package, name), []).append(name)
    lines = [
        f"# {package_name}",
        "",
        first_sentence(package.__doc__),
    ]
    for file in sorted(files):
        path = package_name.replace(".", "/")
        inside = file.startswith(f"{path}/") and (package_name != "refnp" or file.count("/") == 1)
        own = inside or file == f"{path}.py"
        lines += section(package, file, files[file]) if own else elsewhere(file, files[file])
    return "\n".join(lines) + "\n"


def elsewhere(file, names):
    """Names that another package defines: where their description stands."""
    home = max((name for name in PACKAGES if file.startswith(name.replace(".", "/") + "/")), key=len)
    link = f"[{home}]({home.replace('.', '-')}.md)"
    return ["", f"From {link}, [{file}](../../{file}): " + ", ".join(f"`{name}`" for name in names) + "."]


def section(package, file, names):
    module = importlib.import_module(file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    lines = ["", f"## [{file}](../../{file})"]
    if module is not package:
        lines += ["", first_sentence(module.__doc__), *fenced(equations(module.__doc__))]
    for name in names:
        lines += entry(name, attrgetter(name)(package), file)
    return lines


def entry(name, value, file):
    if not (inspect.isroutine(value) or inspect.isclass(value)) or value.__module__.split(".")[0] not in OURS:
        return ["", f"### {name}", *fenced(assigned(name, file))]
    text = inspect.getdoc(value) if not inspect.isclass(value) or "__doc__" in vars(value) else ""
    lines = ["", f"### {name}", "", "```text", signature(name, value), "```", "", first_sentence(text)]
    vjp, start = gradient(text)
    head, tail = inspect.cleandoc(text or "")[:start], inspect.cleandoc(text or "")[start:]
    lines += fenced(equations(head))
    declared = {"Takes": value} if not inspect.isclass(value) else {"Made of": value.__init__, "Takes": value.__call__}
    stated = {word: str(thing.takes) for word, thing in declared.items() if hasattr(thing, "takes")}
    lines += [line for word, said in stated.items() for line in ("", f"{word}: `{said}`.")]
    if sentence := shapes(text):
        lines += ["", f"Shapes: {sentence}."]
    if vjp and not inspect.isclass(value):
        lines += ["", vjp]
    lines += fenced(equations(tail))
    if inspect.isclass(value):
        lines += methods(value)
    return lines


def assigned(name, file):
    """The statement of a file that gives a name its value: of a constant, or of a type under another name."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return ast.unparse(node)
    raise ValueError(f"{file} does not assign {name}")


def methods(cls):
    lines = []
    for name, value in own_methods(cls).items():
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        said = first_sentence(function.__doc__) if inspect.isfunction(function) else ""
        head = (
            name
            if isinstance(value, property)
            else signature(name, getattr(cls, name) if not inspect.isfunction(value) else value)
        )
        lines.append(f"- `{head}`" + (f": {said}" if said else ""))
    return ["", *lines] if lines else []


def fenced(text):
    return ["", "```text", text, "```"] if text else []


def pages():
    """{path of a page: its text}, with the index first."""
    made = {FOLDER / f"{name.replace('.', '-')}.md": page(name) for name in PACKAGES}
    index = [
        "# The API",
        "",
        "Every public name of refnp and gradcheck, by package.",
        "",
    ]
    for name in PACKAGES:
        package = importlib.import_module(name)
        index.append(
            f"- [{name}]({name.replace('.', '-')}.md): " + ", ".join(f"`{public}`" for public in public_names(package))
        )
    return {FOLDER / "README.md": "\n".join(index) + "\n"} | made


def write():
    """The pages as files, which git ignores."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
