"""Tasks that hold Tensors: the loss of every model differentiates by the places and values of its data."""

import numpy as np
import pytest

from refnp.autograd import Tensor, grad
from refnp.layers.set_convolution import GridOptions
from refnp.models.attentive import ANP, CANP
from refnp.models.bootstrap import BANP, BNP
from refnp.models.convgnp import ConvGNP
from refnp.models.joint import Autoregressive
from refnp.models.latent import LatentNP
from refnp.models.neural_process import CNP
from refnp.models.pseudo_tokens import PseudoTETNP, PseudoTNP
from refnp.models.te_tnp import TETNP
from refnp.models.tnp import TNPA, TNPD, TNPND
from refnp.tasks.task import Task
from refnp.verify.layers.neural_processes import RAGGED, loss_of, sets
from tests.helpers import assert_same_bits
from tests.models.helpers import shaken
from tests.models.test_convcnp import plain

SMALL = {"hidden": 4, "after": 1, "decoder": 2}
ATTENTIVE = SMALL | {"heads": 2, "depth": 3, "query_depth": 1}
TOKENS = {"features": 4, "heads": 2, "hidden": 4, "layers": 2, "embedding_depth": 1}
RNG = np.random.default_rng(0)
MODELS = {
    "CNP": CNP(2, 2, **SMALL, before=1, rng=RNG),
    "LatentNP": LatentNP(2, 2, **SMALL, before=1, latent=2, objective="tnp_pytorch", rng=RNG),
    "CANP": CANP(2, 2, **ATTENTIVE, rng=RNG),
    "ANP": ANP(2, 2, **ATTENTIVE, latent=2, rng=RNG),
    "Autoregressive": Autoregressive(CNP(2, 2, **SMALL, before=1, rng=RNG)),
    "TNPD": TNPD(2, 2, **TOKENS, rng=RNG),
    "TNPA": TNPA(2, 2, **TOKENS, rng=RNG),
    "TNPND": TNPND(2, 2, **TOKENS, target_layers=1, rank=2, rng=RNG),
    "TETNP": TETNP(2, 2, **TOKENS, kernel=(3,), length_scale=1.0, rng=RNG),
    "PseudoTNP": PseudoTNP(2, 2, **TOKENS, pseudo_tokens=2, rng=RNG),
    "PseudoTETNP": PseudoTETNP(2, 2, **TOKENS, pseudo_tokens=2, kernel=(3,), length_scale=1.0, rng=RNG),
    "BNP": BNP(2, 2, **SMALL, before=1, loss_samples=2, rng=RNG),
    "BANP": BANP(2, 2, **ATTENTIVE, loss_samples=2, objective="tnp_pytorch", rng=RNG),
    "ConvCNP": plain(dx=2, dy=2),
    "ConvGNP": ConvGNP.bruinsma((2, 2), rank=2, kernel=3, dx=2, dy=2, grid=GridOptions(2), rng=RNG),
}
NAMES = ("context_x", "context_y", "target_x", "target_y")


@pytest.fixture(params=list(MODELS))
def model(request):
    return shaken(MODELS[request.param])


def arrays():
    context, targets = sets(np.random.default_rng(1))
    return context["x"], context["y"], targets["x"], targets["y"]


def test_the_gradient_of_the_loss_by_the_data(model):
    """As of the function whose gradient `python -m gradcheck` holds to the complex step; nothing for what is hidden."""
    leaves = [Tensor(array, requires_grad=True) for array in arrays()]
    model.loss(Task(*leaves, *RAGGED)).backward()
    function = loss_of(model, *RAGGED)
    x, y, target_x, target_y = arrays()
    by = grad(lambda sets: function(model.state_dict(), *sets))
    context_bar, target_bar = by(({"x": x, "y": y}, {"x": target_x, "y": target_y}))
    expected = (context_bar["x"], context_bar["y"], target_bar["x"], target_bar["y"])
    for name, leaf, reference in zip(NAMES, leaves, expected, strict=True):
        assert leaf.grad.any(), name
        assert_same_bits(leaf.grad, reference)
        assert not leaf.grad[~RAGGED[name.startswith("target")]].any()


def test_some_of_the_data_and_predictions(model):
    """One Tensor among arrays is enough; values are those of arrays; draws and functions leave no tape."""
    leaf, rest = Tensor(arrays()[1], requires_grad=True), arrays()
    task, plain_task = Task(rest[0], leaf, *rest[2:], *RAGGED), Task(*rest, *RAGGED)
    loss = model.loss(task)
    assert loss.item() == model.loss(plain_task).item()
    loss.backward()
    assert leaf.grad.any()
    found = model.joint_log_prob(task)
    assert isinstance(found, Tensor)
    assert_same_bits(found.data, model.joint_log_prob(plain_task))
    mean = model.marginal(task).mean
    assert isinstance(mean, Tensor)
    assert_same_bits(mean.data, model.marginal(plain_task).mean)
    for draw in (model.joint_samples, model.functions):
        assert_same_bits(*(draw(each, np.random.default_rng(0), 2) for each in (task, plain_task)))
