"""Is a wrong gradient ever proved? Every edit of one place of every page, beside the complex step at drawn numbers.

    python -m tests.numbers.soundness [PAGE]      all edits; tests/numbers/test_soundness.py tries some of each page
    python -m tests.numbers.soundness --claims    symmetries of edited softmax, norms, attention and set convolution

Edits are those by which causes are found (refnp/verify/edits/variants.py): what each line might have been.
"""

import collections
import random
import sys
import time
import warnings

import numpy as np

from refnp import layers
from refnp.autograd.pages import of_each_axis
from refnp.numbers.indexed.proving import gradients
from refnp.numbers.indexed.terms import assuming
from refnp.symmetry import Negate, Permute, Repeat, Scale, Select, Translate, Trivial, equivariant, prove
from refnp.symmetry.judge import discrepancy
from refnp.verify import mutants, theorems  # noqa: F401   mutants import edits, which are not to be imported before
from refnp.verify.edits.edited import KNOWN_WORDS, form_of
from refnp.verify.edits.opened import Opened
from refnp.verify.edits.variants import edits_of
from refnp.verify.layers import cases_to_ask

DRAWN = 3  # sizes and numbers at which an edit is tried


def pages():
    """{name: operation} of every layer that is a page, and takes what there are rules for."""
    functions = {case.layer.name: getattr(layers, case.layer.name, case.layer.function) for case in cases_to_ask()}
    return {name: of for name, of in functions.items() if hasattr(of, "page") and theorems.forms_of(of)}


def variants(operation, *, vjps=True):
    """(where and what, the page that then is) for every edit of a page and of what it uses, of VJPs too if `vjps`."""
    opened = Opened.of(operation)
    for part in opened.all():
        for edit in edits_of(part):
            if edit.of_pullback and not vjps:
                continue
            try:
                page = opened.compiled({part.function: edit.tree}, KNOWN_WORDS)
            except SyntaxError:
                continue
            yield edit.where, of_each_axis(form_of(operation, page), operation.takes)


