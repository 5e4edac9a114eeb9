"""What others call layers and arguments: words, the order of arguments, and what a function means by its name.

CALLED    {argument: words}   what frameworks and textbooks call refnp's arguments
NAMES     {name: Meant}       what a layer is called elsewhere: which it is, in which order and layout
KNOWN     {path: Meant}       functions and modules of frameworks, by where they are

A parameter with a word that says something is never given what that does not say (`may_be`): `y_true` is no prediction.
"""

import functools
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from refnp.verify.words import ARGUMENTS, FUNCTIONS

TRUTH = ("target", "targets", "y_true", "labels", "label", "truth", "ground_truth", "gt", "true", "onehot", "one_hot")
GUESS = ("pred", "preds", "y_pred", "prediction", "predictions", "output", "outputs", "y_hat", "yhat")
LOGARITHMS = (
    "log_probs", "log_prob", "logprobs", "logp", "log_p", "log_q", "logq", "log_pred", "log_preds", "log_predictions",
    "log_probability", "lprobs",
)  # fmt: skip
CALLED = {  # what frameworks call refnp's arguments; the first that a function has is taken
    "x": ("input", "inputs", "X", "a", "hidden_states", "A", "features", "tensor"),
    "query": ("q", "Q", "queries"),
    "key": ("k", "K", "keys"),
    "value": ("v", "V", "values"),
    "bias": ("b", "attn_bias", "B", "attention_bias", "biases"),
    "mask": ("attn_mask", "attention_mask"),
    "causal": ("is_causal",),
    "key_mask": ("key_padding_mask",),
    "heads": ("num_heads", "n_heads", "n_head"),
    "gain": ("weight", "gamma", "scale", "w", "g", "Scale"),
    "shift": ("bias", "beta", "b", "B", "offset"),
    "eps": ("epsilon", "variance_epsilon", "norm_eps", "layer_norm_eps", "rms_norm_eps"),
    "groups": ("num_groups", "feature_group_count", "group", "n_groups"),
    "mean": ("running_mean", "input_mean", "moving_mean", "mu", "loc", "location", "means", "input", "inputs", *GUESS),
    "variance": ("running_var", "input_var", "moving_variance", "var", "vars", "sigma2", "sigma_sq", "sigma_squared"),
    "log_variance": ("log_var", "logvar", "log_vars", "logvars", "log_sigma2", "log_sigma_sq"),
    "log_std": ("log_sigma", "logstd", "logsigma", "log_scale", "log_stddev", "log_stds"),
    "std": ("sigma", "stddev", "std_dev", "stdev", "scale", "stds", "deviation", "standard_deviation"),
    "y": ("x", "obs", "observed", "value", "values", *TRUTH),
    "weight": ("w", "W", "kernel", "filters", "weights", "B"),
    "axis": ("dim",),
    "slope": ("negative_slope",),
    "ddof": ("correction",),
    "size": ("kernel_size", "output_size"),
    "stride": ("strides",),
    "dilation": ("dilations", "dilation_rate"),
    "table": ("weight", "embedding", "embedding_matrix", "data"),
    "tokens": ("input", "indices", "ids", "input_ids", "token_ids"),
    "logits": ("input", "inputs", "logit", "scores", *GUESS),
    "log_probabilities": (*LOGARITHMS, "log_y_pred", "input", "inputs", *GUESS),
    "probabilities": ("probs", "prob", "proba", "y_prob", "p_hat", "q", "p", "input", "inputs", *GUESS),
    "log_targets": ("log_y_true", *TRUTH),
    "dropout": ("dropout_p", "p_drop", "dropout_rate", "attn_dropout", "attention_dropout"),
    "factor": ("scale_factor",),
    "targets": (*TRUTH, "y", "classes", "t"),
    "target": (*TRUTH, "y", "t"),
    "prediction": ("input", "inputs", *GUESS),
    "class_weights": ("weight", "weights"),
    "positive_weight": ("pos_weight",),
    "degrees_of_freedom": ("df", "nu"),
    "location": ("loc", "mu", "mean"),
    "softcap": ("soft_cap", "logit_cap", "logits_soft_cap"),
}


STATISTICS = ("mean", "std", "variance", "log_variance", "log_std")


