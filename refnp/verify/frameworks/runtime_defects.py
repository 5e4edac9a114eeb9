"""What runtimes of ONNX models are known to get wrong, and where they mean another function; by case, in their order.

Where no report was found, `issue` is a few words. Errors of a function that ONNX itself defines by a graph of operators
(Attention, GroupNormalization, Gelu) show in every runtime that takes the graph for it.
"""

from dataclasses import replace

from refnp.verify.case import Convention, KnownDefect
from refnp.verify.layers.pooling import copied_where_it_stays

SINGLE, DOUBLE = ("float32",), ("float64",)
ATTENTION = ("attention/*", "softcap_attention*", "window_attention/*", "causal_attention/*", "attention_scores/*")
ATTENTIONS = (
    *ATTENTION,
    "cosine_attention/*",
    "general_attention/*",
    "rotary_attention/*",
    "multi_head*",
    "encoder_*",
    "decoder_*",
    "transformer/*",
)
LOST_LOGARITHMS = (
    "log_softmax/20 and 0",
    "log_softmax/one component*",
    "log_softmax/logits 100",
    "log_softmax/one of*",
)
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
COPIED = "an axis whose length stays is copied"

GELU_TAIL = "Gelu as x/2 (1 + erf): 1 + erf cancels, no digit is left in the left tail"
GELU_TANH_TAIL = "Gelu (tanh) as x/2 (1 + tanh): no digit is left in the left tail"
ELU = "Elu as exp(x) − 1: nothing left of small x"
LOG_SOFTMAX = "LogSoftmax as x − log Σ exp: a log p near 0 becomes 0; log1p of the rest keeps it"
ENTROPY = "SoftmaxCrossEntropyLoss by x − log Σ exp: a loss near 0 becomes 0"
LOG_OF_SOFTMAX = "LogSoftmax as log(softmax): a probability that underflows gives −∞, one near 1 gives 0"
ONE_PASS = "the variance as E[x²] − E[x]², which cancels where the mean is large"
LOG_ONE_PLUS = "Softplus as log(1 + eˣ): no digit of a small eˣ is left, and of a large x it is infinite"
WINDOW = "left_window_size and right_window_size (opset 25) have no effect, and no error says so"
ADDED = "Attention adds −∞ to the scores of masked keys, and multiplies their values by 0: NaN and infinity stay"
STAYS = "Resize copies an axis whose length a factor of 1.125 leaves at 5, where c = (i + ½)/f − ½ moves its places"


COMMON = (
    KnownDefect("", "Gelu: 1 + erf cancels", GELU_TAIL, (), SINGLE, ("gelu/at -5*", "gelu/far left")),
    KnownDefect("", "Gelu (tanh): 1 + tanh cancels", GELU_TANH_TAIL, cases=("gelu/tanh, far left",)),
    KnownDefect("", "Elu: exp(x) - 1", ELU, cases=("elu/around zero",)),
    KnownDefect("", "LogSoftmax: log of the sum", LOG_SOFTMAX, cases=LOST_LOGARITHMS),
    KnownDefect("", "SoftmaxCrossEntropyLoss: log of the sum", ENTROPY, cases=SURE_ENTROPY),
)


def common(framework: str, *without: str) -> tuple[KnownDefect, ...]:
    """What nearly all of them write as textbooks do, without the operators that this one has right, or not at all."""
    chosen = [known for known in COMMON if not known.issue.startswith(without)]
    return tuple(replace(known, framework=framework) for known in chosen)


def hidden(framework: str, how: str, why: str, *cases: str) -> Convention:
    """NaN and infinity behind a mask come through, as they do where −∞ is added to scores, or selected."""
    return Convention(framework, HIDDEN, why, cases=cases, options={"hidden": how})


ONNX_ATTENTION = "Attention, as ONNX defines it by other operators, rounds √(1/√d) to float32, also in float64"
ONNX_GELU = "Gelu (tanh), as ONNX defines it by other operators, has its constants in float32, also in float64"
ONNX_GROUPS = "GroupNormalization, as ONNX defines it by other operators, takes " + ONE_PASS
MEAN_30 = ("group_norm/signals of mean 30", "instance_norm/signals of mean 30")

