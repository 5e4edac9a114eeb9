"""What a check found: a `Report` to read or print, and the `GradientError` that a disagreement raises."""

from dataclasses import dataclass, field

import numpy as np

Number = float | np.generic


class GradientError(AssertionError):
    """A claimed gradient and a numerical one disagree; the message names argument, element, both values and digits.

    `report` is the Report, or None where the claim has not even the value or the shapes of a gradient of f.
    """

    report: "Report | None" = None


@dataclass(frozen=True)
class Worst:
    """The element on which claim and numerical derivative agree least, and `by` what the numerical one was obtained.

    `argument` and `index` are None where no single element was compared, but a projection or a symmetry. `reason` says
    why it passes with fewer digits than were asked: "rounding", because it is "below" a rounding of f, or "differences"
    that resolve no more.
    """

    place: str
    argument: int | None
    index: tuple[int, ...] | None
    claimed: Number
    numeric: Number
    digits: float
    by: str
    reason: str = ""

    @property
    def own_digits(self) -> float:
        """The digits that the two numbers have in common, whatever terms cancelled in them."""
        if self.claimed == self.numeric:
            return float("inf")
        claimed, numeric = np.asarray(self.claimed), np.asarray(self.numeric)
        with np.errstate(all="ignore"):
            found = -np.log10(np.abs(claimed - numeric) / np.maximum(np.abs(claimed), np.abs(numeric)))
        return float(found) if found > 0 else 0.0

    def __str__(self) -> str:
        return f"{self.place}: claimed {self.claimed}, {self.by} {self.numeric}"


@dataclass(frozen=True)
class Kink:
    """An element at which f has one slope to its `left` and another to its `right`, and so no derivative.

    `claimed` is the gradient there for one cotangent, which must be finite and lie from `least` to `greatest`; all
    five are None where the element was left out. A slope is NaN where f has no values, infinite where it has no limit.
    Where f `jumps`, it has no slopes.
    """

    place: str
    argument: int
    index: tuple[int, ...]
    left: float | None = None
    right: float | None = None
    claimed: float | None = None
    least: float | None = None
    greatest: float | None = None
    jumps: bool = field(default=False, kw_only=True)

    def __str__(self) -> str:
        if self.claimed is None:
            return f"{'jump' if self.jumps else 'kink'}: {self.place}, left out"
        left, right = ("none" if slope != slope else slope for slope in (self.left, self.right))
        return f"kink: {self.place}: claimed {self.claimed}, slopes {left} (left) and {right} (right)"


@dataclass(frozen=True)
class Report:
    """One claim, checked at one point; as it is made, before anything is compared, it is not judged. True if it agrees.

    name         of f; `dtype`, the coarsest of its arguments; `order`, of the derivatives
    method       how the numerical derivative was taken, and `precision`, in which arithmetic
    elements     how many derivatives were compared one by one; `projected` more were, in sums along random directions
    digits       the least number of digits on which claim and numerical derivative agree, relative to the sum of the
                 sizes of the terms of the derivative; or, if `element_wise`, relative to the element itself
    asked        the digits that were asked, scaled to `dtype`
    agrees       whether every element that was judged has them; `disagrees`, whether one has not; neither, where
                 nothing could be judged
    seed         of all that was drawn
    worst        the element that agrees least
    kinks        the elements at which f has no derivative, and the claim was compared with the slopes on both sides
    fault        what is wrong with the pullback, if it writes into what is not its own or is not linear; then there are
                 no comparisons
    left_out     how many elements were not judged; `remarks` say why
    remarks      what else a reader should know
    """

    name: str
    dtype: str
    order: int
    asked: float
    seed: int
    kinks: tuple[Kink, ...] = ()
    remarks: tuple[str, ...] = ()
    method: str = "none"
    precision: str = "none"
    elements: int = 0
    projected: int = 0
    digits: float = 0.0
    agrees: bool = False
    worst: Worst | None = None
    element_wise: bool = False
    disagrees: bool = False
    left_out: int = 0
    fault: str | None = None

    def __bool__(self) -> bool:
        return self.agrees

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.verdict}, {self.asked:.3g} asked ({self.dtype}, order {self.order}, {self._counted}, "
            f"{self.method} in {self.precision}, seed {self.seed})"
        ]
        if self.worst is not None:
            lines.append(f"  worst: {self.worst}")
        lines += [f"  {kink}" for kink in self.kinks]
        lines += [f"  {remark}" for remark in self.remarks]
        return "\n".join(lines)

    @property
    def verdict(self) -> str:
        """Whether it agrees, and to how many digits of what."""
        if self.fault is not None:
            return f"DISAGREES: {self.fault}"
        if not self.agrees:
            to = f"DISAGREES to {self.digits:.1f} digits{self._measure}"
            return to if self.disagrees else "NOT JUDGED"
        if self.worst is None:
            return "agrees"
        own = self.worst.own_digits
        if self.worst.reason == "rounding" and own < self.asked:
            return f"agrees; {own:.0f} digits here, {'the rest' if own >= 0.5 else 'all of it'} rounding"
        if self.worst.reason == "below":
            return f"agrees; {own:.0f} digits here, below a rounding of f"
        if self.worst.reason == "differences":
            return f"agrees; {own:.1f} digits here, as far as differences tell"
        if own < self.digits - 1:
            return f"agrees to {self.digits:.1f} digits of the terms, which cancel here: {own:.1f} of their sum"
        return f"agrees to {self.digits:.1f} digits{self._measure}"

    @property
    def _counted(self) -> str:
        counted = f"{self.elements} elements" + (f" and {self.projected} in projections" if self.projected else "")
        compared = sum(kink.claimed is not None for kink in self.kinks)
        counted += f", {compared} kinks" if compared else ""
        return counted + (f", {self.left_out} elements LEFT OUT" if self.left_out else "")

    @property
    def _measure(self) -> str:
        return " element-wise" if self.element_wise else ""

    def require(self) -> "Report":
        """The report itself where the claim agrees; raises GradientError where it does not."""
        __tracebackhide__ = True  # for pytest, which then shows the line of the test
        if self.agrees:
            return self
        what = "gradient" if self.order == 1 else "Hessian-vector product"
        worst = self.worst
        message = f"{self.name}: {self.fault or f'the {what} was not judged'}"
        if worst is not None and self.disagrees:
            message = (
                f"{self.name}: {what} of {worst.place}: claimed {worst.claimed}, {worst.by} gives {worst.numeric}, "
                f"{worst.digits:.1f} digits agree{self._measure}, {self.asked:.3g} asked "
                f"({self.dtype}, order {self.order}, seed {self.seed})"
            )
        error = GradientError("; ".join([message, *self.remarks]))
        error.report = self
        raise error
