"""What runtimes of ONNX models are known to get wrong, and where they mean another function; by case, in their order.

Where no report was found, `issue` is a few words. Errors of a function that ONNX itself defines by a graph of operators
(Attention, GroupNormalization, Gelu) show in every runtime that takes the graph for it.
"""

from dataclasses import replace
from functools import partial

from refnp import layers
from refnp.layers.similarity import unit_rows
from refnp.verify.case import KnownDefect, beside
from refnp.verify.frameworks.shared import rows_of
from refnp.verify.layers.activations import (
    coarse_logistic,
    erf_form,
    logistic,
    logistic_by_complement,
    printed_elu,
    printed_gelu,
    printed_softplus,
)
from refnp.verify.layers.attention import JAX_MASKED_NAN, attending, longer_rows, without_window
from refnp.verify.layers.linear import of_one_axis
from refnp.verify.layers.losses import CROSS_ENTROPY, sure_of_softplus
from refnp.verify.layers.matrices import DET
from refnp.verify.layers.normalization import ONE_PASS
from refnp.verify.layers.pooling import SAME_LENGTH
from refnp.verify.layers.softmax import (
    PRINTED_LOGARITHM,
    logarithm_of_softmax,
    logsumexp_from_maximum,
    logsumexp_without_maximum,
)

LOGARITHM_OF_SOFTMAX = {layers.log_softmax.page: logarithm_of_softmax}
NAN_FOR_NO_KEYS = attending(no_keys="nan")
ATTENTIONS = "attention/*, softcap_attention*, window_attention/*, causal_attention/*, attention_scores/*, "
ATTENTIONS += "cosine_attention/*, general_attention/*, rotary_attention/*, multi_head*, *coder_*, transformer/*"
LOST_LOGARITHMS = "log_softmax/20 and 0, log_softmax/one component*, log_softmax/logits 100, log_softmax/one of*"
SURE_ENTROPY = ("cross_entropy/logits 100", "cross_entropy/confident", "cross_entropy/512 classes, confident")
UNDERFLOWN = ("log_softmax/logits 1*", "cross_entropy of probabilities/logits 100")
TAILS = "binary_cross_entropy/tails*"
OVERFLOWN = ("logsumexp/mean 1e4", "logsumexp/logits *")
SCALAR_ENTROPIES = tuple(f"cross_entropy/{name}" for name in ("[mos5]*", "ignored*", "class*", "logits with*"))
WINDOWS = "the window of Attention is ignored"
CEILED = "ceil_mode: a window that starts in the padding after x"
HIDDEN = "NaN behind a mask comes through"
NOTHING = "a row of −∞ gives NaN"
NAN_ROW = "scores that a bias makes −∞ for every key give NaN, where ONNX has 0 since 1.23"
MASKED_ROW = "a query that may attend to nothing gets the mean of all values, where ONNX has 0 since 1.23"

GELU_TAIL = "Gelu as x/2 (1 + erf): 1 + erf cancels, no digit is left in the left tail"
GELU_TANH_TAIL = "Gelu (tanh) as x/2 (1 + tanh): no digit is left in the left tail"
ELU = "Elu as exp(x) − 1: nothing left of small x"
LOG_SOFTMAX = "LogSoftmax as x − log Σ exp: a log p near 0 becomes 0; log1p of the rest keeps it"
ENTROPY = "SoftmaxCrossEntropyLoss by x − log Σ exp: a loss near 0 becomes 0"
LOG_OF_SOFTMAX = "LogSoftmax as log(softmax): a probability that underflows gives −∞, one near 1 gives 0"
IN_ONE_PASS = "the variance as E[x²] − E[x]², which cancels where the mean is large"
LOG_ONE_PLUS = "Softplus as log(1 + eˣ): no digit of a small eˣ is left, and of a large x it is infinite"
WINDOW = "left_window_size and right_window_size (opset 25) have no effect, and no error says so"
ADDED = "Attention adds −∞ to the scores of masked keys, and multiplies their values by 0: NaN and infinity stay"


defect, *_ = rows_of("")
COMMON = (
    defect("Gelu: 1 + erf cancels", GELU_TAIL, "gelu/at -5*, gelu/far left", dtypes="float32", equation=printed_gelu),
    defect("Gelu (tanh): 1 + tanh cancels", GELU_TANH_TAIL, ("gelu/tanh, far left",), equation=printed_gelu),
    defect("Elu: exp(x) - 1", ELU, "elu/around zero", equation=printed_elu),
    defect("LogSoftmax: log of the sum", LOG_SOFTMAX, LOST_LOGARITHMS, parts=PRINTED_LOGARITHM),
    defect("SoftmaxCrossEntropyLoss: log of the sum", ENTROPY, SURE_ENTROPY, parts=PRINTED_LOGARITHM),
)  # fmt: skip


