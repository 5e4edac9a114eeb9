"""Chapter 3, the models: Transformers and neural processes, built from layers."""

from refnp.models.attentive import ANP, CANP, AttentionBlock, AttnCNP
from refnp.models.bootstrap import BANP, BNP
from refnp.models.chain_rule import random_orders
from refnp.models.convcnp import ConvCNP
from refnp.models.convcnp_image import OnGridConvCNP
from refnp.models.convgnp import ConvGNP
from refnp.models.decoder_only import GPT, GatedMLP, LLaMA
from refnp.models.decoding import beam_search, greedy, log_probability
from refnp.models.joint import Autoregressive
from refnp.models.latent import LatentNP, elbo, importance_weighted_bound
from refnp.models.neural_process import CNP, NeuralProcess, SetEncoder
from refnp.models.pseudo_tokens import PseudoTETNP, PseudoTNP
from refnp.models.te_tnp import TETNP, TranslationLayer
from refnp.models.tnp import TNPA, TNPD, TNPND, autoregressive_mask, diagonal_mask, nondiagonal_mask
from refnp.models.transformer import Transformer
from refnp.models.transformer_layers import DecoderLayer, EncoderLayer
from refnp.models.transformer_stacks import Decoder, Encoder, EncoderDecoder
from refnp.models.vision import FeatureTokens, ImageClassifier, PatchTokens

# fmt: off
__all__ = [
    "ANP", "BANP", "BNP", "CANP", "CNP", "GPT", "TETNP", "TNPA", "TNPD", "TNPND", "AttentionBlock", "AttnCNP",
    "Autoregressive", "ConvCNP", "ConvGNP", "Decoder", "DecoderLayer", "Encoder", "EncoderDecoder", "EncoderLayer",
    "FeatureTokens", "GatedMLP", "ImageClassifier", "LLaMA", "LatentNP", "NeuralProcess", "OnGridConvCNP",
    "PatchTokens", "PseudoTETNP", "PseudoTNP", "SetEncoder", "Transformer", "TranslationLayer",
    "autoregressive_mask", "beam_search", "diagonal_mask", "elbo", "greedy", "importance_weighted_bound",
    "log_probability", "nondiagonal_mask", "random_orders",
]
# fmt: on


def __dir__() -> list[str]:
    return __all__
