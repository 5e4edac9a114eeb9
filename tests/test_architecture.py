"""The rules of the architecture: who may import whom, and that every public thing says what it is."""

import ast
import functools
import sys
from graphlib import TopologicalSorter
from pathlib import Path

from tests.helpers import of_every

ROOT = Path(__file__).parents[1]
FILES = sorted(path for package in ("refnp", "gradcheck") for path in (ROOT / package).rglob("*.py"))
CHAPTERS = [
    "version",
    "files",
    "signals",
    "progress",
    "pieces",
    "numbers",
    "kernels",
    "autograd",
    "layers",
    "models",
    "tasks",
    "training",
    "symmetry",
    "verify",
    "testing",
    "formulas",
    "studies",
    "claims",
    "figures",
    "course",
    "cli",
]  # imports go left
FRAMEWORKS = ROOT / "refnp" / "verify" / "frameworks"
GRADIENTS_OF_PYTORCH = ROOT / "gradcheck" / "adapters.py"
CLAIMS_ABOUT_FRAMEWORKS = ROOT / "refnp" / "symmetry" / "frameworks.py"
OPTIONAL = {"distributed", "hypothesis", "matplotlib", "ml_dtypes", "mpmath", "pylatexenc", "rich", "safetensors"}
every_file = of_every(FILES)


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree, *, inside_functions):
    """Full names of what is imported, at the top of a module or inside its functions; never under TYPE_CHECKING."""
    found = []

    def visit(node, in_function):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if in_function == inside_functions:
            if isinstance(node, ast.Import):
                found.extend(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, "imports are absolute"
                found.extend(f"{node.module}.{alias.name}" for alias in node.names)
        function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            visit(child, in_function or function)

    visit(tree, False)
    return found


@functools.cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def all_imports(path):
    return [name for inside in (False, True) for name in imports(parsed(path), inside_functions=inside)]


def chapter(name):
    """The place of a module of refnp in the list of chapters; the package itself, which shows all, stands last."""
    parts = name.split(".")
    return CHAPTERS.index(parts[1]) if len(parts) > 1 and parts[1] in CHAPTERS else len(CHAPTERS)


def violations(path, source_imports):
    """The imports of a file of refnp that go up the list, or out of it."""
    own = chapter(module_name(path))
    return [name for name in source_imports if name.split(".")[0] == "refnp" and chapter(name) > own]


@every_file
def test_imports_go_down_the_chapters(path):
    if path.is_relative_to(ROOT / "refnp"):
        assert violations(path, all_imports(path)) == []


def test_an_import_that_goes_up_is_noticed():
    page = ROOT / "refnp" / "layers" / "softmax.py"
    assert violations(page, ["refnp.autograd.primitives", "numpy"]) == []
    assert violations(page, ["refnp.models.vision.ViT", "refnp.Tensor"]) == ["refnp.models.vision.ViT", "refnp.Tensor"]


@every_file
def test_run_time_needs_numpy_alone(path):
    """Whatever is imported at the top is Python's, NumPy, or ours. Inside functions eight more may be used."""
    ours = {"numpy", "refnp", "gradcheck", *sys.stdlib_module_names}
    top = {name.split(".")[0] for name in imports(parsed(path), inside_functions=False)}
    assert top <= ours
    inside = {name.split(".")[0] for name in imports(parsed(path), inside_functions=True)}
    if path == CLAIMS_ABOUT_FRAMEWORKS:
        assert inside <= ours | {"torch", "jax"}
    elif path == GRADIENTS_OF_PYTORCH:
        assert inside <= ours | {"torch"}
    elif not path.is_relative_to(FRAMEWORKS):
        assert inside <= ours | OPTIONAL


@every_file
def test_gradcheck_stands_alone(path):
    """It knows nothing of refnp, but that its command prints the table of refnp's operations."""
    if path.is_relative_to(ROOT / "gradcheck") and path.name != "__main__.py":
        assert [name for name in all_imports(path) if name.split(".")[0] == "refnp"] == []


@every_file
def test_symmetry_knows_no_model(path):
    if path.is_relative_to(ROOT / "refnp" / "symmetry"):
        others = [
            name for name in all_imports(path) if name.startswith("refnp") and not name.startswith("refnp.symmetry")
        ]
        assert [
            name
            for name in others
            if not name.startswith(("refnp.autograd", "refnp.numbers.indexed", "refnp.numbers.kinds", "refnp.progress"))
        ] == []


def test_the_tensor_knows_no_operation():
    names = [name for name in all_imports(ROOT / "refnp" / "autograd" / "tensor.py") if name.startswith("refnp")]
    assert [name for name in names if not name.startswith(("refnp.numbers.kinds", "refnp.numbers.within"))] == []


def test_no_module_needs_itself():
    """Imports have no circle, those inside functions included."""
    names = {module_name(path) for path in FILES}

    def needed(name):
        while name not in names and "." in name:
            name = name.rpartition(".")[0]
        return name

    graph = {}
    for path in FILES:
        own = module_name(path)
        graph[own] = {needed(name) for name in all_imports(path)} & (names - {own})
    assert set(TopologicalSorter(graph).static_order()) >= names  # raises CycleError, which names the circle


def public_definitions(tree):
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [node for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]


def is_primitive(node):
    return isinstance(node, ast.FunctionDef) and any(
        ast.unparse(d).split(".")[-1] == "primitive" for d in node.decorator_list
    )


@every_file
def test_modules_and_what_is_public_in_them_have_docstrings(path):
    tree = parsed(path)
    if tree.body:
        assert ast.get_docstring(tree), "the module has no docstring"
    assert [node.name for node in public_definitions(tree) if not ast.get_docstring(node)] == []


@every_file
def test_docstrings_of_primitives_give_their_vjp(path):
    primitives = [node for node in public_definitions(parsed(path)) if is_primitive(node)]
    assert [node.name for node in primitives if "VJP" not in (ast.get_docstring(node) or "")] == []


def test_primitives_are_found_where_they_are():
    """The rule above would hold for an empty list as well."""
    tree = parsed(ROOT / "refnp" / "autograd" / "elementary.py")
    assert {"add", "power", "tanh"} <= {node.name for node in public_definitions(tree) if is_primitive(node)}
