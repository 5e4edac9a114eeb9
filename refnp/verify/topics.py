"""Where a topic lives: what `refnp.judge` says beside "there is no such layer", by the words in a name."""

LAYERS = {  # {words that may stand in a name: layers that are about it}
    "optim, descent": "sgd, adam, adamw, rmsprop, adagrad, clip_by_norm",
    "schedul, warmup, learningrate, annealing": "constant_schedule, cosine_schedule, noam_schedule",
    "loss, criterion, objective": "cross_entropy, binary_cross_entropy, gaussian_nll, mse, huber, smooth_l1",
    "activation, nonlinearity": "relu, leaky_relu, elu, gelu, silu, sigmoid, softplus, tanh",
    "norm": "layer_norm, rms_norm, batch_norm, group_norm, instance_norm, clip_by_norm, norm",
    "kernel, covariance, gaussianprocess, gp": "eq_kernel, matern_32_kernel, gp_posterior_mean, set_convolution",
    "posterior, likelihood": "gp_posterior_mean, gp_log_marginal_likelihood, normal_log_prob",
    "position, rotary, bias": "sinusoidal_positions, rotate, alibi_attention, t5_attention, shaw_attention",
    "attention, attend, head, qkv": "attention, multi_head, grouped_attention, decoding_attention, sink_attention",
    "mask, causal, window": "attention, causal_attention, window_attention",
    "cache, decod, generat": "decoding_attention, greedy, beam_search",
    "dropout, dropconnect": "dropout_of_mask, dropout_attention",
    "pool": "average_pool, max_pool, adaptive_average_pool, adaptive_max_pool",
    "conv": "convolution, convolution_transpose, set_convolution",
    "resiz, resampl, nearest, bilinear, cubic": "upsample, resize",
    "running, moving, statistics": "running_mean, running_variance, batch_norm of statistics",
    "token, vocabulary, lookup": "embedding",
    "divergence, entropy": "categorical_kl, categorical_entropy, normal_kl, cross_entropy",
    "distribution, density, logprob": "normal_log_prob, multivariate_normal_log_prob, student_t_log_prob",
    "matrix, decomposition, factorization, linalg": "cholesky, triangular_solve, solve, inv, det, slogdet",
    "transformer, encoder, bert, gpt, llama": "transformer, encoder, decoder, encoder_layer, decoder_layer",
    "neuralprocess, np": "cnp, anp, conv_cnp, latent_np, tnp_d, te_tnp",
}
OTHERS = {  # {words: where it is done, or that it is not}
    "symmetr, equivarian, invarian, permutation": "symmetries of any function are checked by refnp.symmetry",
    "gradcheck, backward, autograd, gradient": "gradients=True judges those of layers, gradcheck.check of any function",
    "model, checkpoint, statedict, pretrained": "whole models of PyTorch are judged by refnp.judge_model",
    "lstm, gru, recurrent, rnn": "refnp has no recurrent layers",
}


def about(name: str) -> str:
    """What is said of the topic of a name, which is in small letters without signs; "" if it has none that is known."""
    for words, layers in LAYERS.items():
        if stands_in(name, words):
            return f"; about this there are {', '.join(map(repr, layers.split(', ')))}"
    return next((f"; {where}" for words, where in OTHERS.items() if stands_in(name, words)), "")


def stands_in(name: str, words: str) -> bool:
    """Whether one of the words is part of the name; one of two letters must be all of it."""
    return any(word in name if len(word) > 2 else name == word for word in words.split(", "))