def _of_two(name: str, number: str, *which: str) -> tuple[str, ...]:
    """What the mean, or a deviation, of the first or the second of two distributions is called."""
    own = [name, *(word for word in CALLED[name] if word not in (*GUESS, "input", "inputs"))]
    after = tuple(f"{word}{end}" for word in own for end in (number, f"_{number}", *(f"_{one}" for one in which)))
    return after + tuple(f"{one}_{word}" for word in own for one in which)


CALLED |= {f"{name}_p": _of_two(name, "1", "p", "post", "posterior") for name in STATISTICS}  # KL(posterior ‖ prior)
CALLED |= {f"{name}_q": _of_two(name, "2", "q", "prior") for name in STATISTICS}
CALLED |= {name: (*CALLED.get(name, ()), *more) for name, more in ARGUMENTS.items()}
SAYS_SOMETHING = {  # words that say what they mean in any layer: what no argument of the layer is called is asked for
    *TRUTH, *LOGARITHMS, "y_pred", "logits", "probs", "probabilities",
    *(word for name in ("variance", "log_variance", "log_std") for word in (name, *CALLED[name])),
    "sigma", "stddev", "mu", "mean", "std", "mask", "attn_mask", "attention_mask", "key_padding_mask", "sink", "sinks",
    "attention_sink", "alibi_slopes", "position_ids", "position_bias", "cu_seqlens", "cu_seqlens_q", "cu_seqlens_k",
    "block_table", "cache", "past_key", "past_value", "kv_cache", "dropout", "dropout_p", "p_drop", "rng", "seed",
    "scale", "softmax_scale", "sm_scale", "axis", "dim", "heads", "num_heads", "groups", "num_groups", "causal",
    "is_causal", "training", "momentum", "reduction", "delta", "stride", "padding", "dilation", "kernel_size",
    "gamma", "beta", "bias", "eps", "epsilon", "temperature", "lengths", "seq_lens", "sample_weight", "pos_weight",
    "weights", "class_weights", "residual", "rope", "cos", "sin", "freqs_cis",
}  # fmt: skip
SAYS_STATISTIC = {w: name for name in STATISTICS for w in (name, *CALLED[name]) if w in SAYS_SOMETHING}
VALUES: dict[str, dict[Any, Any]] = {"approximate": {"none": False, "tanh": True}}  # for a function that takes a bool
AS_ARRAYS = ("positive_weight",)  # options that are numbers here, and arrays for frameworks
LEFT_OPEN = ("axis", "eps")  # options that are None in functions which then take a value of their own


@dataclass(frozen=True)
class Meant:
    """A layer as a name elsewhere means it: refnp's arguments as they stand there, and refnp's options.

    `without` are patterns of cases in which another function is meant there, or which are refused.
    """

    layer: str
    order: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()


def meant(layer: str, order: str = "", *layouts: str, **options: Any) -> Meant:
    """`Meant` in few words."""
    return Meant(layer, tuple(order.split()), layouts, options)


