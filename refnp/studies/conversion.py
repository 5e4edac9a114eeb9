"""`refnp convert`: a file of weights of another code base as a checkpoint that `refnp evaluate` and `refnp plot` read.

    source             whose state dicts                                   model and sizes are found from the arrays
    tnp-pytorch        github.com/tung-nd/TNP-pytorch                      cnp, canp, np, anp, bnp, banp, tnpd, tnpnd
    convcnp            github.com/cambridge-mlg/convcnp                    convcnp, convcnp-simple
    neuralprocesses    github.com/wesselb/neuralprocesses                  convcnp-bruinsma, convgnp
    te-tnp             github.com/cambridge-mlg/tnp, cambridge-mlg/tetnp   tnpd, tetnp, pseudo-tnp, pseudo-tetnp

What no array says is as in the configurations there, unless an option says otherwise: the number of heads, a floor
under σ (`bound_std` of TNP-pytorch is floor=0.05), points_per_unit, strides. TNP-A has the arrays of TNP-D, and is
asked for by name.
"""

import importlib.util
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from refnp.models.published import convcnp, neuralprocesses, safetensors, te_tnp, tnp
from refnp.models.published.renaming import Names, array_of, flattened
from refnp.studies.registry import build, fitting, named, sampler
from refnp.studies.trained import check_other
from refnp.training import checkpoint as files
from refnp.training.checkpoint import Checkpoint
from refnp.verify.frameworks import pytorch_file

PYTORCH = (".pt", ".pth", ".tar", ".ckpt")
WITHIN = ("model", "state_dict", "model_state_dict", "weights")  # under which training scripts keep the weights
FOLDED = 64  # how many times its bytes a file may hold, compressed or with numbers that are repeated
State = Mapping[str, np.ndarray]
Recognised = tuple[str, dict[str, Any], tuple[int, int]]  # a model of the registry, its options, dx and dy


@dataclass(frozen=True)
class Source:
    """A code base: its names, which model some arrays are of, and the task that its models are trained on."""

    names: Names
    recognised: Callable[[State], Recognised]
    task: str


