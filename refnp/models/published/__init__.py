"""Weights of others: state dicts of published models under refnp's names, a table of names for each source."""

from refnp.models.published import convcnp, flax, neuralprocesses, safetensors, te_tnp, tnp, torch, transformers

__all__ = ["convcnp", "flax", "neuralprocesses", "safetensors", "te_tnp", "tnp", "torch", "transformers"]


def __dir__() -> list[str]:
    return __all__
