"""BLEU as Papineni et al. (2002) write it, one count at a time, in exact fractions."""

import math
from fractions import Fraction


def ngrams(words, n):
    return [tuple(words[i] for i in range(k, k + n)) for k in range(len(words)) if k + n <= len(words)]


def precision(hypotheses, references, n):
    """p_n: numerator and denominator, eq. in §2.1.1 ("modified n-gram precision")."""
    clipped = total = 0
    for hypothesis, several in zip(hypotheses, references, strict=True):
        for gram in set(ngrams(hypothesis, n)):
            count = ngrams(hypothesis, n).count(gram)
            clipped += min(count, max(ngrams(reference, n).count(gram) for reference in several))
            total += count
    return clipped, total


def closest(hypothesis, several):
    best = None
    for reference in several:
        distance = abs(len(reference) - len(hypothesis))
        if best is None or (distance, len(reference)) < best:
            best = distance, len(reference)
    return best[1]


def bleu(hypotheses, references, *, order=4, smoothing="none"):
    c = sum(len(hypothesis) for hypothesis in hypotheses)
    r = sum(closest(hypothesis, several) for hypothesis, several in zip(hypotheses, references, strict=True))
    precisions, zeros = [], 0
    for n in range(1, order + 1):
        clipped, total = precision(hypotheses, references, n)
        if total == 0 or (n == 1 and clipped == 0):
            return 0.0
        if clipped == 0:
            zeros += 1
            clipped = {"none": Fraction(0), "floor": Fraction(1, 10), "exp": Fraction(1, 2**zeros)}[smoothing]
        precisions.append(Fraction(clipped) / total)
    if not all(precisions):
        return 0.0
    brevity = 1.0 if c > r else math.exp(1 - r / c)
    return 100 * brevity * math.prod(float(p) for p in precisions) ** (1 / order)
