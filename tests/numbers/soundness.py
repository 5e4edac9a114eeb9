"""Is a wrong gradient ever proved? Every edit of one operation of every page, beside the complex step at drawn numbers.

    python -m tests.numbers.soundness [PAGE]      all edits; tests/numbers/test_soundness.py tries some of each page

An edit takes another operator, one operand alone, another name or number, or leaves out a function or a transposition.
"""

import ast
import collections
import copy
import importlib
import inspect
import random
import sys
import time
import warnings

import numpy as np

from refnp.numbers.indexed.proving import gradients
from refnp.verify import theorems
from refnp.verify.layers import cases_of_layers

OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)


def pages():
    """{name: (module, name of the function, operation)} of every layer that is a page."""
    found = {}
    for case in cases_of_layers():
        operation = case.layer.function
        if hasattr(operation, "page") and theorems.forms_of(operation):
            function = inspect.unwrap(operation.page)
            found[case.layer.name] = sys.modules[function.__module__], function.__name__, operation
    return found


def edits(node, names):
    """What may stand in the place of a node."""
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, OPERATORS):
            yield from (ast.BinOp(node.left, op(), node.right) for op in OPERATORS if not isinstance(node.op, op))
        if isinstance(node.op, ast.MatMult):
            yield ast.BinOp(node.right, node.op, node.left)
        yield from (node.left, node.right)
    if isinstance(node, ast.UnaryOp):
        yield node.operand
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        if called.endswith(".mean"):
            yield ast.Call(ast.Attribute(node.func.value, "sum", ast.Load()), node.args, node.keywords)
        if called.startswith("np.") and node.args and not called.endswith("where"):
            yield node.args[0]
        if called == "np.where":
            yield ast.Call(node.func, [node.args[0], node.args[2], node.args[1]], [])
            yield from node.args[1:]
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield from (ast.Constant(node.value + 1), ast.UnaryOp(ast.USub(), node))
    if isinstance(node, ast.Attribute) and node.attr == "mT":
        yield node.value
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield ast.Compare(node.comparators[0], node.ops, [node.left])
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        yield from (ast.Name(name, ast.Load()) for name in names if name != node.id)


def spots(tree, functions):
    """The nodes of these functions with the way to each, but for decorators, docstrings and signatures."""

    def visit(node, way):
        for field, value in ast.iter_fields(node):
            if field in ("decorator_list", "returns", "ctx") or isinstance(value, ast.arguments):
                continue
            for k, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(child, ast.AST):
                    yield child, (*way, (field, k))
                    yield from visit(child, (*way, (field, k)))

    for k, node in enumerate(tree.body):
        if isinstance(node, ast.FunctionDef) and node.name in functions:
            names = sorted({n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)})
            names += [a.arg for a in node.args.args]
            for child, way in visit(node, (("body", k),)):
                yield child, way, names


def used(tree, name):
    """The functions of the module that a function uses, itself among them."""
    every = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found, left = set(), [name]
    while left:
        one = left.pop()
        if one in every and one not in found:
            found.add(one)
            left += [n.id for n in ast.walk(every[one]) if isinstance(n, ast.Name)]
    return found


def variants(module, name):
    """(what is edited, the page that then is) for every edit."""
    tree = ast.parse(inspect.getsource(module))
    functions = used(tree, name)
    for node, way, names in spots(tree, functions):
        for new in edits(node, names):
            other = copy.copy(tree)
            edited = copy.deepcopy(tree.body[way[0][1]])
            other.body = [*tree.body[: way[0][1]], edited, *tree.body[way[0][1] + 1 :]]
            at = edited
            for field, k in way[1:-1]:
                at = getattr(at, field) if k is None else getattr(at, field)[k]
            field, k = way[-1]
            if k is None:
                setattr(at, field, copy.deepcopy(new))
            else:
                getattr(at, field)[k] = copy.deepcopy(new)
            yield f"{ast.unparse(node)} → {ast.unparse(new)}", other


