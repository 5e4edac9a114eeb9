"""What frameworks are known to get wrong, and where it was reported. The cases name these; nothing is hidden by them.

A known defect is shown with the claimed and the right value. One that no longer shows counts as "within bound".
Where `issue` is not a number, we found no report.
"""

from __future__ import annotations

from refnp.verify.case import Known

TORCH, JAX = "PyTorch", "JAX"
X = ("gradient of x",)
DOUBLE = ("float64",)

MHA_MASKED_ROW = Known(
    TORCH,
    "pytorch/pytorch#160064",
    "nn.MultiheadAttention with need_weights=True: NaN where a row may attend to nothing",
)
ENCODER_FAST_PATH = Known(
    TORCH,
    "pytorch/pytorch#190486",
    "nn.TransformerEncoderLayer's fast path: NaN for a sequence of padding; 0 otherwise",
)
GELU_TAIL = Known(
    TORCH, "pytorch/pytorch#187806", "gelu as x/2 (1 + erf): 1 + erf cancels, no digit is left in the left tail"
)
LOG_SOFTMAX_NEAR_ZERO = Known(
    TORCH,
    "pytorch/pytorch#113708",
    "log_softmax as x − log Σ exp: a log p near 0 becomes 0; log1p of the rest keeps it",
    ("output",),
)
LOG_SOFTMAX_VJP = Known(
    TORCH,
    "pytorch/pytorch#195680",
    "log_softmax's VJP forms 1 − p with p rounded to 1, and drops that component",
    ("gradient of x", "gradient of logits"),
)
LAYER_NORM_ONE = Known(
    TORCH,
    "pytorch/pytorch#188372",
    "layer_norm over one element: x̂ is 0, and so the weight's gradient; rounding leaves some",
    ("gradient of gain",),
)
MASKED_NAN = Known(
    TORCH,
    "pytorch/pytorch#101967",
    "scaled_dot_product_attention: NaN or infinity in a masked key or value comes through",
)
LOGSUMEXP_NOTHING = Known(
    TORCH,
    "logsumexp of -inf: NaN gradient",
    "logsumexp of −inf alone: −inf has no slope, its gradient is 0 (pytorch/pytorch#49724)",
)
EIGHT = (
    MHA_MASKED_ROW,
    ENCODER_FAST_PATH,
    GELU_TAIL,
    LOG_SOFTMAX_NEAR_ZERO,
    LOG_SOFTMAX_VJP,
    LAYER_NORM_ONE,
    MASKED_NAN,
    LOGSUMEXP_NOTHING,
)

SIGMOID_VJP = Known(
    TORCH,
    "pytorch/pytorch#195681",
    "sigmoid's gradient forms 1 − σ with σ rounded to 1: nothing left in the right tail",
    X,
)
SILU_VJP = Known(TORCH, "silu: gradient by 1 - sigmoid", "silu's gradient multiplies the rounding of 1 − σ by x", X)
GELU_TANH_TAIL = Known(
    TORCH,
    "gelu tanh: 1 + tanh cancels",
    "gelu(tanh) as x/2 (1 + tanh): no digit is left in the left tail; x σ(2u) keeps all",
)
GELU_TANH_VJP = Known(
    TORCH, "gelu tanh: gradient by 1 - tanh^2", "gelu(tanh)'s gradient forms 1 − tanh² by subtraction", X
)
SOFTPLUS_THRESHOLD = Known(
    TORCH,
    "softplus: linear above threshold=20",
    "softplus is x above 20, as documented; log1p(e^−x) is 2e-9 there",
    dtypes=DOUBLE,
)
LOGSUMEXP_VJP = Known(
    TORCH,
    "logsumexp: gradient exp(x - y)",
    "logsumexp's gradient exp(x − y) takes y rounded: |y| u of relative error",
    X,
)
NORMAL_KL = Known(
    TORCH,
    "kl_divergence of normals: r^2 - 1 - log r^2",
    "kl_divergence of normals forms r² − 1 with r = σ_p/σ_q rounded: it cancels where σ_p and σ_q nearly agree",
    ("output", "gradient of std_p", "gradient of std_q"),
)
CATEGORICAL_LOGITS = Known(
    TORCH,
    "Categorical: logits - logsumexp",
    "distributions.Categorical takes logits − logsumexp, rounded to |logits| u",
)
JAX_ELU_VJP = Known(
    JAX, "jax-ml/jax#39795", "elu's gradient is expm1(x) + 1: it cancels, nothing left in the left tail", X
)
JAX_SIGMOID_VJP = Known(JAX, "jax-ml/jax#40385", "sigmoid's gradient forms 1 − σ with σ rounded to 1", X)
JAX_SILU_VJP = Known(JAX, "jax-ml/jax#40385", "silu's gradient forms 1 − σ, and multiplies its rounding by x", X)
JAX_SOFTPLUS_VJP = Known(JAX, "softplus: gradient exp(x - y)", "softplus' gradient exp(x − y) takes y rounded", X)
JAX_GELU_TANH_TAIL = Known(
    JAX,
    "gelu tanh: 1 + tanh cancels",
    "gelu(tanh) as x/2 (1 + tanh): no digit is left in the left tail; x σ(2u) keeps all",
)
JAX_GELU_TANH_VJP = Known(
    JAX, "gelu tanh: gradient by 1 - tanh^2", "gelu(tanh)'s gradient forms 1 − tanh² by subtraction", X
)
JAX_ERFC_TAIL = Known(
    JAX, "erfc: exp(-x*x)", "erfc takes exp(−x·x): the rounding of x² is magnified x² times", ("output",)
)
JAX_LOG_SOFTMAX = Known(
    JAX, "log_softmax: log of the sum", "log_softmax as x − log Σ exp: a log p near 0 becomes 0", ("output",)
)
JAX_LOG_SOFTMAX_VJP = Known(
    JAX, "log_softmax: gradient by 1 - p", "log_softmax's VJP forms 1 − p with p rounded to 1", X
)
JAX_LOGSUMEXP_NOTHING = Known(JAX, "jax-ml/jax#6811", "logsumexp of −inf alone: NaN gradient")
JAX_VARIANCE = Known(
    JAX, "jax-ml/jax#37281", "nn.standardize takes E[x²] − E[x]² unless asked for algorithm='stable': it cancels"
)
JAX_ATTENTION_DOUBLE = Known(
    JAX,
    "dot_product_attention: float32 softmax",
    "dot_product_attention takes its softmax in float32, also of float64",
    dtypes=DOUBLE,
)
JAX_MASKED_ROW = Known(
    JAX,
    "dot_product_attention: fully masked row",
    "a query that may attend to nothing gets the mean of all values, not 0",
)
JAX_MASKED_NAN = Known(
    JAX,
    "dot_product_attention: masked NaN",
    "dot_product_attention: NaN or infinity in a masked key or value comes through",
)
