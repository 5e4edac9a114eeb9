"""Weights of other code bases as checkpoints: found, read again with the same predictions, or refused in words."""

import contextlib
import os
import sys

import numpy as np
import pytest

from refnp.autograd.primitives import raw
from refnp.cli import main
from refnp.studies import conversion
from refnp.studies.conversion import SOURCES, convert, weights
from refnp.studies.registry import MODELS, build
from refnp.studies.trained import open_trained
from refnp.training import checkpoint as files
from tests.helpers import assert_same_arrays, assert_same_bits, normal

SMALL = {"features": 8, "heads": 4, "hidden": 6, "layers": 2, "embedding_depth": 3}
BASELINE = {"hidden": 8, "before": 3, "after": 2, "decoder": 4, "floor": 0.1}
ATTENTIVE = BASELINE | {"depth": 4, "query_depth": 3, "scaling": "features", "before": 3}
LATENT = {"latent": 5, "latent_floor": 0.1}
THERE = {"features": 8, "heads": 8, "hidden": 6, "layers": 2, "flagged": "targets", "deviation": "softplus_variance"}
THERE |= {"embedding_depth": 3, "predictor_depth": 2}
TRANSLATED = THERE | {"pseudo_tokens": 3, "moves": False, "kernel": [7]}
MOVED = {"moves": True, "movement": [3, 4]}
CASES = {  # source, model, its options
    "cnp": ("tnp-pytorch", "cnp", BASELINE | {"encoders": 2}),
    "bnp": ("tnp-pytorch", "bnp", BASELINE | {"encoders": 2}),
    "banp": ("tnp-pytorch", "banp", ATTENTIVE),
    "ConvGNP": ("neuralprocesses", "convgnp", {"channels": [3, 4, 5], "kernel": 3, "rank": 3}),
    "ConvGNP, stack": ("neuralprocesses", "convgnp", {"channels": [9, 9], "architecture": "conv", "rank": 2}),
    "canp": ("tnp-pytorch", "canp", ATTENTIVE),
    "np": ("tnp-pytorch", "np", BASELINE | LATENT | {"deterministic": True}),
    "anp": ("tnp-pytorch", "anp", ATTENTIVE | LATENT),
    "tnpd": ("tnp-pytorch", "tnpd", SMALL),
    "tnpnd, low rank": (
        "tnp-pytorch",
        "tnpnd",
        SMALL | {"target_layers": 1, "rank": 3, "covariance": "low_rank", "mean_depth": 2, "projector_depth": 3,
                 "diagonal_depth": 2},
    ),
    "tnpnd, cholesky": (
        "tnp-pytorch",
        "tnpnd",
        SMALL | {"target_layers": 2, "rank": 4, "covariance": "cholesky", "mean_depth": 1, "projector_depth": 2},
    ),
    "gordon, simple": ("convcnp", "convcnp-simple", {}),
    "gordon, xl": ("convcnp", "convcnp", {}),
    "U-Net": ("neuralprocesses", "convcnp-bruinsma", {"channels": [3, 4, 5], "kernel": 3}),
    "U-Net, repeated": ("neuralprocesses", "convcnp-bruinsma", {"channels": [1, 4], "upsampling": "nearest"}),
    "stack": ("neuralprocesses", "convcnp-bruinsma", {"channels": [4, 4, 4], "kernel": 7, "architecture": "conv"}),
    "TNP, tied": ("te-tnp", "tnpd", THERE | {"flag": True, "norm": "pre", "updated": True, "untied": False}),
    "TNP": ("te-tnp", "tnpd", THERE | {"flag": True, "norm": "pre", "updated": True, "untied": True}),
    "TE-TNP, tied": ("te-tnp", "tetnp", THERE | {"updated": True, "untied": False, "kernel": [5, 6]}),
    "TE-TNP": ("te-tnp", "tetnp", THERE | {"updated": True, "untied": True, "kernel": [5], "heads": 2}),
    "IST": ("te-tnp", "pseudo-tnp", THERE | {"pseudo_tokens": 3, "form": "induced", "last_spread": False}),
    "Perceiver": ("te-tnp", "pseudo-tnp", THERE | {"pseudo_tokens": 5, "form": "perceiver"}),
    "TE-IST": ("te-tnp", "pseudo-tetnp", TRANSLATED | {"form": "induced", "last_spread": True}),
    "TE-Perceiver": ("te-tnp", "pseudo-tetnp", TRANSLATED | {"form": "perceiver"}),
    "TE-TNP that moves": ("te-tnp", "tetnp", THERE | {"updated": True, "untied": True, "kernel": [5]} | MOVED),
    "TE-IST that moves": ("te-tnp", "pseudo-tetnp", TRANSLATED | MOVED | {"form": "induced", "last_spread": True}),
    "squares": ("te-tnp", "tetnp", THERE | {"updated": True, "untied": False, "squares": True, "kernel": [5]} | MOVED),
    "stack of one": ("neuralprocesses", "convcnp-bruinsma", {"channels": [1], "kernel": 7, "architecture": "conv"}),
}  # fmt: skip
every_case = pytest.mark.parametrize("case", list(CASES))


