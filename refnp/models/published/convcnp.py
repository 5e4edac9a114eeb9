"""Weights of published ConvCNPs: their state dicts, and back. Neither PyTorch nor their packages are needed.

    model = ConvCNP.gordon("xl", rng=rng)
    published.convcnp.load(model, module.state_dict())
    module.load_state_dict({name: torch.from_numpy(array) for name, array in published.convcnp.save(model).items()})

`load` and `save` are of the code of Gordon et al.; those of neuralprocesses are in `published.neuralprocesses`. The
functions below need no model; they give arrays for `load_state_dict`.

    there                                                           here               refnp
    ConvCNP(True, 64, UNet()), ConvCNP(True, 64, SimpleConv())      gordon             ConvCNP.gordon("xl"), ("simple")
    RegressionANP(1, 128, 1)                                        –                  AttnCNP()
    construct_convgnp(likelihood="het", conv_arch="unet", …)        bruinsma           ConvCNP.bruinsma(…)
    construct_convgnp(likelihood="lowrank", …)                      bruinsma           ConvGNP.bruinsma(…)
    the same with conv_arch="conv"                                  bruinsma           ConvCNP.bruinsma(…)

What has no place here keeps its name, and `load_state_dict` names it, with all that is missing.
Both give the same predictions as there where the grid is the same: theirs begin elsewhere (see `Grid`), and
Gordon et al. stretch the spacing a little so that the last place falls on the end, as `GridOptions(stretched=True)`.
Source: github.com/cambridge-mlg/convcnp, convcnp/; github.com/wesselb/neuralprocesses 0.2.7, architectures/convgnp.py.
"""

from collections.abc import Mapping
from typing import Any

from refnp.autograd.tensor import ArrayLike
from refnp.models.attentive import AttnCNP
from refnp.models.convcnp import ConvCNP
from refnp.models.published import torch
from refnp.models.published.renaming import Parts, Rule, State, layer, renamed

# ---- a model's names


def of_gordon(model: ConvCNP) -> Parts:
    """Of ConvCNP with SimpleConv or UNet: activations are numbered in the first, and layers l1 to l12 in the second."""
    parts: dict[str, Any] = {
        "encoder.log_length_scale": "l0.sigma",
        "lift": "l0.g.0",
        "network.layers.*": lambda i: f"conv_net.conv_net.{2 * i}",
        "network.down.*": lambda i: f"conv_net.l{i + 1}",
        "network.up.*": lambda i: f"conv_net.l{len(model.network.down) + i + 1}",  # type: ignore[union-attr]
    }
    for i, there in enumerate(("mean_layer", "sigma_layer")):
        parts |= {f"decoders.{i}.convolution.log_length_scale": f"{there}.sigma"}
        parts |= {f"decoders.{i}.mlp.layers.0": f"{there}.g.0"}
    return parts


OF_ATTN_CNP: Parts = {
    "value.layers.*": lambda i: f"encoder.pre_pooling_fn.{2 * i}",
    "place.layers.*": lambda i: f"encoder.pooling_fn.embedding.net.{2 * i}",
    "query_map": "encoder.pooling_fn._attention.query_transform",
    "key_map": "encoder.pooling_fn._attention.key_transform",
    "value_map": "encoder.pooling_fn._attention.value_transform",
    "combine": "encoder.pooling_fn._attention.head_combine",
    "output": "encoder.pooling_fn.ff",
    "first_norm": "encoder.pooling_fn.ln1",
    "second_norm": "encoder.pooling_fn.ln2",
    "decoder.layers.*": lambda i: f"decoder.post_pooling_fn.{2 * i}",
}
NAMES = torch.NAMES.extended("published.convcnp", parts={ConvCNP: of_gordon, AttnCNP: OF_ATTN_CNP})
load, save = NAMES.load, NAMES.save


# ---- without a model

GORDON: tuple[Rule, ...] = (
    (r"^l0\.sigma$", "encoder.log_length_scale"),
    (r"^l0\.g\.0\.", "lift."),
    (r"^mean_layer\.sigma$", "decoders.0.convolution.log_length_scale"),
    (r"^mean_layer\.g\.0\.", "decoders.0.mlp.layers.0."),
    (r"^sigma_layer\.sigma$", "decoders.1.convolution.log_length_scale"),
    (r"^sigma_layer\.g\.0\.", "decoders.1.mlp.layers.0."),
    (r"^conv_net\.conv_net\.(\d+)\.", layer("network")),
    (r"^conv_net\.l([1-6])\.", lambda found: f"network.down.{int(found[1]) - 1}."),
    (r"^conv_net\.l(\d+)\.", lambda found: f"network.up.{int(found[1]) - 7}."),
)
BRUINSMA: tuple[Rule, ...] = (
    (r"^encoder\.coder\.links\.\d+\.elements\.0\.log_scale$", "encoder.log_length_scale"),
    (
        r"^encoder\.coder\.links\.\d+\.elements\.(\d+)\.log_scale$",  # of several context sets
        lambda found: f"other_encoders.{int(found[1]) - 1}.log_length_scale",
    ),
    (r"^decoder\.links\.1\.coder\.links\.0\.log_scale$", "decoders.0.convolution.log_length_scale"),
    (r"^decoder\.links\.1\.coder\.links\.1\.net\.", "decoders.0.mlp.layers.0."),
    (r"^decoder\.links\.0\.before_turn_layers\.(\d+)\.(0\.)?", r"network.down.\1."),  # 0: the layer before a mean
    (r"^decoder\.links\.0\.after_turn_layers\.(\d+)\.(1\.)?", r"network.up.\1."),  # 1: the layer after a repeat
    (r"^decoder\.links\.0\.final_linear\.", "network.last."),
    (r"^decoder\.links\.0\.conv_net\.(\d+)\.net\.[01]\.", r"network.layers.\1."),  # 1: the layer after a relu
)


def gordon(state: Mapping[str, ArrayLike]) -> State:
    """Of the models of Gordon et al."""
    return renamed(state, GORDON)


def bruinsma(state: Mapping[str, ArrayLike]) -> State:
    """Of Bruinsma's models with a U-Net or plain convolutions, neither residual nor separable."""
    return renamed(state, BRUINSMA)
