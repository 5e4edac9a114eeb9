"""What a function takes, as `inspect` finds it or as its documentation begins."""

import ast
import inspect
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Parameters:
    """What a function takes: its parameters in order (None if it does not say), and what else it takes."""

    names: list[str] | None
    kinds: dict[str, inspect.Parameter] = field(default_factory=dict)
    any_array: bool = False  # *arrays
    any_option: bool = False  # **options

    @classmethod
    def of(cls, function: Callable) -> "Parameters":
        """As `inspect` finds them."""
        signature = signature_of(function)
        if signature is None:
            return cls(None, any_array=True, any_option=True)
        kinds = {p.name: p for p in signature.parameters.values()}
        star = {p.kind for p in kinds.values()}
        plain = [n for n, p in kinds.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        any_array, any_option = inspect.Parameter.VAR_POSITIONAL in star, inspect.Parameter.VAR_KEYWORD in star
        return cls(plain, kinds, any_array, any_option)

    def takes(self, name: str) -> bool:
        """Whether it may be given by this name."""
        return name in (self.names or ()) or (self.any_option and self.names is not None)

    def required(self, name: str) -> bool:
        """Whether a call must give this one."""
        return self.kinds[name].default is inspect.Parameter.empty

    def by_place(self, name: str) -> bool:
        """Whether it may be given by its place."""
        return self.kinds[name].kind is not inspect.Parameter.KEYWORD_ONLY

    def only_by_place(self, name: str) -> bool:
        """Whether it may not be given by its name."""
        return self.kinds[name].kind is inspect.Parameter.POSITIONAL_ONLY


def signature_of(function: Callable) -> inspect.Signature | None:
    """What a function takes; of one of C, or one that passes everything on, what its documentation says.

    That begins with it, and may have more of it, such as a sum of everything and then one along an axis: the one that
    takes most is meant. What must be given goes by its place there, since it may be called otherwise.
    """
    try:
        found = inspect.signature(function)
    except (ValueError, TypeError):
        found = None
    passed_on = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    if found is not None and {parameter.kind for parameter in found.parameters.values()} != passed_on:
        return found
    text = getattr(function, "__doc__", None) or ""
    written = [parsed(parameters) for parameters in re.findall(WRITTEN, text, re.M)]
    documented = [signature for signature in written if signature is not None]
    return by_place(max(documented, key=lambda signature: len(signature.parameters))) if documented else found


WRITTEN = r"(?:\A\s*|^\s*\.\. function:: )[\w.]+(\([^()]*(?:\([^()]*\)[^()]*)*\))"  # (input, dim=-1)


def parsed(parameters: str) -> inspect.Signature | None:
    """The signature that is written so; None for what is none."""
    try:
        scope: dict[str, Any] = {}
        tree = ast.parse(f"def documented{parameters}: ...")
        for argument in ast.walk(tree):
            if isinstance(argument, ast.arguments):
                argument.defaults = [plain_default(default) for default in argument.defaults]
                argument.kw_defaults = [plain_default(default) for default in argument.kw_defaults]
            if isinstance(argument, ast.arg):
                argument.annotation = None  # a name that may not be there
        exec(compile(ast.fix_missing_locations(tree), "<documentation>", "exec"), {}, scope)
        return inspect.signature(scope["documented"])
    except SyntaxError:
        return None


def by_place(signature: inspect.Signature) -> inspect.Signature:
    """The signature whose first parameters, those without a default, are given by their places alone."""
    parameters = list(signature.parameters.values())
    plain = lambda p: p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    first = len(list(itertools.takewhile(plain, parameters)))
    given = [p.replace(kind=p.POSITIONAL_ONLY) for p in parameters[:first]]
    return signature.replace(parameters=[*given, *parameters[first:]])


def plain_default(node: ast.expr | None) -> ast.expr:
    """A default of the documentation, if it is a plain value; None for anything that would have to be computed.

    And for what must be named and has no default there, such as `out: Optional[Tensor]`.
    """
    try:
        ast.literal_eval(node or "?")
    except (ValueError, SyntaxError):
        return ast.Constant(None)
    assert node is not None
    return node