VARIANCE, BINARY_OF_P = "gaussian_nll of variance", "binary_cross_entropy of probabilities"
NLL, KL, KL_OF_P = "nll of log-probabilities", "kl_div of log-probabilities", "kl_div of probabilities"
NLL_OF_P, SOFT_OF_P = "nll of probabilities", "cross_entropy of two probabilities"
SOFT = "cross_entropy of probabilities"
GAUSSIAN = meant(VARIANCE, "mean y variance")
BY_KERAS = "targets logits"
NAMES = {  # of other spellings `layer_names.plain` takes care
    "MultiHeadAttention": meant("multi_head"),
    "EncoderDecoder": meant("transformer"),
    "similarity_attention": meant("attention"),
    "scaled_dot_product_attention": meant("attention"),
    "dot_product_attention": meant("attention"),
    "sdpa": meant("attention"),
    "flash_attention": meant("attention"),
    "memory_efficient_attention": meant("attention", "", "BNHD"),
    "flash_attn_func": replace(meant("attention", "", "BNHD"), without=("causal_attention/more *",)),  # bottom right
    "grouped_query_attention": meant("grouped_attention"),
    "multi_query_attention": meant("grouped_attention"),
    "gqa": meant("grouped_attention"),
    "mqa": meant("grouped_attention"),
    "TransformerEncoderLayer": meant("encoder_layer"),
    "TransformerDecoderLayer": meant("decoder_layer"),
    "Dense": meant("linear"),
    "swish": meant("silu"),
    "conv": meant("convolution"),
    "conv_transpose": meant("convolution_transpose"),
    "avg_pool": meant("average_pool"),
    "adaptive_avg_pool": meant("adaptive_average_pool"),
    "layer_normalization": meant("layer_norm"),
    "rms_normalization": meant("rms_norm"),
    "batch_normalization": meant("batch_norm"),
    "group_normalization": meant("group_norm"),
    "instance_normalization": meant("instance_norm"),
    "mse_loss": meant("mse"),
    "mean_squared_error": meant("mse", "target prediction"),
    "squared_error": meant("mse", reduction="none"),
    "l2_loss": meant("half_squared_error", reduction="none"),
    "huber_loss": meant("huber"),
    "smooth_l1_loss": meant("smooth_l1"),
    "nll_loss": meant(NLL),
    "negative_log_likelihood_loss": meant(NLL),
    "cross_entropy_loss": meant("cross_entropy"),
    "softmax_cross_entropy_loss": meant("cross_entropy"),
    "sparse_categorical_crossentropy": meant("cross_entropy", BY_KERAS),
    "categorical_crossentropy": meant(SOFT, BY_KERAS),
    "softmax_cross_entropy": meant(SOFT),
    "softmax_cross_entropy_with_logits": meant(SOFT, BY_KERAS),
    "sparse_softmax_cross_entropy_with_logits": meant("cross_entropy", BY_KERAS),
    "softmax_cross_entropy_with_integer_labels": meant("cross_entropy"),
    "BCELoss": meant(BINARY_OF_P),
    "BCEWithLogitsLoss": meant("binary_cross_entropy"),
    "binary_cross_entropy_with_logits": meant("binary_cross_entropy"),
    "binary_crossentropy": meant("binary_cross_entropy", BY_KERAS),
    "sigmoid_binary_cross_entropy": meant("binary_cross_entropy"),
    "sigmoid_cross_entropy_with_logits": meant("binary_cross_entropy", BY_KERAS),
    "gaussian_nll_loss": GAUSSIAN,
    "kl_div": meant(KL),
    "kl_div_loss": meant(KL),
    "kullback_leibler_divergence": meant(KL_OF_P, "targets probabilities"),
    "bce": meant("binary_cross_entropy"),
    "interpolate": meant("upsample"),
    "rope": meant("rotate"),
    "rotary": meant("rotate"),
    "rotary_embedding": meant("rotate"),
    "alibi": meant("alibi_attention"),
    "positional_encoding": meant("sinusoidal_positions"),
    "sinusoidal": meant("sinusoidal_positions"),
    "bahdanau_attention": meant("additive_attention"),
    **{name: meant(layer) for name, layer in FUNCTIONS.items()},
}

EACH = {"reduction": "none"}
NO_OTHER_WIDTH = (
    "attention/values of another width",
    "attention/512 *",
    "attention/one of 256 *",
)  # values as wide as keys
KNOWN = {  # functions and modules by where they are, with what their names do not say
    **{
        f"torch.nn.{name}": found
        for names, found in (
            ("functional.linear Linear", meant("linear", "", "out_in")),
            ("functional.gaussian_nll_loss GaussianNLLLoss", GAUSSIAN),
            ("functional.nll_loss NLLLoss", meant(NLL)),
            ("functional.kl_div KLDivLoss", meant(KL)),
            ("functional.binary_cross_entropy BCELoss", meant(BINARY_OF_P)),
        )
        for name in names.split()
    },
    "jax.nn.dot_product_attention": replace(meant("attention", "", "BNHD"), without=NO_OTHER_WIDTH),
    **{
        f"optax.losses.{name}": replace(found, options=EACH)
        for name, found in (
            ("softmax_cross_entropy", meant(SOFT)),
            ("softmax_cross_entropy_with_integer_labels", meant("cross_entropy")),
            ("sigmoid_binary_cross_entropy", meant("binary_cross_entropy")),
            ("huber_loss", meant("huber")),
            ("squared_error", meant("mse")),
            ("l2_loss", meant("half_squared_error")),
        )
    },
    "optax.losses.kl_divergence": meant(KL, reduction="rows"),
    "optax.losses.kl_divergence_with_log_targets": meant("kl_div of two log-probabilities", reduction="rows"),
    "mlx.nn.Linear": meant("linear", "", "out_in"),
    "mlx.nn.losses.nll_loss": meant(NLL),
    "mlx.nn.losses.kl_div_loss": meant(KL, reduction="rows"),
    "mlx.nn.losses.gaussian_nll_loss": GAUSSIAN,
    "mlx.core.fast.scaled_dot_product_attention": meant("attention", "", "BHND"),
    **{
        f"keras.ops.{name}": found
        for name, found in (
            ("dot_product_attention", meant("attention", "", "BNHD")),
            ("conv", meant("convolution", "", "channels_last", "HWIO")),
            ("average_pool", meant("average_pool", "", "channels_last")),
            ("max_pool", meant("max_pool", "", "channels_last")),
            ("binary_crossentropy", meant("binary_cross_entropy", reduction="none")),
            ("categorical_crossentropy", meant(SOFT, reduction="none")),
            ("sparse_categorical_crossentropy", meant("cross_entropy", reduction="none")),
        )
    },
}
TELLS = {  # parameters that say what the others are, and the value that says what the layer's arguments are
    "from_logits": lambda layer: not layer.endswith("probabilities") or layer == SOFT,
    "with_logits": lambda layer: not layer.endswith("probabilities") or layer == SOFT,
    "log_target": lambda layer: layer == "kl_div of two log-probabilities",
    "full": lambda layer: True,
    "enable_gqa": lambda layer: layer == "grouped_attention",
}