def made(case, dtype=np.float32, seed=3, **sizes):
    """A model of theirs, as refnp has it, and its arrays under their names."""
    source, name, options = CASES[case]
    model = build(name, options, dtype=dtype, rng=np.random.default_rng(seed), **sizes)
    for path, parameter in model.named_parameters() if source == "te-tnp" else ():
        if path.endswith(("query.bias", "key.bias", "value.bias")):  # there are none there
            parameter.data[:] = 0
    return model, SOURCES[source].names.save(model)


def prediction(model):
    x, y, at = (normal(i, (2, n, 1), np.float32) for i, n in enumerate((4, 4, 5)))
    answer = model(x, y, at)
    return [raw(getattr(getattr(answer, "components", answer), name)) for name in ("mean", "std")
            if hasattr(getattr(answer, "components", answer), name)]  # fmt: skip


@every_case
def test_found_from_the_arrays(case, tmp_path):
    """Model and sizes; the checkpoint has the same bits and predictions, and the source gets its names back."""
    source, name, options = CASES[case]
    model, state = made(case)
    np.savez(tmp_path / "theirs.npz", **state)
    out, found = convert(tmp_path / "theirs.npz", source, tmp_path / "ours.npz")
    assert (out, found) == (tmp_path / "ours.npz", name)
    stored = files.load(out)
    given = {option: value for option, value in options.items() if option != "heads"}  # which no array says
    assert {option: stored.configuration["options"][option] for option in given} == given
    opened = open_trained(out)
    assert_same_arrays(opened.model.state_dict(), model.state_dict())
    assert_same_arrays(SOURCES[source].names.save(opened.model), state)
    for value, reference in zip(prediction(opened.model), prediction(model), strict=True):
        assert_same_bits(value, reference)
    assert opened.title == f"{name}, converted from {source}, theirs.npz"


def test_tnpa_is_asked_for(tmp_path):
    _, state = made("tnpd", np.float64)
    np.savez(tmp_path / "theirs.npz", **state)
    options = {"floor": 0.05, "heads": 2}
    out, found = convert(tmp_path / "theirs.npz", "tnp-pytorch", tmp_path / "a.npz", model="tnpa", options=options)
    opened = open_trained(out)
    assert (found, type(opened.model).__name__) == ("tnpa", "TNPA")
    assert (opened.model.floor, opened.model.layers[0].attention.heads) == (0.05, 2)
    assert {p.dtype for p in opened.model.parameters()} == {np.dtype(np.float64)}


def test_a_file_of_safetensors(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    _, state = made("cnp")
    state = {name: np.ascontiguousarray(array) for name, array in state.items()}
    package.save_file(state, tmp_path / "theirs.safetensors")
    out, _ = convert(tmp_path / "theirs.safetensors", "tnp-pytorch", tmp_path / "ours.npz")
    assert_same_arrays(SOURCES["tnp-pytorch"].names.save(open_trained(out).model), state)
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "theirs.safetensors").read_bytes()[:-1])
    with pytest.raises(ValueError, match="is no safetensors file"):
        convert(tmp_path / "cut.safetensors", "tnp-pytorch", tmp_path / "other.npz")


