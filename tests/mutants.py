"""Every edit of every page beside the laws that hold for all: is what an edit makes wrong found out?

    python -m tests.mutants [LAYER ...]       all edits; tests/verify/test_edits_of_pages.py takes some pages

A page is its transcription (value), and its VJP is the derivative of its value (complex step). An edit that breaks
neither is the same function, or lives: drawn numbers, in every form in which the page can be called, tell which.

What lives of all, 328 of 40 506 when it was counted: edits that change a value and not its derivative, where the page
had no transcription by its layer's name (batch_norm of statistics, positive_features, pair_kernel: they have now), or
in an option that its cases do not have (which places were the largest, of the max pools; how a cross-entropy is
smoothed, with classes: tests/layers/test_pooling.py and test_loss.py ask them); a gradient that
is summed over fewer axes, which the walk back sums; another subgradient at the kink of leaky_relu; forms of
categorical_kl that are one number wherever a class of p is possible.
"""

import collections
import sys
import time
import warnings

import numpy as np

from refnp.numbers.rounding import WIDE, tolerance
from refnp.pieces import in_order, workers_for
from refnp.verify import theorems
from refnp.verify.causes.page_edits import edits
from refnp.verify.causes.values import distances
from refnp.verify.edits.edited import KNOWN_WORDS, form_of
from refnp.verify.edits.opened import Opened
from refnp.verify.layers import cases_of_layers
from refnp.verify.made import made_cases
from tests.transcriptions.every import transcription

MOST, CASES = 120, 24  # numbers of a case; cases of a page
STEP, EXACT, WRONG = 1e-30, 1e-9, 1e-6  # of the complex step; where it is asked; where it differs
LOST = 1e-12  # of a value, where options are numbers of float64
SEEDS = range(3)  # of drawn numbers


def pages():
    """{layer: its cases} of every layer that is a page."""
    found = collections.defaultdict(list)
    for case in cases_of_layers():
        if hasattr(case.layer.function, "page"):
            found[case.layer.name].append(case)
    return found


class Law:
    """Arguments and options of a page, with what it gives, what is right, and the arguments of which it has a VJP."""

    def __init__(self, page, arrays, options, right=None, allowed=None):
        self.arrays, self.options, self.right, self.allowed = list(arrays), options, right, allowed
        self.is_float = [np.asarray(a).dtype.kind == "f" for a in self.arrays]
        self.slopes = [i for i, is_float in enumerate(self.is_float) if is_float and self.slope(page, i) < EXACT]
        self.known = self.everything(page)

    def everything(self, page):
        """Value and gradients; None where they cannot be had."""
        try:
            y, vjp = page(*self.arrays, **self.options)
            several = y if isinstance(y, tuple) else (y,)
            bars = vjp(*(np.random.default_rng(0).normal(size=one.shape) for one in several))
            bars = [np.asarray(bar) for bar, is_float in zip(bars, self.is_float, strict=False) if is_float]
            return [np.asarray(one) for one in (*several, *bars)]
        except Exception:  # an edit may be any program
            return None

    def breaks(self, page):
        """Whether an edited page breaks a law."""
        try:
            if self.right is not None:
                value = np.asarray(page(*self.arrays, **self.options)[0])
                if value.shape != np.shape(self.right) or (distances(value, self.right) > self.allowed).any():
                    return True
        except Exception:
            return True
        return any(not self.slope(page, i) <= WRONG for i in self.slopes)

    def slope(self, page, i):
        """|ȳ·J v − x̄·v| over what is large of both, of one argument; ∞ where it cannot be asked."""
        rng = np.random.default_rng(i)
        v = rng.normal(size=np.shape(self.arrays[i]))
        moved = [a + 1j * WIDE(STEP) * v if k == i else a for k, a in enumerate(self.arrays)]
        try:
            y, vjp = page(*self.arrays, **self.options)
            bar = rng.normal(size=y.shape).astype(WIDE)
            forward = (page(*moved, **self.options)[0].imag / WIDE(STEP) * bar).sum()
            found = np.asarray(vjp(bar)[i])
            if np.broadcast_shapes(found.shape, v.shape) != found.shape:
                return np.inf
            back = (found * v).sum()
        except Exception:
            return np.inf
        return float(abs(forward - back) / max(abs(forward), abs(back), WIDE(1e-6)))

    def tells(self, page):
        """Whether an edited page gives anything else."""
        found = self.everything(page)
        if self.known is None or found is None:
            return self.known is not None
        return len(found) != len(self.known) or any(
            a.shape != b.shape or (distances(a, b) > WRONG * (1 + np.abs(b))).any()
            for a, b in zip(found, self.known, strict=True)
        )


def laws(cases):
    """Those of the smallest cases, listed or made, and of drawn numbers in each form of a call."""
    operation, rule, found = cases[0].layer.function, transcription(cases[0].layer.name), []
    for case in [*cases, *made_cases(cases[0].layer, cases)]:
        problem = case.problem("longdouble")
        if sum(array.size for array in problem.arrays.values()) <= MOST and len(found) < CASES:
            arrays = list(problem.arrays.values())
            right = None if rule is None else rule(*arrays, **case.options)
            allowed = 2 * tolerance(problem.bounds["output"], "longdouble")
            if right is not None:
                allowed = np.maximum(allowed, LOST * np.where(np.isfinite(right), np.abs(right), 0))
            found.append(Law(operation.page, arrays, case.options, right, allowed))
    return found + drawn(operation)


def drawn(operation):
    """Drawn numbers in every form of a call."""
    found = []
    for form in theorems.of_page(operation.page, theorems.forms_of(operation)):
        for seed in SEEDS:
            arrays, options = theorems.numbers_of(form, seed, longest=4)
            found.append(Law(operation.page, arrays.values(), options))
    return [law for law in found if law.known is not None]


def survivors(cases):
    """(edits that break a law, those that do not and are another function, those that drawn numbers do not tell)."""
    counts = {"found out": 0, "same": 0}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        operation, known = cases[0].layer.function, laws(cases)
        assert not any(law.breaks(operation.page) for law in known), f"{cases[0].layer.name} breaks a law itself"
        opened, left = Opened.of(operation), []
        for back in (False, True):
            for edit in edits(operation, of_pullback=back):
                if edit.narrow or "held(" in edit.after:  # which a VJP does not know
                    continue
                page = form_of(operation, opened.compiled({edit.opened.function: edit.tree}, KNOWN_WORDS))
                if any(law.breaks(page) for law in known):
                    counts["found out"] += 1
                elif any(law.tells(page) for law in known):
                    left.append(edit.where)
                else:
                    counts["same"] += 1
    return counts["found out"], left, counts["same"]


def of_page(name):
    """What comes of the edits of a page, and how many seconds it takes."""
    start = time.perf_counter()
    return *survivors(pages()[name]), time.perf_counter() - start


def main(names):
    """The edits of the pages named, or of all, and those that live."""
    total = lived = 0
    chosen = [name for name in pages() if not names or name in names]
    results = in_order(of_page, chosen, workers_for(len(chosen), few=2))
    for name, (found, left, same, seconds) in zip(chosen, results, strict=True):
        total, lived = total + found + len(left), lived + len(left)
        print(f"{name:32s}{found} found out, {len(left)} not, {same} the same   {seconds:.0f} s", flush=True)
        for line in left:
            print("   ", line)
    print(f"{'all':32s}{total - lived} of {total}, {100 * (total - lived) / max(total, 1):.1f} %")


if __name__ == "__main__":
    main(sys.argv[1:])
