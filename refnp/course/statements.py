"""Which statements of cells that are not shown a cell needs, so that what is shown runs when it is copied."""

import ast
import builtins
import copy
import symtable
from typing import Any, NamedTuple


class Statement(NamedTuple):
    """A statement of a cell: its text, the names that it binds, and those of other statements that it uses.

    `changes` is the name of an object that it changes without binding a name, as `np.set_printoptions(…)` does.
    """

    text: str
    binds: frozenset[str]
    uses: frozenset[str]
    changes: str


class Statements:
    """The statements of cells that were not shown, in their order."""

    def __init__(self) -> None:
        self.unseen: list[Statement] = []

    def add(self, cell: str) -> None:
        """A cell that is not shown."""
        self.unseen += statements(cell)

    def needed(self, cell: str) -> str:
        """The statements that a cell needs before it, as text; they and the cell itself count as shown from now on."""
        wanted: set[str] = set()
        bound: set[str] = set()
        for statement in statements(cell):
            wanted |= statement.uses - bound
            bound |= statement.binds
        taken: list[Statement] = []
        known = 0
        while known < len(wanted):  # a function may use what is bound after it
            known = len(wanted)
            taken = [s for s in self.unseen if s.binds & wanted or s.changes in wanted]
            wanted = wanted.union(*(statement.uses for statement in taken))
        rest = (s._replace(binds=s.binds - bound) for s in self.unseen if s not in taken)
        self.unseen = [s for s in rest if s.binds or s.changes]
        return "\n".join(statement.text for statement in taken)


def statements(cell: str) -> list[Statement]:
    """The statements of a cell."""
    found = []
    for node in ast.parse(cell).body:
        first = [decorator.lineno for decorator in getattr(node, "decorator_list", [])]
        text = "\n".join(cell.split("\n")[min([node.lineno, *first]) - 1 : node.end_lineno])
        uses, binds = _names([node])
        found.append(Statement(text, frozenset(binds), frozenset(uses - set(dir(builtins))), _changed(node)))
    return found


def _names(nodes: list[Any]) -> tuple[set[str], set[str]]:
    """The names that statements use before they bind them themselves, and those that they bind."""
    uses: set[str] = set()
    binds: set[str] = set()
    for node in nodes:
        blocks = [*(getattr(node, name, []) for name in ("body", "orelse", "finalbody"))]
        if isinstance(node, (ast.For, ast.While, ast.If, ast.With, ast.Try)):
            head = _head(node)
            blocks += [handler.body for handler in getattr(node, "handlers", [])]
        else:
            head, blocks = ast.unparse(node), []
        table = symtable.symtable(head, "<cell>", "exec")
        used = {s.get_name() for s in table.get_symbols() if s.is_referenced()} | _globals(table)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            used.add(node.target.id)
        uses |= used - binds
        binds |= {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}
        for block in blocks:
            inner, bound = _names(block)
            uses |= inner - binds
            binds |= bound
    return uses, binds


def _head(node: Any) -> str:
    """A statement without its blocks."""
    if isinstance(node, ast.Try):
        return "\n".join(ast.unparse(handler.type) for handler in node.handlers if handler.type)
    short = copy.copy(node)
    short.body = [ast.Pass()]
    if hasattr(short, "orelse"):
        short.orelse = []
    return ast.unparse(short)


def _globals(table: symtable.SymbolTable) -> set[str]:
    """The names that functions and classes of a block take from the cells."""
    found = set()
    for child in table.get_children():
        found |= {s.get_name() for s in child.get_symbols() if s.is_global()} | _globals(child)
    return found


def _changed(node: ast.stmt) -> str:
    """The object whose method or function is called, or of which a part is assigned to; "" for other statements."""
    target: ast.AST = node
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        target = node.value.func
    elif isinstance(node, ast.Assign):
        target = node.targets[0]
    elif isinstance(node, ast.AugAssign):
        target = node.target
    if not isinstance(target, (ast.Attribute, ast.Subscript)):
        return ""
    while isinstance(target, (ast.Attribute, ast.Subscript)):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""