def test_without_the_package_of_safetensors_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    (tmp_path / "theirs.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match=r"theirs.safetensors: .* pip install 'refnp\[safetensors\]'"):
        convert(tmp_path / "theirs.safetensors", "tnp-pytorch", tmp_path / "ours.npz")


@pytest.mark.parametrize("within", [None, "model", "state_dict"])
def test_a_file_of_pytorch(within, tmp_path):
    torch = pytest.importorskip("torch")
    _, state = made("tnpd")
    tensors = {f"module.{name}": torch.from_numpy(array) for name, array in state.items()}
    content = tensors if within is None else {within: tensors, "step": 3}
    torch.save(content, tmp_path / "theirs.pt")
    assert_same_arrays(weights(tmp_path / "theirs.pt"), state)
    assert convert(tmp_path / "theirs.pt", "tnp-pytorch", tmp_path / "ours.npz")[1] == "tnpd"


class Harm:
    def __reduce__(self):
        return os.mkdir, ("harm",)


def test_a_file_of_pytorch_may_not_run_code(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    torch.save({"a": Harm()}, "harm.pt")
    with pytest.raises(ValueError, match=r"harm.pt is no file of PyTorch with tensors alone .*there, write torch.save"):
        weights("harm.pt")
    assert not os.path.exists("harm")


def test_without_pytorch_it_is_said_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "x.pt").write_bytes(b"PK")
    monkeypatch.setattr(conversion.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ValueError, match=r"x.pt is a file of PyTorch, which is not installed; install it, or write a .npz"
    ):
        weights(tmp_path / "x.pt")


def refused(state, tmp_path, source="tnp-pytorch", name="theirs.npz", **options):
    np.savez(tmp_path / name, **state)
    with pytest.raises(ValueError, match=r".") as wrong:
        convert(tmp_path / name, source, tmp_path / "ours.npz", **options)
    assert not (tmp_path / "ours.npz").exists()
    return str(wrong.value)


def test_what_is_wrong_is_said(tmp_path):
    _, state = made("tnpd")
    both = dict(state)
    both["encoder.layers.1.norm1.wait"] = both.pop("encoder.layers.1.norm1.weight")
    both["predictor.0.bias"] = np.ones(3, np.float32)
    assert (
        "missing encoder.layers.1.norm1.weight; left over encoder.layers.1.norm1.wait; predictor.0.bias has"
        in refused(both, tmp_path)
    )
    assert "no weights of a model of convcnp, whose 'l0.sigma' is not there; there are embedder" in refused(
        state, tmp_path, "convcnp"
    )
    assert "there is no source 'tnp-torch'; did you mean tnp-pytorch" in refused(state, tmp_path, "tnp-torch")
    assert "no option 'head'; did you mean heads" in refused(state, tmp_path, options={"head": 2})
    assert "there is no model 'tnp'" in refused(state, tmp_path, model="tnp")
    assert "no task 'rbff'" in refused(state, tmp_path, task="rbff")
    assert "holds NaN or infinity" in refused(state | {"predictor.0.bias": np.full(6, np.nan)}, tmp_path)
    assert "is <U1, not numbers" in refused(state | {"predictor.0.bias": np.array(["a"])}, tmp_path)
    _, wide = made("cnp", dy=2)
    assert (
        "is of a model with 1 inputs and 2 outputs, the task rbf has 1 and 1; in a program published.tnp.load"
        in refused(wide, tmp_path)
    )
    for name, content, error, message in (
        ("x.txt", b"", ValueError, "does not end in one of .npz, .safetensors, .pt"),
        ("cut.npz", b"PK\3\4", ValueError, "is no whole .npz file"),
        ("none.npz", None, FileNotFoundError, "there is no file"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(error, match=message):
            convert(tmp_path / name, "tnp-pytorch", tmp_path / "ours.npz")
    np.savez(tmp_path / "ours.npz", **state)
    with pytest.raises(ValueError, match="is the checkpoint itself, which would be lost; give another file"):
        convert(tmp_path / "ours.npz", "tnp-pytorch", tmp_path / "ours.npz")


def test_the_command(tmp_path, monkeypatch, capsys):
    """From the arrays to figures and a picture."""
    monkeypatch.chdir(tmp_path)
    _, state = made("tnpd")
    np.savez(tmp_path / "weights.npz", **state)
    out = ["--to", "theirs.npz"]
    assert main(["convert", "weights.npz", "--from", "tnp-pytorch", "--option", "floor=0.05", *out]) == 0
    output = capsys.readouterr().out
    assert "tnpd of tnp-pytorch, from weights.npz, in theirs.npz" in output
    assert "refnp evaluate theirs.npz" in output
    assert main(["evaluate", "theirs.npz", "--tasks", "8"]) == 0
    output = capsys.readouterr().out
    assert "tnpd, converted from tnp-pytorch, weights.npz" in output
    assert "evaluated on rbf" in output
    if "matplotlib" in sys.modules or pytest.importorskip("matplotlib"):
        assert main(["plot", "theirs.npz", "--contexts", "3"]) == 0
    assert main(["convert", "weights.npz", "--from", "tnp-torch"]) == 2
    assert "refnp convert: error: there is no source 'tnp-torch'; did you mean tnp-pytorch" in capsys.readouterr().err
    assert main(["convert", "weights.npz"]) == 2
    assert "required: --from" in capsys.readouterr().err
    assert main(["convert", "--help"]) == 0
    assert set(capsys.readouterr().out.split()) >= set(SOURCES)


def test_every_source_has_a_case():
    assert {source for source, *_ in CASES.values()} == set(SOURCES)
    assert {name for _, name, _ in CASES.values()} <= set(MODELS)


DAMAGES = [
    lambda array: array.reshape(-1)[:1].reshape(()),
    lambda array: array.reshape(-1)[:0],
    lambda array: array[None, None],
    lambda array: array[..., :0] if array.ndim else array,
    lambda array: array.astype("U3"),
]


@every_case
def test_a_damaged_array_is_refused_in_words(case, tmp_path):
    """A number, nothing, more axes, text in place of an array: a ValueError, or a model all the same."""
    _, state = made(case)
    for name in list(state)[:: max(1, len(state) // 3)]:
        for damage in DAMAGES:
            np.savez(tmp_path / "theirs.npz", **(state | {name: damage(state[name])}))
            with contextlib.suppress(ValueError):
                convert(tmp_path / "theirs.npz", CASES[case][0], tmp_path / "ours.npz")


@pytest.mark.parametrize("kind", ["sparse", "meta", "itself"])
def test_tensors_that_are_no_arrays_are_refused(tmp_path, kind):
    torch = pytest.importorskip("torch")
    state = {"weight": torch.ones(3).to_sparse() if kind == "sparse" else torch.ones(3, device="meta")}
    if kind == "itself":
        state = {}
        state["weights"] = state
    torch.save(state, tmp_path / "theirs.pt")
    with pytest.raises(ValueError, match=r"theirs\.pt"):
        weights(tmp_path / "theirs.pt")
