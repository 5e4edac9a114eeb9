"""The repository's files of code as pages of the site, and the address of the line where a name is defined."""

import ast
import concurrent.futures
import functools
import html
import re

from docs.site.build import ROOT

FOLDERS = ("refnp", "gradcheck", "tests", "examples", "benchmarks")
SUFFIXES = (".py", ".md", ".c", ".js")
PAGES = "_source"
PLAIN = re.compile(r'<span class="[npw]">([^<]*)</span>')  # names, punctuation, spaces: in the colour of the text


def files():
    """The files that have a page, as paths from the root."""
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES)
    return sorted(path.relative_to(ROOT).as_posix() for path in found if "node_modules" not in path.parts)


@functools.cache
def names(path):
    """{name: line} of everything that a file defines: functions, classes, methods as Class.method, and constants."""
    if not path.endswith(".py"):
        return {}
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return dict(_defined(tree.body, ""))


def _defined(body, within):
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            name = f"{within}{node.name}"
            yield name, min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield from _defined(node.body, f"{name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield f"{within}{target.id}", node.lineno
        elif isinstance(node, ast.If | ast.With | ast.Try | ast.For):
            yield from _defined(node.body, within)


def address(target):
    """Where on the site `path` or `path#name` is, from its root; ValueError if there is no such file or name."""
    path, _, name = target.partition("#")
    if path.endswith("/") or (ROOT / path).is_dir():
        folder = path.rstrip("/")
        if not any(file.startswith(f"{folder}/") for file in files()):
            raise ValueError(f"{path} is not a folder that the site shows; it shows {', '.join(FOLDERS)}")
        return f"{PAGES}/index.html#{folder}"
    if path.split("/")[0] not in FOLDERS or not (ROOT / path).is_file():
        raise ValueError(f"{path} is not a file in {', '.join(FOLDERS)}")
    if not path.endswith(SUFFIXES):
        raise ValueError(f"{path} does not end in {', '.join(SUFFIXES)}")
    if not name:
        return f"{PAGES}/{path}.html"
    if name not in names(path):
        raise ValueError(f"{path} does not define {name}")
    return f"{PAGES}/{path}.html#{name}"


def parsed(text):
    """(what is shown, target) of the text of a {source} role: `target` or `shown <target>`."""
    explicit = re.fullmatch(r"(.*\S)\s*<([^<>]+)>", text, re.S)
    return (explicit[1], explicit[2]) if explicit else (None, text)


# ---- the pages


def page(path):
    """The HTML of a file's page: its lines with their numbers, and a place to link to at each line and name."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_for_filename

    text = (ROOT / path).read_text(encoding="utf-8")
    coloured = highlight(text, get_lexer_for_filename(path, stripnl=False), HtmlFormatter(nowrap=True))
    lines = PLAIN.sub(r"\1", coloured).splitlines()
    named = {}
    for name, line in names(path).items():
        named.setdefault(line, []).append(name)
    rows = []
    for number, line in enumerate(lines, 1):
        places = "".join(f'<span class="name" id="{html.escape(name)}"></span>' for name in named.get(number, ()))
        rows.append(f'{places}<span class="line" id="L{number}"><a href="#L{number}">{number:4}</a> {line}\n</span>')
    return around(path, f'<pre class="highlight">{"".join(rows)}</pre>')


def index():
    """The HTML of the page that lists the files, by folder."""
    folders = {}
    for path in files():
        folder, _, name = path.rpartition("/")
        for parent in _parents(folder):
            folders.setdefault(parent, [])
        folders[folder].append(name)
    body = ["<h1>The source</h1>"]
    for folder, found in sorted(folders.items()):
        links = " · ".join(f'<a href="{folder}/{name}.html">{name}</a>' for name in sorted(found))
        body.append(f'<h2 id="{folder}">{folder}/</h2><p>{links}</p>')
    return around("index", "".join(body))


def _parents(folder):
    parts = folder.split("/")
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def around(path, body):
    """A page of the source: small, since there are hundreds; light or dark as Furo's button or the system says."""
    up = "../" * (path.count("/") + 1)
    title = "source" if path == "index" else path
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · refnp</title>
<link rel="stylesheet" href="{up}_static/pygments.css"><link rel="stylesheet" href="{up}_static/source.css"></head>
<body><script>document.body.dataset.theme = localStorage.getItem("theme") || "auto"</script>
<header><a href="{up}index.html">refnp</a> / <a href="{up}{PAGES}/index.html">source</a> / <b>{title}</b></header>
<main>{body}</main></body></html>
"""


def write_pages(app, exception):
    if exception is not None or app.builder.format != "html":
        return
    folder = app.outdir / PAGES
    with concurrent.futures.ProcessPoolExecutor(app.parallel) as pool:
        for path, text in zip(files(), pool.map(page, files(), chunksize=8), strict=True):
            target = folder / f"{path}.html"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    (folder / "index.html").write_text(index(), encoding="utf-8")


def setup(app):
    app.connect("build-finished", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