def convert(
    path: str | os.PathLike,
    source: str,
    target: str | os.PathLike | None = None,
    *,
    model: str | None = None,
    task: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> tuple[Path, str]:
    """Write the weights in the file `path`, of a model of `source`, as a checkpoint; the file written and its model.

    target: the file to write; NAME.npz, here, for NAME.pt. model, task: names of `refnp train`; those that the arrays
    and the source suggest unless given. options: of the model, which overrule what the arrays suggest.
    Raises OSError for files that cannot be read or written; ValueError for an unknown source, for arrays that are not
    of such a model, naming all that are missing, left over or misshapen, and for options that do not fit.
    """
    of = named("source", source, SOURCES)
    state = weights(path)
    about, found, (dx, dy) = recognised(source, state)
    if model is not None:
        about = model
    options = found | dict(options or {})
    for option, value in options.items():
        fitting(about, option, value)
    task = of.task if task is None else task
    places = sampler(task)
    if (dx, dy) != (places.places.dx, places.outputs):
        raise ValueError(
            f"{path} is of a model with {dx} inputs and {dy} outputs, the task {task} has {places.places.dx} and "
            f"{places.outputs}; in a program {of.names.source}.load(model, state) reads it"
        )
    made = build(about, options, dx=dx, dy=dy, dtype=common_dtype(state), rng=np.random.default_rng(0))
    of.names.load(made, state)
    configuration = {"model": about, "task": task, "options": options, "seed": 0}
    configuration["converted"] = {"source": source, "file": os.path.basename(path)}
    out = Path(f"{Path(path).stem}.npz" if target is None else target)
    check_other(Path(path), out)
    files.save(out, Checkpoint(made.state_dict(), configuration))
    return out, about


# ---- the file


def weights(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """The arrays by name in a .npz, .safetensors or, with PyTorch, .pt file: its state dict, wherever it is kept there.

    Raises FileNotFoundError if there is no such file, ValueError for one that is damaged, without a state dict or with
    other values than finite numbers in it, or that needs a package that is not installed.
    """
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no file {path}")
    ending = os.path.splitext(path)[1].lower()
    content: Any
    if ending == ".npz":
        content = npz(path)
    elif ending == ".safetensors":
        try:
            content = safetensors.read(path)
        except (ImportError, TypeError) as wrong:
            raise ValueError(f"{path}: {wrong}") from wrong
    elif ending not in PYTORCH:
        raise ValueError(
            f"{path} does not end in one of {', '.join(('.npz', '.safetensors', *PYTORCH))}; write it as one of these"
        )
    elif importlib.util.find_spec("torch") is None:
        raise ValueError(
            f"{path} is a file of PyTorch, which is not installed; install it, or write a .npz there: "
            "numpy.savez(file, **{name: tensor.numpy() for name, tensor in module.state_dict().items()})"
        )
    else:
        content = pytorch_file(path)
    try:
        state = {name: array_of(value) for name, value in flattened(state_dict_of(path, content)).items()}
    except (RecursionError, RuntimeError, TypeError, AttributeError) as wrong:  # of sparse, quantized, meta tensors
        raise ValueError(f"{path} is no state dict of plain tensors: {wrong}") from wrong
    if sum(array.nbytes for array in state.values()) > FOLDED * os.path.getsize(path):  # one number, repeated
        raise ValueError(f"{path} says that it holds more than {FOLDED} times its bytes; write each number")
    for name, array in state.items():
        if array.dtype.kind not in "biufc":
            raise ValueError(f"{path} is no state dict: {name} is {array.dtype}, not numbers")
        if not np.isfinite(array).all():
            raise ValueError(f"{path}: {name} holds NaN or infinity; the training there has diverged")
    return state


def npz(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """The arrays of a .npz file by name, none of which may be a pickled object; ValueError if it is damaged."""
    try:
        with open(path, "rb") as file:
            return files.npz(file, FOLDED)
    except Exception as wrong:  # whatever zipfile and NumPy stumble over: there are a dozen kinds
        raise ValueError(f"{path} is no whole .npz file ({wrong}); write it again") from wrong


def state_dict_of(path: str | os.PathLike, content: Any) -> Mapping[str, Any]:
    """The state dict in what a file holds: the mapping itself, or one within; without a prefix that all names have."""
    if not isinstance(content, Mapping):
        raise ValueError(f"{path} holds a {type(content).__name__}, no mapping of names to arrays; save a state_dict")
    content = next((content[name] for name in WITHIN if isinstance(content.get(name), Mapping)), content)
    for prefix in ("module.", "model.", "_orig_mod."):
        if content and all(str(name).startswith(prefix) for name in content):
            content = {str(name).removeprefix(prefix): value for name, value in content.items()}
    return content


def common_dtype(state: State) -> np.dtype:
    """The precision of the model: float32, or float64 if some arrays are."""
    return np.dtype(np.float64 if any(a.dtype == np.float64 for a in state.values()) else np.float32)


# ---- which model it is


def recognised(source: str, state: State) -> Recognised:
    """The model that arrays are of, its options, and dx and dy; ValueError if they are of none of the source's."""
    try:
        return SOURCES[source].recognised(state)
    except (KeyError, IndexError, ValueError) as wrong:
        names = ", ".join(list(state)[:4])
        raise ValueError(
            f"these are no weights of a model of {source}, whose {wrong} is not there; there are {names} … "
            f"Sources are {', '.join(SOURCES)}"
        ) from wrong
    except (TypeError, ArithmeticError) as wrong:  # the length of a number, a width of 0
        raise ValueError(f"these are no weights of a model of {source}, an array has another shape: {wrong}") from wrong


def numbers(state: State, pattern: str) -> list[int]:
    """The numbers that stand at (\\d+) in names that begin with the pattern, in their order.   KeyError for none."""
    found = {int(match[1]) for name in state if (match := re.match(pattern, name))}
    if not found:
        raise KeyError(re.sub(r"\\|\(|\)", "", pattern).replace("d+", "0"))
    return sorted(found)


def maps(state: State, path: str) -> list[int]:
    """The numbers of the linear maps of a sequence: names PATH.0.weight, PATH.2.weight, …"""
    return numbers(state, rf"{re.escape(path)}\.(\d+)\.weight$")


def depth(state: State, path: str) -> int:
    """How many linear maps a sequence has."""
    return len(maps(state, path))


def last(state: State, path: str) -> np.ndarray:
    """The weight of the last linear map of a sequence, (out, in)."""
    return state[f"{path}.{maps(state, path)[-1]}.weight"]


def of_tnp_pytorch(state: State) -> Recognised:
    """A TNP by its embedder, a baseline by its encoders."""
    return of_tokens(state) if "embedder.0.weight" in state else of_baseline(state)


def of_tokens(state: State) -> Recognised:
    """TNP-D, whose arrays are TNP-A's as well, or TNP-ND."""
    first = state["embedder.0.weight"]
    options: dict[str, Any] = {
        "features": len(first),
        "embedding_depth": depth(state, "embedder"),
        "layers": len(numbers(state, r"encoder\.layers\.(\d+)\.")),
        "hidden": len(state["encoder.layers.0.linear1.weight"]),
    }
    if "predictor.0.weight" in state:
        dy = len(last(state, "predictor")) // 2
        return "tnpd", options, (first.shape[1] - dy, dy)
    dy, low_rank = len(last(state, "mean_net")), "diag_net.0.weight" in state
    options |= {
        "covariance": "low_rank" if low_rank else "cholesky",
        "target_layers": len(numbers(state, r"std_encoder\.layers\.(\d+)\.")),
        "rank": len(last(state, "projector")) // dy,
        "mean_depth": depth(state, "mean_net"),
        "projector_depth": depth(state, "projector"),
    }
    options |= {"diagonal_depth": depth(state, "diag_net")} if low_rank else {}
    return "tnpnd", options, (first.shape[1] - dy, dy)


def of_baseline(state: State) -> Recognised:
    """CNP, CANP, NP, ANP, BNP or BANP: which paths there are, whether one attends, and whether contexts are adapted."""
    latent = any(name.startswith("lenc.") for name in state)
    first, second = ("denc", "lenc") if latent else ("enc1", "enc2")
    attentive = f"{first}.net_v.0.weight" in state
    pre = f"{second}.net_pre.0" if attentive else f"{second}.net_pre"
    options: dict[str, Any] = {
        "hidden": len(state["dec.fc.weight"]),
        "decoder": 1 + depth(state, "dec.mlp"),
        "before": depth(state, pre) + 2 * attentive,
        "after": depth(state, f"{second}.net_post"),
        "floor": 0.1,
    }
    if attentive:
        options |= {"scaling": "features", "depth": depth(state, f"{first}.net_v") + 2}
        options |= {"query_depth": depth(state, f"{first}.net_qk")}
    if latent:
        options |= {"latent": len(last(state, f"{second}.net_post")) // 2, "latent_floor": 0.1}
        options |= {} if attentive else {"deterministic": True}
    elif not attentive:
        options |= {"encoders": 2}
    dy = len(last(state, "dec.mlp")) // 2
    name = {(False, False): "cnp", (False, True): "canp", (True, False): "np", (True, True): "anp"}[latent, attentive]
    if "dec.fc_ctx.weight" in state:
        name = "banp" if attentive else "bnp"
    return name, options, (state[f"{pre}.0.weight"].shape[1] - dy, dy)


def of_gordon(state: State) -> Recognised:
    """The plain stack by its numbered layers, or the U-Net."""
    dims = state["l0.sigma"].size - 1, len(state["mean_layer.g.0.weight"])
    if "conv_net.conv_net.0.weight" in state:
        return "convcnp-simple", {}, (state["conv_net.conv_net.0.weight"].ndim - 2, dims[1])
    return "convcnp", {}, (state["conv_net.l1.weight"].ndim - 2, dims[1])


def of_neuralprocesses(state: State) -> Recognised:
    """Channels and kernels of the layers down, or of the plain stack; strides are 2 there unless an option says."""
    path = "decoder.links.0."
    if f"{path}final_linear.weight" not in state:
        count = len(numbers(state, r"decoder\.links\.0\.conv_net\.(\d+)\."))
        layers = [state[f"{path}conv_net.{i}.net.{min(i, 1)}.weight"] for i in range(count)]
        channels = [len(layers[0])] * count  # of one layer alone the number there is not known: it gives the answer
        options: dict[str, Any] = {"architecture": "conv", "channels": channels, "kernel": layers[0].shape[2]}
        return of_convgnp(state, options, layers[0], len(layers[-1]))
    down = numbers(state, r"decoder\.links\.0\.before_turn_layers\.(\d+)\.")
    arrays = [
        state.get(f"{path}before_turn_layers.{i}.0.weight", state.get(f"{path}before_turn_layers.{i}.weight"))
        for i in down
    ]
    layers = [array for array in arrays if array is not None]
    options = {"channels": [len(array) for array in layers], "kernel": layers[0].shape[2]}
    if any(re.match(r"decoder\.links\.0\.after_turn_layers\.\d+\.1\.weight$", name) for name in state):
        options["upsampling"] = "nearest"
    return of_convgnp(state, options, layers[0], len(state[f"{path}final_linear.weight"]))


def of_convgnp(state: State, options: dict[str, Any], first: np.ndarray, out: int) -> Recognised:
    """A ConvCNP, with two numbers for each output, or a ConvGNP, with its rank more, of one context set."""
    if any(re.match(r"encoder\.coder\.links\.\d+\.elements\.1\.", name) for name in state):
        raise ValueError("encoder of one context set, without elements.1,")
    out, dy = len(state.get("decoder.links.1.coder.links.1.net.weight", np.zeros(out))), first.shape[1] - 1
    if out == 2 * dy:
        return "convcnp-bruinsma", options, (first.ndim - 2, dy)
    return "convgnp", options | {"rank": out // dy - 2}, (first.ndim - 2, dy)


def of_te_tnp(state: State) -> Recognised:
    """A TNP or TE-TNP by its embedder, with pseudo-tokens or not; layers that are tied are there twice."""
    stack, read_off = "encoder.transformer_encoder", "decoder.z_decoder.net"
    translated = "encoder.y_encoder.net.0.weight" in state
    pseudo = f"{stack}.latents" in state or f"{stack}.latent_tokens" in state
    embedder, first = "encoder.y_encoder.net" if translated else "encoder.xy_encoder.net", f"{stack}.mhca_layers"
    first = f"{stack}.mhca_ctoq_layers" if pseudo else first
    layers, dy = len(numbers(state, rf"{re.escape(first)}\.(\d+)\.")), len(last(state, read_off)) // 2
    options: dict[str, Any] = te_tnp.AS_THERE | {
        "features": state[f"{read_off}.0.weight"].shape[1],
        "hidden": len(state[f"{first}.0.ff_block.0.weight"]),
        "layers": layers,
        "embedding_depth": depth(state, embedder),
        "predictor_depth": depth(state, read_off),
    }
    dx = state[f"{embedder}.0.weight"].shape[1] - dy - 1
    if translated:
        kernel = f"{first}.0.attn.kernel.net"
        widths = [len(state[f"{kernel}.{i}.weight"]) for i in maps(state, kernel)]
        options |= {"heads": widths[-1], "kernel": widths[:-1]}
        dx = state[f"{kernel}.0.weight"].shape[1] - widths[-1]
        phi = f"{first}.0.attn.phi.net"
        if any(name.startswith(f"{phi}.") for name in state):  # places are as many numbers as φ gives
            steps = [len(state[f"{phi}.{i}.weight"]) for i in maps(state, phi)]
            options |= {"moves": True, "movement": steps[:-1]}
            options |= {"squares": True} if dx == 2 * steps[-1] else {}
            dx = steps[-1]
    else:
        options |= {"heads": 8}
    if pseudo:
        latents = state[f"{stack}.latent_tokens" if translated else f"{stack}.latents"]
        induced = any(name.startswith(f"{stack}.mhca_qtoc_layers.") for name in state)
        options |= {"pseudo_tokens": len(latents), "form": "induced" if induced else "perceiver"}
        options = {"moves": False} | options if translated else options
        if induced:
            options["last_spread"] = f"{stack}.mhca_qtoc_layers.{layers - 1}.norm1.bias" in state
        return "pseudo-tetnp" if translated else "pseudo-tnp", options, (dx, dy)
    options |= {"updated": True, "untied": not tied(state, f"{stack}.mhca_layers.", f"{stack}.mhsa_layers.")}
    options |= {} if translated else {"flag": True, "norm": "pre"}
    return "tetnp" if translated else "tnpd", options, (dx, dy)


def tied(state: State, one: str, other: str) -> bool:
    """Whether all arrays under both prefixes are the same."""
    pairs = [
        (array, state.get(other + name.removeprefix(one))) for name, array in state.items() if name.startswith(one)
    ]
    return all(b is not None and np.array_equal(a, b) for a, b in pairs)


SOURCES = {
    "tnp-pytorch": Source(tnp.NAMES, of_tnp_pytorch, "rbf"),
    "convcnp": Source(convcnp.NAMES, of_gordon, "gordon-eq"),
    "neuralprocesses": Source(neuralprocesses.NAMES, of_neuralprocesses, "eq"),
    "te-tnp": Source(te_tnp.NAMES, of_te_tnp, "eq"),
}