def common(framework: str, *without: str) -> tuple[KnownDefect, ...]:
    """What nearly all of them write as textbooks do, without the operators that this one has right, or not at all."""
    chosen = [known for known in COMMON if not known.issue.startswith(without)]
    return tuple(replace(known, framework=framework) for known in chosen)


def in_float32(framework: str, issue: str, why: str, *names: str) -> tuple[KnownDefect, ...]:
    """The common ones of these names where float64 is computed in float32, which is known as `issue`."""
    chosen = [known for known in COMMON if known.issue.startswith(names)]
    return beside(KnownDefect(framework, issue, why, dtypes=("float64",), computed_in="float32"), *chosen)


ONNX_ATTENTION = "Attention, as ONNX defines it by other operators, rounds √(1/√d) to float32, also in float64"
ONNX_GELU = "Gelu (tanh), as ONNX defines it by other operators, has its constants in float32, also in float64"
ONNX_GROUPS = "GroupNormalization, as ONNX defines it by other operators, takes " + IN_ONE_PASS
MEAN_30 = ("group_norm/signals of mean 30", "instance_norm/signals of mean 30")

defect, convention, also = rows_of("ONNXRuntime")
ONNXRUNTIME = (
    defect("microsoft/onnxruntime#22557", "Sigmoid of a number below −18 is 0 where eˣ is right, and so x σ(x)",
        "sigmoid/far left, silu/far left", dtypes="float32",
        parts={logistic: partial(coarse_logistic, absolute=2.0**-23, least=-18)}),
    defect("Sigmoid in float64: 1 - sigmoid(-x)",
        "Sigmoid of a negative number as 1 − σ(−x) in float64: no digit is left below −36, and few above",
        "sigmoid/far left, silu/far left", dtypes="float64", parts={logistic: logistic_by_complement}),
    defect("ONNX's Gelu (tanh): float32 constants", ONNX_GELU, "gelu/tanh*", dtypes="float64", computed_in="float32"),
    *common("ONNXRuntime"),
    *in_float32("ONNXRuntime", "ONNX's Gelu (tanh): float32 constants", ONNX_GELU, "Gelu (tanh)"),
    defect("ONNX's GroupNormalization: one pass", ONNX_GROUPS, "group_norm/signals of mean 30", parts=ONE_PASS),
    convention(HIDDEN, ADDED, "attention/*in a masked*", parts=attending(hidden="added")),
    defect("ONNX's Attention: scale in float32", ONNX_ATTENTION, ATTENTIONS, dtypes="float64", computed_in="float32"),
    defect(HIDDEN, ADDED,
        "attention/*in a masked*", dtypes="float64", computed_in="float32", parts=attending(hidden="added")),
    defect("Attention: a mask of one row",
        "Attention of float32 fails with a mask (B, H, 1, M), which broadcasts over the queries",
        "attention/mask of padding", dtypes="float32", fails=True),
    also("upsample/*factor 1.125", SAME_LENGTH),
)  # fmt: skip

