"""Chapter 2, the layers: one idea a page, the function with its hand-written gradient, then its module.

How a page is read. A function under @page is plain NumPy and returns its value with `vjp`, which takes the gradient of
the value to those of the arguments, in their order: `y_bar` is ȳ, and a gradient has the shape that is computed; the
walk back along the tape sums it over axes along which its argument was broadcast. The words that are not NumPy's:

    @page("x (..., D), gain (D)?")    shapes: ? may be left out, `to` broadcasts to, `hides` is what a mask hides
                                      ; another form of a call; all signs: refnp/autograd/notation.py
    kernel=, of_every_array=          the same for speed, on arrays of floats; on longdouble and complex ones too
    around=, check=                   what is set apart in front of both (hidden NaN); what is refused
    softmax.page(x)                   a page inside another: its value and its vjp
    @part                             a helper, in whose place `refnp verify` may put what another framework computes
    @takes …, @explained, @of_several arguments checked, errors that name them, several results: no value changes

    constant(c), root(c), pi          numbers of the formula, c, √c and π, rounded once, by an array or `.like(array)`
    nonzero(x)                        x, and 1 where it is 0: for what is divided by
    peak(x), largest(x)               the maximum of each row, 0 for a row of −∞; where it stands, the first of equals
    shares(e)                         e_i / Σ_j e_j of each row
    read_at(x, places), added_at      x at places, 0 at none; the adjoint, the sum of what comes from each place
    everywhere, arange, full, einsum  NumPy's broadcast_to, arange, full, einsum
    x.real                            x: complex numbers are for derivatives by the complex step, and only choose forms
"""

from refnp.layers import masks
from refnp.layers.activation import elu, gelu, leaky_relu, relu, sigmoid, silu, softplus
from refnp.layers.attention import attention, attention_scores, attention_with_weights, column_attention
from refnp.layers.convolution import Convolution, ConvolutionTranspose, convolution, convolution_transpose
from refnp.layers.cross_entropy import cross_entropy
from refnp.layers.distributions import Categorical, Normal, kl_divergence
from refnp.layers.group_norm import (
    BatchNorm,
    GroupNorm,
    InstanceNorm,
    batch_norm,
    group_norm,
    instance_norm,
)
from refnp.layers.grouped_attention import grouped_attention
from refnp.layers.key_value_cache import KeyValueCache
from refnp.layers.layer_norm import LayerNorm, RMSNorm, layer_norm, rms_norm
from refnp.layers.linear import MLP, Embedding, Linear, embedding
from refnp.layers.linear_attention import linear_attention, positive_features
from refnp.layers.loss import binary_cross_entropy, gaussian_nll, huber, mse
from refnp.layers.mixture import Mixture
from refnp.layers.module import Module
from refnp.layers.multi_head import MultiHeadAttention, merge_heads, split_heads
from refnp.layers.multivariate_normal import LowRankNormal, MultivariateNormal
from refnp.layers.pooling import adaptive_average_pool, adaptive_max_pool, average_pool, max_pool
from refnp.layers.positions import (
    ALiBi,
    ImagePositions,
    LearnedPositions,
    RelativePositions,
    Rotary,
    Shaw,
    SinusoidalPositions,
    T5Bias,
    image_places,
    rotate,
    sinusoidal,
)
from refnp.layers.regularization import dropout
from refnp.layers.set_convolution import Grid, GridOptions, SetConvolution, set_convolution
from refnp.layers.similarity import similarity_attention
from refnp.layers.softmax import log_softmax, softmax
from refnp.layers.student_t import StudentT
from refnp.layers.translation_attention import TranslationAttention
from refnp.layers.unet import SimpleCNN, UNet
from refnp.layers.upsampling import upsample

# fmt: off
__all__ = [
    "MLP", "ALiBi", "BatchNorm", "Categorical", "Convolution", "ConvolutionTranspose", "Embedding", "Grid",
    "GridOptions", "GroupNorm", "ImagePositions", "InstanceNorm", "KeyValueCache", "LayerNorm", "LearnedPositions",
    "Linear", "LowRankNormal", "Mixture", "Module", "MultiHeadAttention", "MultivariateNormal", "Normal", "RMSNorm",
    "RelativePositions", "Rotary", "SetConvolution", "Shaw", "SimpleCNN", "SinusoidalPositions", "StudentT",
    "T5Bias", "TranslationAttention", "UNet", "adaptive_average_pool", "adaptive_max_pool", "attention",
    "attention_scores", "attention_with_weights", "average_pool", "batch_norm", "binary_cross_entropy",
    "column_attention", "convolution", "convolution_transpose", "cross_entropy", "dropout", "elu", "embedding",
    "gaussian_nll", "gelu", "group_norm", "grouped_attention", "huber", "image_places", "instance_norm",
    "kl_divergence", "layer_norm", "leaky_relu", "linear_attention", "log_softmax", "masks", "max_pool",
    "merge_heads", "mse", "positive_features", "relu", "rms_norm", "rotate", "set_convolution", "sigmoid", "silu",
    "similarity_attention", "sinusoidal", "softmax", "softplus", "split_heads", "upsample",
]
# fmt: on


def __dir__() -> list[str]:
    return __all__