@functools.cache
def _places() -> list[tuple[str, str]]:
    """The paths of KNOWN, their packages in front."""
    return [(path.partition(".")[0], path) for path in KNOWN]


def known(function: Any) -> Meant | None:
    """What is known of a function or of a module's class, by where it is in the framework; None if nothing is."""
    while isinstance(function, functools.partial):
        function = function.func
    for package, path in _places():
        if package not in sys.modules:
            continue
        try:
            there = attrgetter(path.partition(".")[2])(sys.modules[package])
        except AttributeError:
            continue
        if there is function or (inspect.isclass(there) and isinstance(function, there)):
            return KNOWN[path]
    return None


def words(argument: str) -> tuple[str, ...]:
    """The argument's own name, and what others call it."""
    return (argument, *CALLED.get(argument, ()))


def may_be(theirs: str, argument: str, others: Iterable[str]) -> bool:
    """Whether a parameter may be given an argument by its place: unless its word says that it is another one.

    `others` are all arguments of the layer.
    """
    if theirs in words(argument):
        return True
    said = any(theirs in words(other) and len(theirs) > 1 for other in others)
    plain = re.sub(r"_?[0-9]$|_[pq]$", "", theirs)
    own = [statistic] if (statistic := statistic_of(argument)) else map(statistic_of, words(argument))
    return not said and plain not in SAYS_SOMETHING and statistic_of(plain) in ("", *own)


def statistic_of(name: str) -> str:
    """Which statistic of a distribution a name says, "log_variance" of "logvar_encoder"; "" if none."""
    parts = name.split("_")
    runs = sorted(itertools.combinations(range(len(parts) + 1), 2), key=lambda ends: ends[0] - ends[1])
    return next((SAYS_STATISTIC[run] for i, j in runs if (run := "_".join(parts[i:j])) in SAYS_STATISTIC), "")


def as_refnp_writes(option: str, value: Any) -> Any:
    """The value of an option of a function, in refnp's words."""
    if isinstance(value, bool):
        return next((own for own, theirs in VALUES.get(option, {}).items() if theirs is value), value)
    return value


def told(layer: str, takes: Callable[[str], bool]) -> dict[str, Any]:
    """What a function must be told, by parameters that say what its others are."""
    return {name: value(layer) for name, value in TELLS.items() if takes(name)}


def root(layer: str) -> str:
    """The layer whose function it is, of whatever arguments."""
    base = layer.partition(" of ")[0]
    return "cross_entropy" if base == "nll" else base


def nearest(family: Mapping[str, Sequence[str]], parameters: Sequence[str], arguments: Iterable[str]) -> str:
    """Of {layer: its arguments} that which a function takes by the words of its parameters; the first where none says.

    `arguments` are names of refnp that were used to say which parameter is which.
    """
    first, *others = family
    asked = set(arguments)
    for layer in others:
        if asked & (set(family[layer]) - set(family[first])):
            return layer

    def unlike(layer: str) -> int:
        """How many parameters have words of arguments that the first layer does not have."""
        shared = {word for argument in family[first] for word in words(argument)}
        own = {word for argument in family[layer] if argument not in family[first] for word in words(argument)}
        return sum(name in own - shared for name in parameters)

    best = max(others, key=unlike, default=first)
    return best if others and unlike(best) else first