def draws_of(page, form):
    """Arguments and options that the page takes."""
    found = []
    for seed in range(40):
        given = theorems.numbers_of(form, seed, longest=3 + seed // 4)
        if len(found) < DRAWN and verdict_at(page, given, form, seed) == "right":
            found.append((seed, given))
    return found


def verdict_at(page, given, form, seed, argument=None):
    """Of one draw: "right", "wrong", "no numbers" or "refused", of one gradient or of all."""
    arrays, options = given
    names = [argument] if argument else [name for name, x in arrays.items() if np.asarray(x).dtype.kind == "f"]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            off = max(difference(page, arrays, options, name, seed) for name in names)
        except Exception:  # an edit may be any program
            return "refused"
    return "wrong" if off > 1e-6 else "right" if np.isfinite(off) else "no numbers"


def verdict_of(page, form, argument, draws):
    """ "wrong" if it is at any draw; else the best that is known."""
    found = {verdict_at(page, given, form, seed, argument) for seed, given in draws}
    return next(verdict for verdict in ("wrong", "right", "no numbers", "refused") if verdict in found | {"refused"})


def is_found_out(page, form, argument):
    """Whether the field refuses a theorem, as `refnp prove` asks it: one whose assumptions no number satisfies."""
    try:
        theorems.refuse_false(page, form, [argument])
    except AssertionError:
        return True
    return False


def difference(page, arrays, options, argument, seed):
    """|ȳ·J v − x̄·v| over what is large of both; TypeError for what is no array of numbers."""
    rng = np.random.default_rng(seed)
    y, vjp = page(*arrays.values(), **options)
    several = [np.asarray(one) for one in (y if isinstance(y, tuple) else (y,))]
    bars = [rng.normal(size=one.shape) for one in several]
    if any(one.dtype.kind == "f" and np.isnan(one).any() for one in several):
        return np.nan  # where complex numbers have a value, as the logarithm of a negative one
    v = rng.normal(size=arrays[argument].shape)
    bar = vjp(*bars)[list(arrays).index(argument)]
    bar = np.asarray(bar() if callable(bar) else bar)
    z = page(*(dict(arrays) | {argument: arrays[argument] + 1e-30j * v}).values(), **options)[0]
    moved = [np.asarray(one) for one in (z if isinstance(z, tuple) else (z,))]
    if any(a.dtype.kind not in "fciu" for a in (bar, *several, *moved)):
        raise TypeError("no array of numbers")
    if np.broadcast_shapes(bar.shape, v.shape) != bar.shape:
        return 1.0
    forward = sum((one.imag / 1e-30 * b).sum() for one, b in zip(moved, bars, strict=True))
    back = (bar * v).sum()
    return abs(forward - back) / max(1e-3, abs(forward), abs(back))


def tried(name, operation, count=None, seed=0):
    """Counter of verdicts on the edits of a page, or on so many that are drawn; and those that are wrong and proved."""
    counts, unsound = collections.Counter(), []
    every = list(variants(operation))
    if count is not None and count < len(every):
        every = random.Random(f"{name} {seed}").sample(every, count)
    forms = list(theorems.of_page(operation.page, theorems.forms_of(operation)))
    form = next((form for form in forms if form.name == "with all"), forms[0])
    draws = draws_of(operation.page, form)
    for what, page in every:
        try:
            known = gradients(theorems.abstract(page), form.arguments, **form.options)
        except Exception:  # an edit may be any program
            counts["no theorem"] += 1
            continue
        for argument, theorem in known.items():
            verdict = verdict_of(page, form, argument, draws)
            counts[f"{verdict}, {'proved' if theorem else 'not proved'}"] += 1
            if theorem and verdict == "wrong" and not is_found_out(page, form, argument):
                unsound.append((name, argument, what, theorem.assumptions))
    return counts, unsound


SETS = {"key": 0, "value": 0}
FEATURES = ((Permute("x"), Permute()), (Negate("x"), Negate()), (Translate("x", axis=None), Trivial()))
CLAIMED = {  # the shapes of arguments, and symmetries that pages have; what an edited page has of them is to be seen
    "softmax": ("x (n, d)", FEATURES),
    "layer_norm": ("x (n, d)", FEATURES),
    "rms_norm": ("x (n, d)", FEATURES),
    "attention": (
        "query (n, 2), key (m, 2), value (m, 1)",
        (
            (Permute(SETS), Trivial()),
            (Repeat(SETS, alike=True), Trivial()),
            (Select("query", 0), Select(axis=0)),
            (Translate("key"), Trivial()),
            (Scale("value"), Scale()),
        ),
    ),
    "set_convolution": (
        "target_x (n, 1), context_x (m, 1), context_y (m, 1), length_scale (2)",
        (
            (Permute({"context_x": 0, "context_y": 0}), Trivial()),
            (Select("target_x", 0), Select(axis=0)),
            (Translate(("target_x", "context_x")), Trivial()),
            (Negate(("target_x", "context_x")), Trivial()),
        ),
    ),
}
PRODUCTS = 3_000  # formed for one proof of a claim


def claims_tried(name, count=None, seed=0):
    """Counter of verdicts on symmetries of edited pages, all or some; and of those that fail and are proved."""
    shapes, symmetries = CLAIMED[name]
    operation, counts, unsound = pages()[name], collections.Counter(), []
    every = list(variants(operation, vjps=False))
    if count is not None and count < len(every):
        every = random.Random(f"{name} {seed}").sample(every, count)
    for what, page in [("as it is", operation.page), *every]:
        for action, out in symmetries:
            claim = equivariant(lambda page=page, **x: page(**x)[0], action, out, name=name)
            fails = fails_at_numbers(claim, shapes)
            with assuming() as limits:
                limits.most = PRODUCTS
                try:
                    proof = prove(claim, shapes, in_steps=True) or prove(claim, shapes)
                except Exception:  # an edit may be any program
                    proof = None
            counts[f"{'fails' if fails else 'holds'}, {'proved' if proof else 'not proved'}"] += 1
            if proof and fails:
                unsound.append((name, str(action), what, proof.assumptions))
    return counts, unsound


def fails_at_numbers(claim, shapes):
    """Whether drawn numbers contradict a claim; what has no numbers is taken to."""
    for seed in range(DRAWN):
        rng = np.random.default_rng(seed)
        sizes = {"n": 2, "m": 3, "d": 3, "1": 1, "2": 2}
        arrays = {
            part.split()[0]: rng.uniform(0.5, 1.5, [sizes[n] for n in part[part.index("(") + 1 : -1].split(", ")])
            for part in shapes.replace("), ", ")|").split("|")
        }
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                g = claim.action.draw(rng, arrays)
                if not discrepancy(claim, arrays, g, np.dtype(np.float64)) < 1e-6:
                    return True
            except Exception:  # an edit may be any program
                return True
    return False


def main(names):
    """All edits of the pages named, or of all."""
    total = collections.Counter()
    if "--claims" in names:
        for name in CLAIMED:
            counts, unsound = claims_tried(name)
            print(f"{name:24s}{dict(counts)}", *unsound, sep="\n    ", flush=True)
        return
    for name, operation in pages().items():
        if names and name not in names:
            continue
        start = time.perf_counter()
        counts, unsound = tried(name, operation)
        total += counts
        print(f"{name:24s}{dict(counts)}  {time.perf_counter() - start:.0f} s", flush=True)
        for line in unsound:
            print("   ", *line)
    print(f"{'all':24s}{dict(total)}")


if __name__ == "__main__":
    main(sys.argv[1:])
