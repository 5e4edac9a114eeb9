"""What a row of the register is and is measured with, the sections of the texts, and what in them is no claim."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from refnp.autograd.primitives import raw
from refnp.claims.common import generator

TRUE, CONDITION, FALSE = "true", "true if", "false"  # verdicts
UNSEEN = "not reproduced"  # a finding about trained models that theirs may still be true of
DRAFT_1, DRAFT_2 = "first draft", "second draft"
FINAL, ATTENTION, TRANSFORMER = "Sivaraya (2023)", "Attention Notes", "Transformer Notes"

SECTIONS = {  # of each text, by the names that its own headings and page numbers have
    DRAFT_1: ("1.1", "1.2", "1.3", "1.4"),
    DRAFT_2: ("1.1", "1.2", "1.3"),
    FINAL: (
        *("1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.7", "1.8"),
        *("2", "2.1", "2.2", "2.3"),
        *("3.1", "3.2", "3.3"),
        *("4.1", "4.2", "4.2.1", "4.3"),
    ),
    ATTENTION: ("10-13", "10-14", "10-15", "10-16", "10-17", "10.2.2", "10.2.3", "10.3"),
    TRANSFORMER: ("Intuition", "Self-Attention", "Multi-Head Attention", "Transformers", "Positional Encoding"),
}


class Finding(NamedTuple):
    """One measurement: its kind, whether it is as expected, and in words what was found."""

    kind: str
    met: bool
    text: str


def holds(met: object, text: str) -> Finding:
    """The claim was measured where it should be true."""
    return Finding("holds", bool(met), text)


def fails(met: object, text: str) -> Finding:
    """The claim was measured where it is not true; `met` if it does fail there."""
    return Finding("fails", bool(met), text)


def control(met: object, text: str) -> Finding:
    """What makes the claim true is taken away, or what makes it false is mended; `met` if the finding turns round."""
    return Finding("control", bool(met), text)


@dataclass(frozen=True)
class Sentence:
    """A claim of the texts, what is measured, and the verdict.

    claim: what is said, in a few words; in quotation marks those of a text.
    where: sections that say it, as (text, section).
    verdict: TRUE, CONDITION, FALSE or UNSEEN; says: the condition, or what is true instead, or what was asked.
    measure: gives the findings, all deterministic, within seconds.
    tests: other tests that decide it, as "tests/FILE.py::NAME".
    """

    name: str
    claim: str
    where: tuple[tuple[str, str], ...]
    verdict: str
    says: str
    measure: Callable[[], list[Finding]]
    tests: tuple[str, ...] = ()


def places(said: str) -> tuple[tuple[str, str], ...]:
    """ "first draft 1.2, 1.3; Attention Notes 10-14" → (text, section) of each. KeyError for another text."""
    found = []
    for part in said.split("; "):
        text = next((name for name in SECTIONS if part.startswith(f"{name} ")), part)
        found += [(text, section) for section in part.removeprefix(f"{text} ").split(", ") if SECTIONS[text]]
    return tuple(found)


def decided(verdict: str) -> Callable:
    """A decorator by which a function that measures becomes the row of its name.

    It takes the claim, where it is said, as `places` reads it, what `says` is, and other tests between commas.
    """

    def of_claim(claim: str, said: str, says: str = "", *, tests: str = "") -> Callable[[Callable], Sentence]:
        def row(measure: Callable[[], list[Finding]]) -> Sentence:
            others = tuple(filter(None, tests.split(", ")))
            return Sentence(measure.__name__.replace("_", "-"), claim, places(said), verdict, says, measure, others)

        return row

    return of_claim


true, true_if, false, unseen = map(decided, (TRUE, CONDITION, FALSE, UNSEEN))


def consistent(row: Sentence, findings: list[Finding]) -> list[str]:
    """What is wrong with a row, in words: nothing if each finding is as expected and their kinds are the verdict's."""
    kinds = {finding.kind for finding in findings}
    wrong = [f"not as expected: {finding.text}" for finding in findings if not finding.met]
    asked = {TRUE: {"holds"}, CONDITION: {"holds", "fails"}, FALSE: {"fails"}, UNSEEN: {"fails"}}[row.verdict]
    if (kinds - {"control"}) != asked:
        wrong.append(f"the verdict {row.verdict!r} needs findings that are {sorted(asked)}, there are {sorted(kinds)}")
    if len(kinds) < 2:
        wrong.append("it is decided in one direction only")
    return wrong


def drawn(*shapes: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    """Standard normal arrays of these shapes."""
    rng = generator(seed)
    return [rng.normal(size=shape) for shape in shapes]


def largest(x: object) -> float:
    """max |x|."""
    return float(np.abs(raw(x)).max())


def listed(numbers: object, digits: int = 2) -> str:
    """Numbers with two decimals, as a list in words."""
    return ", ".join(f"{number:.{digits}f}" for number in numbers)  # type: ignore[attr-defined]


EMPTY = {  # sections that make no claim
    (DRAFT_1, "1.4"): "a heading without text",
    (ATTENTION, "10-17"): "a page without text",
    (ATTENTION, "10.3"): "a heading without text",
    (TRANSFORMER, "Transformers"): "pictures without text",
}
NOT_DECIDED = (  # sentences that no experiment decides: where, a few of their words, why
    (
        FINAL,
        "1.1",
        "embeddings are represented as rows",
        "notation; rows and columns are compared in docs/equations.md",
    ),
    (FINAL, "1.2", "not capable of understanding wordings", "a reason for embedding, no property of it"),
    (FINAL, "1.3", "originally called Scaled Dot-Product Attention", "a fact about a paper"),
    (FINAL, "1.6", "very similar to the encoder", "of degree; the additional block is in docs/transformer.md"),
    (FINAL, "1.6", "the encoder learns the attention of the input", "an intuition, as its sentence says"),
    (FINAL, "2.1", "N-way-K-shot", "a definition; docs/few_shot.md has such episodes"),
    (FINAL, "4.1", "present in many real world problems", "about the world; what it means of a process is a row"),
    (ATTENTION, "10-15", "mainly used scaled dot product", "about what people do"),
    (ATTENTION, "10.2.2", "deals with sequence of words", "a definition, and a list of applications"),
    (TRANSFORMER, "Self-Attention", "interesting questions about the words", "an intuition about Q, K and V"),
)
