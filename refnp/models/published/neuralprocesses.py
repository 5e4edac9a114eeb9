"""Weights from neuralprocesses: the state dicts of its ConvCNPs, and back. Neither the package nor PyTorch is needed.

    model = ConvCNP.bruinsma(rng=rng)
    published.neuralprocesses.load(model, module.state_dict())
    module.load_state_dict({name: torch.from_numpy(a) for name, a in published.neuralprocesses.save(model).items()})

    construct_convgnp(likelihood="het", …)                               refnp
    conv_arch="unet", unet_channels=c                                    ConvCNP.bruinsma(c)
    the same with unet_resize_convs=True                                 ConvCNP.bruinsma(c, upsampling="nearest")
    conv_arch="conv", conv_layers=n, conv_channels=c,                    ConvCNP.bruinsma((c,) * n, architecture="conv",
        conv_receptive_field=R                                               receptive_field=R)
    likelihood="lowrank", num_basis_functions=K                          ConvGNP.bruinsma(c, rank=K)
    dim_yc=(2, 1)                                                        context_dy=(2, 1)
    encoder_scales_learnable=False, decoder_scale_learnable=False        learn_scales=False

Neither residual nor separable. The model is made here first, with the sizes of theirs; predictions are the same where
the grid is, see `published.convcnp`.
Source: github.com/wesselb/neuralprocesses 0.2.7, architectures/convgnp.py, whose names `save` gives; other versions
number the first link of the encoder differently, and are read as well.
"""

import re
from collections.abc import Mapping
from typing import Any

from refnp.layers.module import Module
from refnp.layers.pooled_unet import PooledUNet
from refnp.models.convcnp import ConvCNP
from refnp.models.published import torch
from refnp.models.published.renaming import Names, Parts, flattened


def of_convgnp(model: ConvCNP) -> Parts:
    """Of the encoder's and the decoder's chain: the set convolution to the grid, the network, and what follows it."""
    others = range(len(model.other_encoders))  # of further context sets
    return {
        "encoder.log_length_scale": "encoder.coder.links.2.elements.0.log_scale",
        **{f"other_encoders.{i}.log_length_scale": f"encoder.coder.links.2.elements.{i + 1}.log_scale" for i in others},
        "network": "decoder.links.0",
        "decoders.0.convolution.log_length_scale": "decoder.links.1.coder.links.0.log_scale",
        "decoders.0.mlp.layers.0": "decoder.links.1.coder.links.1.net",
        "network.layers.*": lambda i: f"decoder.links.0.conv_net.{i}.net.{min(i, 1)}",  # 1: after a relu
    }


def of_unet(network: PooledUNet) -> Parts:
    """Of UNet: a layer before a mean is the first of two, one after a repeat the second."""

    def down(i: int) -> str:
        return f"before_turn_layers.{i}" + (".0" if network.pooled[i] else "")

    def up(i: int) -> str:
        repeated = network.upsampling == "nearest" and network.strides[i] == 2
        return f"after_turn_layers.{i}" + (".1" if repeated else "")

    return {"down.*": down, "up.*": up, "last": "final_linear"}


class ChainNames(Names):
    """Names in which the number of the encoder's first link does not matter."""

    def load(self, model: Module, state: Mapping[str, Any]) -> None:
        """As `Names.load`."""
        link = re.compile(r"^encoder\.coder\.links\.\d+\.(?=elements\.)")
        super().load(model, {link.sub("encoder.coder.links.2.", name): a for name, a in flattened(state).items()})


NAMES = ChainNames(
    "published.neuralprocesses",
    layouts=torch.NAMES.layouts,
    parts=torch.NAMES.parts | {ConvCNP: of_convgnp, PooledUNet: of_unet},
)
load, save = NAMES.load, NAMES.save
