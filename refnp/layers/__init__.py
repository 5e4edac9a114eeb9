"""Chapter 2, the layers: one idea a page, the function with its hand-written gradient, then its module."""

from refnp.layers import masks
from refnp.layers.activations import elu, gelu, leaky_relu, relu, sigmoid, silu, softplus
from refnp.layers.attention import attention, column_attention
from refnp.layers.convolution import Convolution, ConvolutionTranspose, convolution, convolution_transpose
from refnp.layers.distributions import Categorical, MultivariateNormal, Normal, kl_divergence
from refnp.layers.dropout import dropout
from refnp.layers.embedding import Embedding, embedding
from refnp.layers.image_positions import ImagePositions, image_places
from refnp.layers.key_value_cache import KeyValueCache
from refnp.layers.layer_norm import LayerNorm, RMSNorm, layer_norm, rms_norm
from refnp.layers.linear import MLP, Linear
from refnp.layers.losses import cross_entropy, gaussian_nll, mse
from refnp.layers.mixtures import Mixture
from refnp.layers.module import Module
from refnp.layers.multi_head import MultiHeadAttention, merge_heads, split_heads
from refnp.layers.pooling import average_pool, max_pool, upsample
from refnp.layers.position_biases import ALiBi, T5Bias
from refnp.layers.positions import LearnedPositions, SinusoidalPositions, sinusoidal
from refnp.layers.relative_positions import RelativePositions, Shaw
from refnp.layers.rotary import Rotary, rotate
from refnp.layers.set_convolution import SetConvolution, set_convolution
from refnp.layers.softmax import log_softmax, softmax
from refnp.layers.translation_attention import TranslationAttention
from refnp.layers.unet import SimpleCNN, UNet