def made(module, tree, name):
    """The page of an edited module, or None where it does not come to be."""
    scope = {"__name__": module.__name__, "__file__": module.__file__}
    try:
        exec(compile(ast.fix_missing_locations(tree), "edited", "exec"), scope)
    except Exception:
        return None
    return getattr(scope[name], "page", None)


def verdict_of(page, form, argument):
    """Whether a gradient is "right" or "wrong" beside the complex step at drawn numbers.

    "no numbers" where there were none that are finite, "refused" where NumPy takes none.
    """
    found = "refused"
    for seed in range(4):
        arrays, options = theorems.numbers_of(form, seed, longest=4)
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                off = difference(page, arrays, options, argument, seed)
        except Exception:
            continue
        if off > 1e-6:
            return "wrong"
        if found != "right":
            found = "right" if np.isfinite(off) else "no numbers"
    return found


def is_found_out(page, form, argument):
    """Whether the field refuses a theorem, as `refnp prove` asks it: one whose assumptions no number satisfies."""
    try:
        theorems.refuse_false(page, form, [argument])
    except AssertionError:
        return True
    return False


def difference(page, arrays, options, argument, seed):
    """|ȳ·J v − x̄·v| over what is large of both."""
    rng = np.random.default_rng(seed)
    y, vjp = page(*arrays.values(), **options)
    several = y if isinstance(y, tuple) else (y,)
    bars = [rng.normal(size=one.shape) for one in several]
    v = rng.normal(size=arrays[argument].shape)
    bar = np.asarray(vjp(*bars)[list(arrays).index(argument)])
    if np.broadcast_shapes(bar.shape, v.shape) != bar.shape:
        return 1.0
    moved = dict(arrays) | {argument: arrays[argument] + 1e-30j * v}
    z = page(*moved.values(), **options)[0]
    forward = sum(
        (one.imag / 1e-30 * b).sum() for one, b in zip(z if isinstance(z, tuple) else (z,), bars, strict=True)
    )
    back = (bar * v).sum()
    return abs(forward - back) / max(1e-3, abs(forward), abs(back))


def tried(name, module, function, operation, count=None, seed=0):
    """Counter of verdicts on the edits of a page, or on so many that are drawn; and those that are wrong and proved."""
    counts, unsound = collections.Counter(), []
    every = list(variants(module, function))
    if count is not None and count < len(every):
        every = random.Random(f"{name} {seed}").sample(every, count)
    forms = list(theorems.of_page(operation.page, theorems.forms_of(operation)))
    forms = [form for form in forms if form.name in ("usual", "with all")] or forms[:1]
    for what, tree in every:
        page = made(module, tree, function)
        if page is None:
            counts["no page"] += 1
            continue
        for form in forms[-1:]:
            try:
                known = gradients(page, form.arguments, **form.options)
            except Exception:  # an edit may be any program
                counts["no theorem"] += 1
                continue
            for argument, theorem in known.items():
                verdict = verdict_of(page, form, argument)
                counts[f"{verdict}, {'proved' if theorem else 'not proved'}"] += 1
                if theorem and verdict == "wrong" and not is_found_out(page, form, argument):
                    unsound.append((name, argument, what, verdict, theorem.assumptions))
    return counts, unsound


def main(names):
    """All edits of the pages named, or of all."""
    total = collections.Counter()
    for name, (module, function, operation) in pages().items():
        if names and name not in names:
            continue
        start = time.perf_counter()
        counts, unsound = tried(name, importlib.import_module(module.__name__), function, operation)
        total += counts
        print(f"{name:24s}{dict(counts)}  {time.perf_counter() - start:.0f} s", flush=True)
        for line in unsound:
            print("   ", *line)
    print(f"{'all':24s}{dict(total)}")


if __name__ == "__main__":
    main(sys.argv[1:])
