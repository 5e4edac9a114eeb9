"""What is edited: the function of each layer of the table, and pages that it uses through modules."""

import functools
from collections.abc import Callable

from refnp import autograd as ag
from refnp import layers
from refnp.layers.density import categorical_entropy, low_rank_normal_log_prob, multivariate_normal_log_prob
from refnp.layers.divergence import categorical_kl, normal_kl
from refnp.layers.positions.rotary import rotate
from refnp.layers.set_convolution import matern_32, matern_52
from refnp.layers.similarity import additive_scores, unit_rows
from refnp.layers.student_t import student_t_log_prob
from refnp.layers.translation_attention import pair_kernel
from refnp.verify.layers import (
    attention,
    distributions,
    engine,
    linear,
    moves,
    multi_head,
    neural_process_parts,
    optimizers,
    positions,
    schedules,
    softmax,
    training_parts,
    transformer,
    transformer_layers,
)

ALIKE = (
    layers.layer_norm, layers.rms_norm, layers.group_norm, layers.instance_norm, layers.batch_norm, layers.softmax,
    layers.log_softmax, layers.attention_scores, layers.linear_attention, layers.gelu, layers.relu, layers.leaky_relu,
    layers.elu, layers.sigmoid, layers.silu, layers.softplus, layers.mse, layers.huber, layers.gaussian_nll,
    layers.binary_cross_entropy, layers.cross_entropy, layers.convolution, layers.convolution_transpose,
    layers.average_pool, layers.max_pool, layers.adaptive_average_pool, layers.adaptive_max_pool, layers.upsample,
    layers.set_convolution, ag.linear, ag.matmul, engine.var, engine.std, engine.scatter, pair_kernel, rotate,
    student_t_log_prob, multivariate_normal_log_prob, low_rank_normal_log_prob, normal_kl, categorical_kl,
    categorical_entropy,
)  # fmt: skip
OF_FORMULAS = (
    training_parts.RUNNING_VARIANCE, schedules.COSINE, optimizers.ADAM, optimizers.ADAMW, distributions.NORMAL,
)  # fmt: skip
SUBJECTS: dict[str, Callable] = {
    **{function.__name__: function for function in ALIKE},
    "batch_norm of statistics": layers.batch_norm,
    "cross_entropy of probabilities": layers.cross_entropy,
    "logsumexp": softmax.sum_in_log,
    "attention": layers.similarity_attention,
    "softcap_attention": layers.similarity_attention,
    "softcap_attention_output": layers.similarity_attention,
    "causal_attention": attention.with_causal_mask,
    "window_attention": attention.with_window,
    "multi_head": multi_head.refnp_multi_head,
    "multi_head_with_weights": multi_head.refnp_multi_head,
    "multi_head_additive_mask": multi_head.refnp_multi_head,
    "multi_head_widths": multi_head.refnp_multi_head,
    "multi_head_biased": multi_head.refnp_biased_multi_head,
    "encoder_layer": transformer_layers.refnp_encoder_layer,
    "encoder_fast_path": transformer_layers.refnp_encoder_layer,
    "encoder_layer_biased": transformer_layers.refnp_biased_encoder_layer,
    "decoder_layer": transformer_layers.refnp_decoder_layer,
    "decoder_layer_biased": transformer_layers.refnp_biased_decoder_layer,
    "transformer": transformer.refnp_transformer,
    "embedding": linear.refnp_embedding,
    "round": moves.round_to,
    "set_convolution, matern_32": functools.partial(layers.set_convolution, kernel=matern_32),
    "set_convolution, matern_52": functools.partial(layers.set_convolution, kernel=matern_52),
    "rotary_attention": positions.refnp_rotary,
    "sinusoidal_positions": positions.refnp_sinusoidal,
    "learned_positions": positions.refnp_learned,
    "alibi_attention": positions.refnp_alibi,
    "shaw_attention": positions.refnp_shaw,
    "t5_attention": positions.refnp_t5,
    "image_attention": positions.refnp_image,
    "cosine_attention": attention.refnp_cosine,
    "general_attention": attention.refnp_general,
    "additive_attention": attention.refnp_additive,
    "translation_attention": neural_process_parts.refnp_translation_attention,
    "grouped_attention": layers.grouped_attention,
    **{layer.name: layer.formula for layer in OF_FORMULAS if layer.formula is not None},
}
OF_STACKS, OF_HEADS = (layers.attention, layers.layer_norm), (layers.attention,)
PAGES: dict[str, tuple[Callable, ...]] = {
    **dict.fromkeys([name for name in SUBJECTS if "coder" in name or name == "transformer"], OF_STACKS),
    **dict.fromkeys([name for name in SUBJECTS if name.startswith(("multi_head", "softcap"))], OF_HEADS),
    **dict.fromkeys(("attention", "causal_attention", "window_attention", "general_attention"), OF_HEADS),
    "cosine_attention": (unit_rows, layers.attention),
    "additive_attention": (additive_scores,),
    "translation_attention": (pair_kernel,),
    "normal_log_prob": (layers.gaussian_nll,),
}