ONNXRUNTIME = (
    KnownDefect(
        "ONNXRuntime",
        "microsoft/onnxruntime#22557",
        "Sigmoid of a number below −18 is 0 where eˣ is right, and so x σ(x)",
        (),
        SINGLE,
        ("sigmoid/far left", "silu/far left"),
    ),
    KnownDefect(
        "ONNXRuntime",
        "Sigmoid in float64: 1 - sigmoid(-x)",
        "Sigmoid of a negative number as 1 − σ(−x) in float64: no digit is left below −36, and few above",
        (),
        DOUBLE,
        ("sigmoid/far left", "silu/far left"),
    ),
    KnownDefect(
        "ONNXRuntime", "ONNX's Gelu (tanh): float32 constants", ONNX_GELU, (), DOUBLE, ("gelu/tanh*",), "float32"
    ),
    *common("ONNXRuntime"),
    KnownDefect(
        "ONNXRuntime", "ONNX's GroupNormalization: one pass", ONNX_GROUPS, cases=("group_norm/signals of mean 30",)
    ),
    hidden("ONNXRuntime", "added", ADDED, "attention/*in a masked*"),
    KnownDefect("ONNXRuntime", "ONNX's Attention: scale in float32", ONNX_ATTENTION, (), DOUBLE, ATTENTIONS, "float32"),
    KnownDefect("ONNXRuntime", HIDDEN, ADDED, (), DOUBLE, ("attention/*in a masked*",)),  # by a scale in float32, too
    KnownDefect(
        "ONNXRuntime",
        "Attention: a mask of one row",
        "Attention of float32 fails with a mask (B, H, 1, M), which broadcasts over the queries",
        (),
        SINGLE,
        ("attention/mask of padding",),
        fails=True,
    ),
    Convention("ONNXRuntime", COPIED, STAYS, cases=("upsample/*factor 1.125",), equation=copied_where_it_stays),
)

