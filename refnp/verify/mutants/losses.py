"""Mutants of losses: what is averaged over, smoothing, weights, and constants."""

from refnp import layers
from refnp.numbers.words import largest
from refnp.verify.edits.edited import Named, named_edits
from refnp.verify.mutants.softmax import OF_LOGARITHM

OTHER: Named = {
    "the mean were a sum, and the sum a mean": (
        "reduction =",
        "{'mean': 'sum', 'sum': 'mean', 'none': 'none'}[reduction]",
    )
}
OF_ROWS: Named = {
    "the sum were divided by the number of rows alone": (
        "present.sum() if count is None else count",
        "max(present.shape[0], 1)",
    )
}
NEAR, DEVIATION, HALF = "near * (size - near / 2)", "np.where(present, std, 1)", "HALF_LOG_TWO_PI"
GAUSSIAN: Named = {
    "the deviation were taken for the variance": (DEVIATION, f"np.sqrt({DEVIATION})"),
    "the deviation were taken for the logarithm of the deviation": (DEVIATION, f"np.exp({DEVIATION})"),
    "the deviation were taken for the logarithm of the variance": (DEVIATION, f"np.exp({DEVIATION} / 2)"),
    "½ log 2π were left out": (f"np.log(std) + {HALF}", "np.log(std)"),
    "log 2π were not halved": (HALF, f"2 * {HALF}"),
    "½ were left out before z²": ("z * z / 2", "z * z"),
    "log σ were halved": ("np.log(std)", "np.log(std) / 2"),
    "log σ were doubled": ("np.log(std)", "2 * np.log(std)"),
    "log σ were left out": ("np.log(std)", "0 * std"),
    "1e-6 were added to the variance": (DEVIATION, f"np.sqrt({DEVIATION} ** 2 + 1e-6)"),
}
YES_AND_NO, SIGMA = "weight * times(t, yes) + times(1 - t, no)", "(np.where(above, 1, e) / (1 + e))"
WEIGHTS_OF_ALL = "np.where(hit & present[..., None], weights, 0).sum()"
LOG_P, PARTS, WEIGHTED = "log_softmax.page(_x)", "shares(classes, epsilon, smoothing)", "weights * q"
Q, TERMS = "(1 - epsilon) * targets + epsilon / classes", "-times(a, log_p).sum(-1)"
MUTANTS = [
    *named_edits(
        layers.mse,
        ("mse",),
        {
            "it were half of it, ½ (p − t)²": ("difference * difference", "difference * difference / 2"),
            "it were |p − t|": ("difference * difference", "np.abs(difference)"),
            "the root were taken of it": ("(loss, vjp)", "(np.sqrt(loss), vjp)"),
            **OTHER,
            **OF_ROWS,
        },
    ),
    *named_edits(
        layers.huber,
        ("huber",),
        {
            "δ were 1, whatever is asked for": ("delta =", "1.0"),
            "it were divided by δ, as in smooth L1": (NEAR, f"{NEAR} / delta"),
            "it were twice as large, without ½": (NEAR, f"2 * ({NEAR})"),
            **OTHER,
            **OF_ROWS,
        },
    ),
    *named_edits(layers.gaussian_nll, ("gaussian_nll",), GAUSSIAN | OTHER),
    *named_edits(
        layers.binary_cross_entropy,
        ("binary_cross_entropy",),
        {
            "the weight stood before the other term": (YES_AND_NO, "times(t, yes) + weight * times(1 - t, no)"),
            "the weight stood before both terms": (YES_AND_NO, "weight * (times(t, yes) + times(1 - t, no))"),
            "the weight were left out": (YES_AND_NO, "times(t, yes) + times(1 - t, no)"),
            "yes and no were exchanged": (YES_AND_NO, "weight * times(t, no) + times(1 - t, yes)"),
            "it were (σ(x) − t)²": (YES_AND_NO, f"({SIGMA} - t) ** 2"),
            **OTHER,
            **OF_ROWS,
        },
        narrow={
            "the logarithm were taken of probabilities": (
                YES_AND_NO,
                f"-(weight * t * np.log({SIGMA}) + (1 - t) * np.log(1 - {SIGMA}))",
            )
        },
    ),
    *named_edits(
        layers.cross_entropy,
        ("cross_entropy",),
        {
            "ε were spread over the other C − 1 classes": (PARTS, "shares(classes, epsilon, 'off_target')"),
            "ε/C were added, and nothing taken from the target": (
                "1 - epsilon + epsilon / classes",
                "1 + epsilon / classes",
            ),
            "there were no smoothing": ("label_smoothing =", "0.0"),
            "the mean were over all rows, ignored ones too": (
                WEIGHTS_OF_ALL,
                f"{WEIGHTS_OF_ALL} if class_weights is not None else present.size",
            ),
            "ignored rows counted like others": ("targets != ignore_index", "targets >= 0"),
            "class weights were left out": ("class_weights =", "None"),
            "the weight of the target multiplied all terms of its row": (
                WEIGHTED,
                "np.where(hit, weights, 0).sum(-1, keepdims=True) * q",
            ),
            "the mean were over rows, and not over their weights": (WEIGHTS_OF_ALL, "present.sum()"),
            "logits were taken for log p": (LOG_P, "(_x, None)"),
            "the softmax were taken twice": (LOG_P, "log_softmax.page(softmax.page(_x)[0])"),
            "probabilities below 1e-7 were cut off": (LOG_P, "(np.log(np.maximum(softmax.page(_x)[0], 1e-7)), None)"),
            "1e-8 were added to probabilities": (LOG_P, "(np.log(softmax.page(_x)[0] + 1e-8), None)"),
            **OTHER,
        },
        narrow=OF_LOGARITHM,
        words={"softmax": layers.softmax},
    ),
    *named_edits(
        layers.cross_entropy,
        ("cross_entropy of probabilities",),
        {
            "the likeliest class alone counted": (Q, "1.0 * largest(targets)"),
            "the entropy of the targets were subtracted": (TERMS, "(times(a, np.log(q)) - times(a, log_p)).sum(-1)"),
            "there were no smoothing": ("label_smoothing =", "0.0"),
            "ε were spread over C − 1 classes": (Q, "(1 - epsilon) * targets + epsilon / (classes - 1)"),
            "class weights were left out": ("class_weights =", "None"),
            **OTHER,
        },
        words={"largest": largest},
    ),
]