defect, convention, also = rows_of("ONNX")
EVALUATOR = (
    defect("Erf in float32", "Erf is taken in float32, also of float64",
        "erf/*", dtypes="float64", computed_in="float32"),
    defect("ONNX's Gelu (tanh): float32 constants", ONNX_GELU, "gelu/tanh*", dtypes="float64", computed_in="float32"),
    defect("Erf in float32", "Gelu's Erf is taken in float32", "gelu/[!t]*", dtypes="float64", computed_in="float32"),
    *common("ONNX", "Elu"),
    *in_float32("ONNX", "ONNX's Gelu (tanh): float32 constants", ONNX_GELU, "Gelu (tanh)"),
    *in_float32("ONNX", "Erf in float32", "Gelu's Erf is taken in float32", "Gelu: "),
    defect("Gelu: 1 + erf cancels", GELU_TAIL, "gelu/at -5*, gelu/far left", dtypes="float64", equation=printed_gelu),
    defect("onnx/onnx#8423", LOG_OF_SOFTMAX,
        (*UNDERFLOWN, "cross_entropy/logits 100"), dtypes="float32", parts=LOGARITHM_OF_SOFTMAX),
    defect("onnx/onnx#8423", LOG_OF_SOFTMAX, UNDERFLOWN, dtypes="float64", parts=LOGARITHM_OF_SOFTMAX),
    defect("onnx/onnx#8423", LOG_OF_SOFTMAX, "log_softmax/logits 100, cross_entropy/logits 100", dtypes="float32"),
    defect("onnx/onnx#8441", "ReduceLogSumExp of −∞ alone is NaN, not −∞",
        "logsumexp/-inf alone", equation=logsumexp_from_maximum),
    defect("ONNX's GroupNormalization: one pass", ONNX_GROUPS, "group_norm/signals of mean 30", parts=ONE_PASS),
    convention(HIDDEN, ADDED, "attention/*in a masked*", parts=attending(hidden="added")),
    defect("onnx/onnx#8446", "ConvTranspose fails with groups", "convolution_transpose/*groups", fails=True),
    defect("GatherElements: axis -1",
        "GatherElements fails along the last axis, counted from the end, where indices are shorter",
        "take_along_axis/*", fails=True),
    defect("AveragePool: ceil_mode pads in front",
        "what ceil_mode adds to x is put in front of it, and so every window is another one",
        ("average_pool/1-D, ceil mode",)),
)  # fmt: skip
defect, convention, also = rows_of("OpenVINO")
OPENVINO = (
    defect("Erf: absolute error", "Erf has an absolute error of 2e-7: no digit is right near 0", "erf/*", off_by=2e-7),
    *common("OpenVINO"),
    defect("openvinotoolkit/openvino#35931",
        "SoftPlus of negative numbers has an absolute error of 4e-6, and is 0 or 4e-6 where eˣ is right",
        ("softplus/*", "binary_cross_entropy/none", TAILS), off_by=4e-6),
    defect("Attention: NaN behind a mask makes every row 0",
        "a NaN or infinity in a masked key or value makes all rows 0, whatever else they may attend to",
        "attention/*in a masked*"),
    defect("LpNormalization: an epsilon in the root",
        "LpNormalization takes √(|x|² + 1.2e-7): rows of length 1e-3 are 5 % too short",
        "cosine_attention/keys of any length", parts={unit_rows.page: longer_rows(2.0**-23)}),
    defect(WINDOWS, WINDOW, "window_attention/*", equation=without_window),
    defect("openvinotoolkit/openvino#33369", CEILED, ("max_pool/2-D, ceil mode, padded",)),
    defect("AveragePool: ceil_mode beyond the padding",
        "places beyond x and its padding are counted: a sum of 8 numbers is divided by 12",
        ("average_pool/2-D, ceil mode, padded",)),
    also("upsample/*factor 1.125", SAME_LENGTH),
)  # fmt: skip
NO_SHIFT = "ReduceLogSumExp takes exp without the maximum subtracted: infinity from logits of 100"
SCALAR = "an array of OpenCV has one axis at least: a result of shape () comes back as (1,)"
MEAN_OF_ALL = "a fully masked row gives the mean of all values"
defect, convention, also = rows_of("OpenCV")
OPENCV = (
    defect("a scalar has shape (1,)", SCALAR, "det/[!s]*", equation=of_one_axis(DET.equation)),
    defect("a scalar has shape (1,)", SCALAR, "det/s*", equation=of_one_axis(DET.equation)),
    defect("a scalar has shape (1,)", SCALAR,
        SCALAR_ENTROPIES, equation=of_one_axis(CROSS_ENTROPY.equation), parts=PRINTED_LOGARITHM),
    *common("OpenCV", "Gelu (tanh)"),
    defect("Gelu: approximate has no effect",
        "Gelu with approximate='tanh' is the erf form, off by up to 5e-4, and no error says so",
        "gelu/tanh*", equation=erf_form),
    defect("Softplus: overflow", "Softplus as log(1 + eˣ) is infinite where eˣ is",
        (TAILS,), equation=sure_of_softplus),
    defect("LogSoftmax: log(softmax)", LOG_OF_SOFTMAX, "log_softmax/logits 100"),
    defect("LogSoftmax: log(softmax)", LOG_OF_SOFTMAX, UNDERFLOWN, parts=LOGARITHM_OF_SOFTMAX),
    defect("ReduceLogSumExp: no maximum", NO_SHIFT, OVERFLOWN, equation=logsumexp_without_maximum),
    defect("fastNorm: one pass",
        f"LayerNormalization and its kin take {IN_ONE_PASS}: −493 where −2.1 is right for a mean of 1e4",
        ("layer_norm/mean *", "layer_norm/1024 rows*", *MEAN_30), parts=ONE_PASS),
    also("attention/*in a masked*", JAX_MASKED_NAN),
    convention(MEAN_OF_ALL, MASKED_ROW, "attention/*", parts=attending(no_keys="mean")),
    defect(MEAN_OF_ALL, MASKED_ROW,
        "multi_head_with_weights/fully*, encoder_fast_path/a seq*", parts=attending(no_keys="mean")),
    defect(NOTHING, NAN_ROW, "multi_head_additive_mask/fully*", parts=NAN_FOR_NO_KEYS),
    defect("Attention: softcap after the mask",
        "softcap is taken of scores that are −∞ already, c tanh(−∞/c) = −c: masked keys are seen; right until opset 23",
        "softcap_attention/bias and mask"),
    defect("operators with several outputs",
        "BatchNormalization in training mode and Attention's scores fail: outShapes.size() == outTypes.size()",
        "batch_norm/*, attention_scores/*", fails=True),
    defect("ScatterElements fails", "an assertion about the axis fails", "scatter/*", fails=True),
    defect("Resize by factors fails",
        "with scales and without sizes there are three inputs, which an assertion excludes",
        ("upsample/*twice", "upsample/*factor 1*", "upsample/3-D, trilinear, corners"), fails=True),
    defect("arrays without elements", "a Gather of nothing gives no array, and a Reshape to no elements fails",
        "embedding/no tokens, set_convolution/empty set", fails=True),
    defect("LpNormalization: an epsilon in the root", "LpNormalization takes √(|x|² + 1e-10)",
        "cosine_attention/keys of any length", parts={unit_rows.page: longer_rows(1e-10)}),
    defect(WINDOWS, WINDOW, "window_attention/*", equation=without_window),
    defect("pools: ceil_mode", CEILED, ("*_pool/2-D, ceil mode, padded",)),
    defect("AveragePool: ceil_mode beyond x", "places beyond x are counted: one number is divided by 3",
        ("average_pool/1-D, ceil mode",)),
    defect("Resize: coordinates", "bilinear weights are off by some units of 1e-6",
        ("upsample/2-D, bilinear*",), off_by=1e-5),
)  # fmt: skip
ALWAYS_SINGLE = "is computed in float32, also in float64"
defect, convention, also = rows_of("tract")
TRACT = (
    defect("Erf: absolute error", "Erf has an absolute error of 1e-6: no digit is right near 0, and few of Gelu",
        "erf/*, gelu/ordinary", dtypes="float32", off_by=2e-6),
    *common("tract", "SoftmaxCrossEntropyLoss"),
    defect("Sigmoid: clamped",
        "Sigmoid of anything below −14 is 4.5e-7, and x σ(x) so grows with |x|; of anything above 18 it is 1 − 5e-7",
        "sigmoid/far*, silu/far*", dtypes="float32", parts={logistic: partial(coarse_logistic, absolute=6e-7)}),
    defect("Softplus: log(1 + exp(x))", LOG_ONE_PLUS, "softplus/*", equation=printed_softplus),
    defect("Softplus: log(1 + exp(x))", LOG_ONE_PLUS, (TAILS,), equation=sure_of_softplus),
    defect("LogSoftmax: log(softmax)", LOG_OF_SOFTMAX, "log_softmax/logits 100"),
    defect("LogSoftmax: log(softmax)", LOG_OF_SOFTMAX, UNDERFLOWN, parts=LOGARITHM_OF_SOFTMAX),
    defect("ReduceLogSumExp: no maximum", NO_SHIFT, OVERFLOWN, equation=logsumexp_without_maximum),
    defect("norms in float32", f"the first part {ALWAYS_SINGLE}; stash_type has no effect",
        "*_norm/*", dtypes="float64", computed_in="float32"),
    defect(WINDOWS, WINDOW, "window_attention/*", equation=without_window),
    defect(WINDOWS, WINDOW, "window_attention/*", dtypes="float64", computed_in="float32", equation=without_window),
    defect("Attention in float32", f"Attention {ALWAYS_SINGLE}", ATTENTIONS, dtypes="float64", computed_in="float32"),
    defect("Attention: a mask of truth values is added",
        "where values are wider or narrower than keys, True and False are added to the scores as 1 and 0: nothing is "
        "hidden, and no error says so",
        "general_attention/mask", dtypes="float32"),
    defect("Attention in float64: values of another width",
        "Attention fails in float64 where values are wider or narrower than keys: EinSumMatMul, suitable.len() > 0",
        "attention/values of another width, *_widths/of heads*, general_attention/*", dtypes="float64", fails=True),
    defect("Attention: a mask of truth values",
        "Attention fails with a mask of truth values: FlashSDPA, mask must be floating point",
        ATTENTIONS, fails=True),
    defect("Gemm in float64", "Gemm fails in float64: its beta is a tensor of float32",
        "linear/*", dtypes="float64", fails=True),
    defect("BatchNormalization: training mode", "BatchNormalization in training mode has three outputs, tract's one",
        "batch_norm/*", fails=True),
    defect(NOTHING, NAN_ROW, "multi_head_additive_mask/fully*", parts=NAN_FOR_NO_KEYS),
    defect(NOTHING, NAN_ROW,
        "multi_head_additive_mask/f*", dtypes="float64", computed_in="float32", parts=NAN_FOR_NO_KEYS),
    defect("Resize in float32", f"Resize {ALWAYS_SINGLE}", "upsample/*", dtypes="float64", computed_in="float32"),
    defect("ReduceMean in float32", f"ReduceMean {ALWAYS_SINGLE}", "mse/*", dtypes="float64", computed_in="float32"),
)  # fmt: skip