EVALUATOR = (
    KnownDefect(
        "ONNX", "Erf in float32", "Erf is taken in float32, also of float64", (), DOUBLE, ("erf/*",), "float32"
    ),
    KnownDefect("ONNX", "ONNX's Gelu (tanh): float32 constants", ONNX_GELU, (), DOUBLE, ("gelu/tanh*",), "float32"),
    KnownDefect("ONNX", "Erf in float32", "Gelu's Erf is taken in float32", (), DOUBLE, ("gelu/[!t]*",), "float32"),
    *common("ONNX", "Elu"),
    KnownDefect("ONNX", "Gelu: 1 + erf cancels", GELU_TAIL, (), DOUBLE, ("gelu/at -5*", "gelu/far left")),
    KnownDefect("ONNX", "onnx/onnx#8423", LOG_OF_SOFTMAX, (), SINGLE, (*UNDERFLOWN, "cross_entropy/logits 100")),
    KnownDefect("ONNX", "onnx/onnx#8423", LOG_OF_SOFTMAX, (), DOUBLE, UNDERFLOWN),
    KnownDefect(
        "ONNX", "onnx/onnx#8441", "ReduceLogSumExp of −∞ alone is NaN, not −∞", cases=("logsumexp/-inf alone",)
    ),
    KnownDefect("ONNX", "ONNX's GroupNormalization: one pass", ONNX_GROUPS, cases=("group_norm/signals of mean 30",)),
    hidden("ONNX", "added", ADDED, "attention/*in a masked*"),
    KnownDefect(
        "ONNX",
        "onnx/onnx#8446",
        "ConvTranspose fails with groups",
        cases=("convolution_transpose/*groups",),
        fails=True,
    ),
    KnownDefect(
        "ONNX",
        "GatherElements: axis -1",
        "GatherElements fails along the last axis, counted from the end, where indices are shorter",
        cases=("take_along_axis/*",),
        fails=True,
    ),
    KnownDefect(
        "ONNX",
        "AveragePool: ceil_mode pads in front",
        "what ceil_mode adds to x is put in front of it, and so every window is another one",
        cases=("average_pool/1-D, ceil mode",),
    ),
)
OPENVINO = (
    KnownDefect(
        "OpenVINO",
        "Erf: absolute error",
        "Erf has an absolute error of 2e-7: no digit is right near 0",
        cases=("erf/*",),
    ),
    *common("OpenVINO"),
    KnownDefect(
        "OpenVINO",
        "openvinotoolkit/openvino#35931",
        "SoftPlus of negative numbers has an absolute error of 4e-6, and is 0 or 4e-6 where eˣ is right",
        cases=("softplus/*", "binary_cross_entropy/none", TAILS),
    ),
    KnownDefect(
        "OpenVINO",
        "Attention: NaN behind a mask makes every row 0",
        "a NaN or infinity in a masked key or value makes all rows 0, whatever else they may attend to",
        cases=("attention/*in a masked*",),
    ),
    KnownDefect(
        "OpenVINO",
        "LpNormalization: an epsilon in the root",
        "LpNormalization takes √(|x|² + 1.2e-7): rows of length 1e-3 are 5 % too short",
        cases=("cosine_attention/keys of any length",),
    ),
    KnownDefect("OpenVINO", WINDOWS, WINDOW, cases=("window_attention/*",)),
    KnownDefect("OpenVINO", "openvinotoolkit/openvino#33369", CEILED, cases=("max_pool/2-D, ceil mode, padded",)),
    KnownDefect(
        "OpenVINO",
        "AveragePool: ceil_mode beyond the padding",
        "places beyond x and its padding are counted: a sum of 8 numbers is divided by 12",
        cases=("average_pool/2-D, ceil mode, padded",),
    ),
    Convention("OpenVINO", COPIED, STAYS, cases=("upsample/*factor 1.125",), equation=copied_where_it_stays),
)
NO_SHIFT = "ReduceLogSumExp takes exp without the maximum subtracted: infinity from logits of 100"
SCALAR = "an array of OpenCV has one axis at least: a result of shape () comes back as (1,)"
MEAN_OF_ALL = "a fully masked row gives the mean of all values"
OPENCV = (
    KnownDefect("OpenCV", "a scalar has shape (1,)", SCALAR, cases=("det/*", *SCALAR_ENTROPIES)),
    *common("OpenCV", "Gelu (tanh)"),
    KnownDefect(
        "OpenCV",
        "Gelu: approximate has no effect",
        "Gelu with approximate='tanh' is the erf form, off by up to 5e-4, and no error says so",
        cases=("gelu/tanh*",),
    ),
    KnownDefect("OpenCV", "Softplus: overflow", "Softplus as log(1 + eˣ) is infinite where eˣ is", cases=(TAILS,)),
    KnownDefect("OpenCV", "LogSoftmax: log(softmax)", LOG_OF_SOFTMAX, cases=UNDERFLOWN),
    KnownDefect("OpenCV", "ReduceLogSumExp: no maximum", NO_SHIFT, cases=OVERFLOWN),
    KnownDefect(
        "OpenCV",
        "fastNorm: one pass",
        f"LayerNormalization and its kin take {ONE_PASS}: −493 where −2.1 is right for a mean of 1e4",
        cases=("layer_norm/mean *", "layer_norm/1024 rows*", *MEAN_30),
    ),
    hidden("OpenCV", "selected", "masked values are multiplied by 0: NaN and infinity stay", "attention/*in a masked*"),
    Convention("OpenCV", MEAN_OF_ALL, MASKED_ROW, cases=("attention/*",), options={"no_keys": "mean"}),
    KnownDefect(
        "OpenCV", MEAN_OF_ALL, MASKED_ROW, cases=("multi_head_with_weights/fully*", "encoder_fast_path/a seq*")
    ),
    KnownDefect("OpenCV", NOTHING, NAN_ROW, cases=("multi_head_additive_mask/fully*",)),
    KnownDefect(
        "OpenCV",
        "Attention: softcap after the mask",
        "softcap is taken of scores that are −∞ already, c tanh(−∞/c) = −c: masked keys are seen; right until opset 23",
        cases=("softcap_attention/bias and mask",),
    ),
    KnownDefect(
        "OpenCV",
        "operators with several outputs",
        "BatchNormalization in training mode and Attention's scores fail: outShapes.size() == outTypes.size()",
        cases=("batch_norm/*", "attention_scores/*"),
        fails=True,
    ),
    KnownDefect(
        "OpenCV", "ScatterElements fails", "an assertion about the axis fails", cases=("scatter/*",), fails=True
    ),
    KnownDefect(
        "OpenCV",
        "Resize by factors fails",
        "with scales and without sizes there are three inputs, which an assertion excludes",
        cases=("upsample/*twice", "upsample/*factor 1*", "upsample/3-D, trilinear, corners"),
        fails=True,
    ),
    KnownDefect(
        "OpenCV",
        "arrays without elements",
        "a Gather of nothing gives no array, and a Reshape to no elements fails",
        cases=("embedding/no tokens", "set_convolution/empty set"),
        fails=True,
    ),
    KnownDefect(
        "OpenCV",
        "LpNormalization: an epsilon in the root",
        "LpNormalization takes √(|x|² + 1e-10)",
        cases=("cosine_attention/keys of any length",),
    ),
    KnownDefect("OpenCV", WINDOWS, WINDOW, cases=("window_attention/*",)),
    KnownDefect("OpenCV", "pools: ceil_mode", CEILED, cases=("*_pool/2-D, ceil mode, padded",)),
    KnownDefect(
        "OpenCV",
        "AveragePool: ceil_mode beyond x",
        "places beyond x are counted: one number is divided by 3",
        cases=("average_pool/1-D, ceil mode",),
    ),
    KnownDefect(
        "OpenCV",
        "Resize: coordinates",
        "bilinear weights are off by some units of 1e-6",
        cases=("upsample/2-D, bilinear*",),
    ),
)
ALWAYS_SINGLE = "is computed in float32, also in float64"
TRACT = (
    KnownDefect(
        "tract",
        "Erf: absolute error",
        "Erf has an absolute error of 1e-6: no digit is right near 0, and few of Gelu",
        (),
        SINGLE,
        ("erf/*", "gelu/ordinary"),
    ),
    *common("tract", "SoftmaxCrossEntropyLoss"),
    KnownDefect(
        "tract",
        "Sigmoid: clamped",
        "Sigmoid of anything below −14 is 4.5e-7, and x σ(x) so grows with |x|; of anything above 18 it is 1 − 5e-7",
        (),
        SINGLE,
        ("sigmoid/far*", "silu/far*"),
    ),
    KnownDefect("tract", "Softplus: log(1 + exp(x))", LOG_ONE_PLUS, cases=("softplus/*", TAILS)),
    KnownDefect("tract", "LogSoftmax: log(softmax)", LOG_OF_SOFTMAX, cases=UNDERFLOWN),
    KnownDefect("tract", "ReduceLogSumExp: no maximum", NO_SHIFT, cases=OVERFLOWN),
    KnownDefect(
        "tract",
        "norms in float32",
        f"the first part {ALWAYS_SINGLE}; stash_type has no effect",
        (),
        DOUBLE,
        ("*_norm/*",),
        "float32",
    ),
    KnownDefect("tract", WINDOWS, WINDOW, cases=("window_attention/*",)),
    KnownDefect("tract", "Attention in float32", f"Attention {ALWAYS_SINGLE}", (), DOUBLE, ATTENTIONS, "float32"),
    KnownDefect(
        "tract",
        "Attention: a mask of truth values is added",
        "where values are wider or narrower than keys, True and False are added to the scores as 1 and 0: nothing is "
        "hidden, and no error says so",
        (),
        SINGLE,
        ("general_attention/mask",),
    ),
    KnownDefect(
        "tract",
        "Attention in float64: values of another width",
        "Attention fails in float64 where values are wider or narrower than keys: EinSumMatMul, suitable.len() > 0",
        (),
        DOUBLE,
        ("attention/values of another width", "*_widths/of heads*", "general_attention/*"),
        fails=True,
    ),
    KnownDefect(
        "tract",
        "Attention: a mask of truth values",
        "Attention fails with a mask of truth values: FlashSDPA, mask must be floating point",
        (),
        (),
        ATTENTIONS,
        fails=True,
    ),
    KnownDefect(
        "tract",
        "Gemm in float64",
        "Gemm fails in float64: its beta is a tensor of float32",
        (),
        DOUBLE,
        ("linear/*",),
        fails=True,
    ),
    KnownDefect(
        "tract",
        "BatchNormalization: training mode",
        "BatchNormalization in training mode has three outputs, tract's one",
        (),
        (),
        ("batch_norm/*",),
        fails=True,
    ),
    KnownDefect("tract", NOTHING, NAN_ROW, cases=("multi_head_additive_mask/fully*",)),
    KnownDefect("tract", "Resize in float32", f"Resize {ALWAYS_SINGLE}", (), DOUBLE, ("upsample/*",), "float32"),
    KnownDefect("tract", "ReduceMean in float32", f"ReduceMean {ALWAYS_SINGLE}", (), DOUBLE, ("mse/*",), "float32"),
)
