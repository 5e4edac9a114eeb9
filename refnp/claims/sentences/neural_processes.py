"""What the texts say of neural processes: CNP, latent and attentive ones, Transformer neural processes."""

from dataclasses import replace
from typing import Any

import numpy as np

from refnp.autograd import no_grad
from refnp.autograd.primitives import raw
from refnp.claims.common import generator
from refnp.claims.sentences.register import control, drawn, fails, false, holds, largest, listed, true, true_if, unseen
from refnp.layers.distributions import Normal
from refnp.layers.positions.absolute import sinusoidal
from refnp.models import CNP, TNPA, TNPD, Encoder, LatentNP, autoregressive_mask, diagonal_mask
from refnp.models.joint import Autoregressive
from refnp.models.latent import elbo, importance_weighted_bound
from refnp.studies import calibration, decisions, growth, paths
from refnp.studies.measured import kept
from refnp.studies.paths import few_points
from refnp.studies.registry import sampler
from refnp.studies.trained import open_trained
from refnp.tasks.protocols import tnp
from refnp.tasks.task import Task
from refnp.training.loop import train
from refnp.training.optimizers import Adam


def toy(contexts: int = 5, targets: int = 4, seed: int = 0) -> Task:
    """One task with random places and values."""
    x, y, t, z = drawn((1, contexts, 1), (1, contexts, 1), (1, targets, 1), (1, targets, 1), seed=seed)
    return Task(x, y, t, z)


def answer(model, task: Task) -> np.ndarray:
    """Means of a model's marginals at the targets of a task."""
    with no_grad():
        return raw(model.marginal(task).mean)


SIZES: dict[str, Any] = {"features": 16, "heads": 2, "hidden": 32, "layers": 2}


@true_if(
    '"an expansion of Gaussian Processes using Neural Networks"',
    "Sivaraya (2023) 2, 2.2",
    "in form: any targets, each with its distribution; conditionals need not fit together as a process's do",
)
def expansion_of_gaussian_processes():
    """A target beside others, and the chain rule in two orders, of the shipped CNP and of the exact posterior."""
    model = open_trained("cnp", np.float64).model
    task, process = tnp().sample_with_process(generator(), 4)
    other = replace(task, target_x=task.target_x[:, :1], target_y=task.target_y[:, :1])
    off = largest(answer(model, other) - answer(model, task)[:, :1])
    n = task.target_x.shape[1]
    with no_grad():
        law = Autoregressive(model)(task.context_x, task.context_y, task.target_x, orders=[range(n), range(n)[::-1]])
        two = raw(law.log_prob_by_order(task.target_y)) / n
    flipped = replace(task, target_x=task.target_x[:, ::-1], target_y=task.target_y[:, ::-1])
    exact = largest(process.posterior(flipped).joint_log_likelihood() - process.posterior(task).joint_log_likelihood())
    return [
        holds(off < 1e-12, "other targets beside it do not change a target's prediction, to 1e-12"),
        fails(largest(two[0] - two[1]) > 0.01,
            f"p(y₁) p(y₂ given y₁) … in two orders: log p per target differs by up to {largest(two[0] - two[1]):.2f}"),
        control(exact < 1e-9, "of the exact posterior by less than 1e-9"),
    ]  # fmt: skip


@true('"learning to learn", new tasks "quickly", from "a small number of examples"', "Sivaraya (2023) 2, 2.1")
def new_tasks():
    """RMSE on 64 new tasks of the shipped TNP-D, and of random weights, from 2, 8 and 32 context points."""
    tasks = sampler("rbf")
    errors: dict[bool, list[float]] = {True: [], False: []}
    for trained in errors:
        model = open_trained("tnpd").model if trained else TNPD(rng=generator())
        for points in (2, 8, 32):
            places = replace(tasks.places, context=(points, points), target=(16, 16), total=None)
            task = replace(tasks, places=places).sample(generator(), 64)
            found = answer(model, task.astype(np.float32)) - task.target_y
            errors[trained].append(float(np.sqrt((found**2).mean())))
    return [
        holds(errors[True][0] > 2 * errors[True][2],
            f"no step of training: RMSE {listed(errors[True])} from 2, 8, 32 points"),
        control(errors[False][2] > 2 * errors[True][2], f"weights that saw no task: {listed(errors[False])}"),
    ]  # fmt: skip


@true_if(
    '"trained on a context dataset", a set of pairs; "on a set of tasks"',
    "Sivaraya (2023) 2, 2.1, 3.2",
    "many data sets; from one alone it learns that one function",
)
def many_data_sets():
    """A small CNP, 150 steps on parts of one data set, and on new data sets: log-likelihood per target."""
    tasks = sampler("eq")
    one = tasks.sample(generator(1), 1)
    x, y = (np.concatenate([getattr(one, f"{kind}_{a}")[0] for kind in ("context", "target")]) for a in "xy")

    def part(rng):
        order = [rng.permutation(len(x)) for _ in range(16)]
        contexts = int(rng.integers(1, 20))
        sets = np.array([x[o] for o in order]), np.array([y[o] for o in order])
        return Task(sets[0][:, :contexts], sets[1][:, :contexts], sets[0][:, contexts:], sets[1][:, contexts:])

    def learned(draw):
        model = CNP(hidden=32, rng=generator())
        optimizer = Adam(model.parameters(), learning_rate=2e-3)
        train(model, lambda m, rng: m.loss(draw(rng)), optimizer, steps=150, rng=generator(2), show=False)
        with no_grad():
            return [-model.loss(t).item() for t in (part(generator(3)), tasks.sample(generator(4), 128))]

    (same, new), (_, new_of_many) = learned(part), learned(lambda rng: tasks.sample(rng, 16))
    return [
        holds(new_of_many > -1.5, f"trained on new data sets: {new_of_many:.2f} on others"),
        fails(new < new_of_many - 1, f"trained on one: {same:.2f} on that, {new:.1f} on others"),
    ]


@true('the target set has "the inputs only"', "Sivaraya (2023) 2.1")
def inputs_only():
    """Whether predictions depend on the outputs of targets."""
    task, model = toy(), CNP(hidden=16, rng=generator())
    other = replace(task, target_y=task.target_y + 1)
    return [
        holds((answer(model, task) == answer(model, other)).all(),
            "other target outputs: the same prediction, bit for bit"),
        control(raw(model.loss(task)) != raw(model.loss(other)), "training needs them: the loss is another"),
    ]  # fmt: skip


@false(
    'a CNP generates "a stochastic representation of the training dataset"',
    "Sivaraya (2023) 2.2",
    "its representation is a function of the context; the prediction is a distribution",
)
def stochastic_representation():
    """The representation of one context, twice; and draws of a latent z."""
    task, model, latent = toy(), CNP(hidden=16, rng=generator()), LatentNP(hidden=16, rng=generator())
    mask = np.ones((1, 5), bool)
    with no_grad():
        r = [raw(model.represent(task.context_x, task.context_y, mask, task.target_x)) for _ in range(2)]
        z = raw(latent.latent(task.context_x, task.context_y, mask).std)
        std = raw(model.marginal(task).std)
    return [
        fails((r[0] == r[1]).all(), "the same context has the same representation, bit for bit"),
        control(z.min() > 0, f"a latent z has a distribution, of deviations from {z.min():.2f}"),
        control(std.min() > 0, "and so has the prediction of a CNP"),
    ]


@true_if(
    'CNPs work "efficiently with low computational complexity"',
    "Sivaraya (2023) 2.2",
    "there are many points: the cost is in proportion to them; for few the exact posterior is cheaper",
    tests="tests/studies/test_experiments.py",
)
def low_cost():
    """Multiply-adds of a prediction for M targets from M context points: the degree in M, and the number."""
    counts = {name: growth.count(name) for name in ("cnp", "tnpd", growth.EXACT)}
    degrees = [growth.counted(name)["degree"] for name in counts]
    few, many = ([growth.at(of, size) / 1e6 for of in counts.values()] for size in (100, 1000))
    return [
        holds(degrees[0] == 1 and many[0] < 0.1 * min(many[1:]),
            f"CNP: in proportion to M; {many[0]:.0f} million for M = 1000"),
        control(degrees[1:] == [2, 3],
            f"TNP-D: to M², {many[1]:.0f} million; exact posterior: to M³, {many[2]:.0f} million"),
        fails(few[2] < few[0], f"M = 100: CNP {few[0]:.1f}, exact posterior {few[2]:.1f} million"),
    ]  # fmt: skip


@true_if(
    '"CNPs are unable to generate coherent sample paths"',
    "Sivaraya (2023) 2.2",
    "each target is drawn by itself; told what it drew before, a CNP draws values that hang together, too loosely",
    tests="tests/models/test_joint.py",
)
def cnp_paths():
    """Neighbours .1 apart, over 64 draws of the shipped CNP, noise included, on 8 tasks with 4 context points."""
    task, posterior = few_points()
    model = open_trained("cnp").model
    draws = [paths.drawn(model, task, generator(), 64, law) for law in paths.LAWS]
    draws.append(posterior.sample(generator(), 64)[..., 0])
    alone, chained, exact = (paths.coherence(one) for one in draws)
    _, of_chained, of_exact = (float(np.abs(np.diff(one)).mean()) for one in draws)
    return [
        holds(abs(alone) < 0.05, f"each target by itself: correlation of neighbours {abs(alone):.1f}"),
        fails(chained > 0.3, f"by the chain rule, with the same weights: {chained:.2f}"),
        control(exact > 1.5 * chained, f"exact posterior: {exact:.2f}"),
        holds(of_chained > 1.3 * of_exact,
            f"by the chain rule too draws are ragged: steps between neighbours {of_chained / of_exact:.1f} times those "
            "of the exact posterior"),
    ]  # fmt: skip


@true_if(
    'latent NPs "are able to generate coherent sample paths", by a latent variable z',
    "Sivaraya (2023) 2.3",
    "a path is the mean given z; in the shipped one the noise of each value hides most of what z says",
    tests="tests/models/test_latent.py",
)
def latent_paths():
    """The same, of the shipped latent NP: one z for a whole path, and another z for each target."""
    task, posterior = few_points()
    model = open_trained("np").model
    alone, together = (paths.coherence(paths.drawn(model, task, generator(), 64, law)) for law in paths.LAWS)
    means = paths.coherence(paths.functions(model, task, generator(), 64))
    exact = paths.coherence(posterior.sample(generator(), 64)[..., 0])
    return [
        holds(means > 0.8, f"means given one z: correlation of neighbours {means:.2f}"),
        control(abs(alone) < 0.05, f"another z for each target: {abs(alone):.1f}"),
        fails(together < 0.5 * exact, f"with its noise: {together:.2f}, where the exact posterior has {exact:.2f}"),
    ]


@true_if(
    'latent NPs "have intractable likelihoods"',
    "Sivaraya (2023) 3.1",
    "the decoder is not linear in z; for a linear one with constant σ the integral is known",
    tests="tests/models/test_latent.py",
)
def intractable_likelihood():
    """log p(y) = log ∫ N(y; g(z), s²) N(z; 0, 1) dz by sums over a fine grid of z, against the Gaussian formula."""
    z = np.linspace(-8, 8, 4001)

    def integral(g, y):
        each = Normal(g(z), np.full(z.shape, 0.5)).log_prob(np.full(z.shape, y)) + Normal(0 * z, 1 + 0 * z).log_prob(z)
        return float(np.log(np.exp(each).sum() * (z[1] - z[0])))

    def formula(g, y):
        """The Gaussian with the same mean and variance."""
        p = np.exp(-z * z / 2) / np.exp(-z * z / 2).sum()
        mean = (p * g(z)).sum()
        std = np.sqrt((p * (g(z) - mean) ** 2).sum() + 0.25)
        return float(Normal(np.array(mean), np.array(std)).log_prob(np.array(y)))

    off = [
        max(abs(integral(g, y) - formula(g, y)) for y in (-1.0, 0.0, 2.0))
        for g in (lambda z: 2 * z, lambda z: np.tanh(4 * z))
    ]
    return [
        holds(off[1] > 0.1, f"g = tanh 4z: a Gaussian of the right mean and variance is off by {off[1]:.2f}"),
        fails(off[0] < 1e-9, "g = 2z: the formula is exact, to 1e-9"),
    ]


@true_if(
    'the "ELBO can be a poor approximation of the true likelihood"',
    "Sivaraya (2023) 3.1",
    "the posterior of the model is not the true one",
    tests="tests/models/test_latent.py",
)
def poor_bound():
    """log p(y) of y = z + noise, known, against the bounds with right and wrong posteriors; 4000 draws."""
    y, s = 1.5, 0.5
    exact = float(Normal(np.array(0.0), np.sqrt(1 + s * s)).log_prob(np.array(y)))
    prior = Normal(np.zeros((1, 1)), np.ones((1, 1)))
    right = Normal(np.full((1, 1), y / (1 + s * s)), np.full((1, 1), s / np.sqrt(1 + s * s)))
    wrong = Normal(np.zeros((1, 1)), np.full((1, 1), 0.8))

    def likelihood(z):
        return Normal(z[..., 0], np.full(z.shape[:-1], s)).log_prob(np.full(z.shape[:-1], y))

    def gap(bound, posterior):
        z = posterior.sample(generator(), 4000)
        return exact - float(bound(prior, posterior, likelihood, z)[0])

    exact_gap, poor = gap(importance_weighted_bound, right), gap(elbo, wrong)
    return [
        holds(poor > 1, f"a posterior around 0 in place of {y / (1 + s * s):.1f}: the ELBO is {poor:.1f} nats too low"),
        fails(abs(exact_gap) < 1e-9, "the true posterior: the importance-weighted bound is exact, to 1e-9"),
        control(abs(gap(elbo, right)) < 0.05, "and the ELBO is right but for the noise of its draws, .05"),
        control(gap(importance_weighted_bound, wrong) < 0.05, "4000 draws, weighted, mend the wrong posterior, to .05"),
    ]


@true(
    'latent NPs "tend to underfit the data"; attention "allows the model to capture the complexity"',
    "Sivaraya (2023) 3.1",
    "CNPs underfit as much: it is the one vector for the context",
    tests="tests/studies/test_experiments.py",
)
def underfitting():
    """RMSE at a task's own context points over the exact posterior's: the median, as kept and on 32 tasks."""
    figures, tasks = kept("calibration"), tnp()
    again = {n: calibration.misfit(open_trained(n).model, tasks, 32, seed=1) for n in ("np", "cnp", "tnpd", "canp")}
    misfit = {name: figures[name]["misfit"] for name in again}
    return [
        holds(min(again["np"], misfit["np"]) > 8,
            f"RMSE at context points over the exact posterior's: NP {misfit['np']:.0f}, CNP {misfit['cnp']:.0f}"),
        control(max(again["tnpd"], misfit["tnpd"]) < 3 and again["canp"] < 6,
            f"with attention: CANP {misfit['canp']:.1f}, TNP-D {misfit['tnpd']:.1f}"),
    ]  # fmt: skip


@true_if(
    'attention as in attentive NPs "tends to make overconfident predictions"',
    "Sivaraya (2023) 3.1",
    "functions are of a kind that was never trained on; TNPs are overconfident there too, less so",
    tests="tests/studies/test_experiments.py",
)
def overconfidence():
    """Targets in the 90 % interval of the shipped ANP: on its task, and on periodic functions; and of TNP-D, of CNP."""
    figures, model = kept("calibration"), open_trained("anp").model
    inside, outside = (calibration.held(model, tnp(kernel), 32, seed=1)[90][0] for kernel in ("rbf", "periodic"))
    part = {name: figures[name]["90 % periodic"][0] for name in ("anp", "canp", "tnpd", "cnp")}
    return [
        fails(abs(figures["anp"]["90 %"][0] - 90) < 3 and abs(inside - 90) < 8,
            f"on its own task {figures['anp']['90 %'][0]:.0f} % of targets are in ANP's 90 % interval"),
        holds(part["anp"] < 60 and outside < 65,
            f"on periodic functions {part['anp']:.0f} %, of CANP {part['canp']:.0f} %"),
        control(part["cnp"] > part["tnpd"] > part["anp"] + 10,
            f"of TNP-D {part['tnpd']:.0f} %, of CNP without attention {part['cnp']:.0f} %"),
    ]  # fmt: skip


@unseen(
    'attentive NPs have "poor performance on sequential decision-making problems"',
    "Sivaraya (2023) 3.1",
    "in optimisation CANP has as much regret as TNP-D and TE-TNP, ANP more, less than a third of what chance has; in "
    "the bandit ANP has no more than TNP-D",
    tests="tests/studies/test_decisions.py",
)
def sequential_decisions():
    """Regret in per cent of the range, as kept of 512 functions; of 16 again, by CNP and exact posterior.

    One kind of functions in one dimension, and one training run of each model: ANP and CANP of half their usual width.
    """
    figures = kept("decisions")
    regret = {name: [figures[name][kind][0] for kind in ("optimisation", "bandit")] for name in figures}
    of_anp, of_tnpd = ("{:.1f} ± {:.1f}".format(*figures[name]["optimisation"]) for name in ("anp", "tnpd"))
    cnp = open_trained("cnp").model
    of_cnp, of_exact = (
        decisions.both(law, 16)["optimisation"][0]
        for law in (lambda given: decisions.law_of(cnp), lambda given: decisions.exact(given.process))
    )
    (anp, anp_bandit), (tnpd, tnpd_bandit) = regret["anp"], regret["tnpd"]
    chance, exact = regret[decisions.RANDOM], regret[decisions.EXACT]
    vectors = [regret[name] for name in ("cnp", "np")]
    return [
        fails(regret["canp"][0] < 1.1 * max(tnpd, regret["tetnp"][0]) < anp < chance[0] / 3,
            f"optimisation: ANP {of_anp}, CANP {regret['canp'][0]:.1f}, TNP-D {of_tnpd}, TE-TNP "
            f"{regret['tetnp'][0]:.1f}, exact posterior {exact[0]:.1f}"),
        fails(anp_bandit < 0.4 * chance[1] and anp_bandit < 1.1 * tnpd_bandit,
            f"bandit: ANP {anp_bandit:.1f}, TNP-D {tnpd_bandit:.1f}, exact posterior {exact[1]:.1f}"),
        control(min(v[0] for v in vectors) > chance[0] and of_cnp > of_exact,
            f"CNP {vectors[0][0]:.1f}, NP {vectors[1][0]:.1f} in optimisation: worse than at random, {chance[0]:.1f}"),
    ]  # fmt: skip


@true(
    'of TNPs "the likelihood is tractable", and they are trained by maximum likelihood',
    "Sivaraya (2023) 3.1",
    tests="tests/models/test_tnp_a.py",
)
def tractable_likelihood():
    """∫∫ p(y₁, y₂) dy₁ dy₂ of TNP-A, as sums over a grid."""
    model, task = TNPA(**SIZES, rng=generator()), toy(3, 2)
    y = np.linspace(-12, 12, 121)
    pairs = np.stack(np.meshgrid(y, y), -1).reshape(-1, 2, 1)
    with no_grad():
        sets = (np.repeat(a, len(pairs), 0) for a in (task.context_x, task.context_y, task.target_x))
        p = np.exp(raw(model(*sets).log_prob(pairs)))
    total = float(p.sum() * (y[1] - y[0]) ** 2)
    doubled = float((2 * p).sum() * (y[1] - y[0]) ** 2)
    return [
        holds(abs(total - 1) < 1e-6, "the density of two targets integrates to 1, to 1e-6"),
        control(abs(doubled - 2) < 1e-5, "twice the density to 2: the sum would show it"),
    ]


@true_if(
    "the likelihood of all targets (eq. 8) is the product of conditionals (eq. 9)",
    "Sivaraya (2023) 3.2",
    "conditionals belong to one joint distribution; those of a model give a joint one for each order",
    tests="tests/models/test_joint.py",
)
def product_of_conditionals():
    """log p per target in two orders: of the exact posterior, and of TNP-A with random weights."""
    task, process = tnp().sample_with_process(generator(), 4)
    order = generator(1).permutation(task.target_x.shape[1])
    moved = replace(task, target_x=task.target_x[:, order], target_y=task.target_y[:, order])
    exact = largest(process.posterior(task).joint_log_likelihood() - process.posterior(moved).joint_log_likelihood())
    model = TNPA(**SIZES, rng=generator())
    with no_grad():
        two = [raw(model.joint_log_prob(t)) for t in (task, moved)]
    chained = factors(process, task)
    return [
        holds(chained < 1e-9 and exact < 1e-9,
            "exact posterior: the product is the joint density in any order, to 1e-9"),
        fails(largest(two[0] - two[1]) > 1e-3,
            f"TNP-A: log p of two orders differs by up to {largest(two[0] - two[1]):.2f}"),
    ]  # fmt: skip


def factors(process, task: Task) -> float:
    """How far the product of exact conditionals is from the exact joint density, per target."""
    total = 0.0
    for n in range(task.target_x.shape[1]):
        x, y = (np.concatenate([getattr(task, f"context_{a}"), getattr(task, f"target_{a}")[:, :n]], 1) for a in "xy")
        one = Task(x, y, task.target_x[:, n : n + 1], task.target_y[:, n : n + 1])
        total = total + process.posterior(one).joint_log_likelihood()
    return largest(total / task.target_x.shape[1] - process.posterior(task).joint_log_likelihood())


@true_if(
    '"each conditional is modeled as a Gaussian"',
    "Sivaraya (2023) 3.2",
    "the conditional; what the model says of a later target alone is a mixture, and not Gaussian",
)
def gaussian_conditionals():
    """The excess kurtosis of the second of two targets over 1500 draws of the shipped TNP-D used as TNP-A's chain."""
    model = open_trained("tnpd").model
    x = np.array([[[-1.5], [1.8]]], np.float32)
    context, y = np.array([[[-1.9]]], np.float32), np.array([[[0.3]]], np.float32)
    with no_grad():
        law = Autoregressive(model)(context, y, x + np.array([[[0.0], [-3.1]]], np.float32))
        draws, conditional = law.paths(generator(), 1500)
    second = draws[:, 0, 1, 0].astype(float)
    standard = ((draws - raw(conditional.mean)) / raw(conditional.std))[:, 0, 1, 0].astype(float)
    return [
        holds(abs(kurtosis(standard)) < 0.5,
            "given the first, the second is Gaussian: excess kurtosis below .3 in size"),
        fails(kurtosis(second) > 0.6, f"by itself it is not: {kurtosis(second):.1f}"),
    ]  # fmt: skip


def kurtosis(x: np.ndarray) -> float:
    """The excess kurtosis, 0 of a normal distribution, with a standard error of √(24/n)."""
    z = (x - x.mean()) / x.std()
    return float((z**4).mean() - 3)


@true(
    'a permuted context set "should not change its predictions"',
    "Sivaraya (2023) 3.2",
    tests="tests/models/test_tnp.py, tests/models/test_tnp_a.py",
)
def context_invariance():
    """Predictions of TNP-D and TNP-A under a permuted context; the mask that makes it so, and another."""
    task = toy()
    order = [3, 1, 4, 0, 2]
    moved = replace(task, context_x=task.context_x[:, order], context_y=task.context_y[:, order])
    off = max(largest(answer(m, moved) - answer(m, task)) for m in (TNPD(**SIZES, rng=generator()),))
    model = TNPA(**SIZES, rng=generator())
    with no_grad():
        joint = largest(model.joint_log_prob(moved) - model.joint_log_prob(task))
        tokens, encoder = drawn((5, 8))[0], Encoder(1, 8, 2, 16, rng=generator())
        ordered = largest(
            encoder(tokens[order], mask=np.tri(5, dtype=bool)).sum(0)
            - encoder(tokens, mask=np.tri(5, dtype=bool)).sum(0)
        )
    return [
        holds(off < 1e-13 and joint < 1e-12, "TNP-D's means and TNP-A's log p stay as they are, to 1e-12"),
        control(ordered > 0.01, f"context tokens under a causal mask: changed by up to {ordered:.2f}"),
    ]


@false(
    'if we permute the targets, predictions "should not change"; they "should also shift"',
    "Sivaraya (2023) 3.2",
    "they move with the targets (equivariance), of TNP-D; the likelihood of TNP-A depends on their order",
    tests="tests/models/test_tnp.py, tests/models/test_tnp_a.py",
)
def target_equivariance():
    """Predictions for targets shifted by one place."""
    task, model, chain = toy(), TNPD(**SIZES, rng=generator()), TNPA(**SIZES, rng=generator())
    moved = replace(task, target_x=np.roll(task.target_x, -1, 1), target_y=np.roll(task.target_y, -1, 1))
    before, after = answer(model, task), answer(model, moved)
    with no_grad():
        joint = largest(chain.joint_log_prob(moved) - chain.joint_log_prob(task))
    return [
        fails(largest(after - before) > 0.01,
            f"they change, by up to {largest(after - before):.2f} at a place of the list"),
        control(largest(after - np.roll(before, -1, 1)) < 1e-13, "they are the same ones, shifted by one, to 1e-13"),
        fails(joint > 1e-4, f"TNP-A: log p of all targets changes by {joint:.4f}"),
    ]  # fmt: skip


@true_if(
    'positional encoding "breaks the context invariance property"',
    "Sivaraya (2023) 3.3",
    "it encodes the place in the list; an encoding of x itself does not",
)
def positions_break_invariance():
    """Context tokens [x, y] with encodings of their index, and of x, permuted: the sum over the context."""
    x, y = drawn((6, 1), (6, 1))
    encoder, order = Encoder(2, 8, 2, 16, rng=generator()), [3, 1, 5, 0, 2, 4]

    def tokens(x, y, encoding):
        waves = np.sin(x * np.arange(1, 7)) if encoding == "x" else np.zeros((6, 6))
        table = sinusoidal(np.arange(6), 8) if encoding == "index" else 0
        return np.concatenate([x, y, waves], 1) + table

    def off(encoding):
        return largest(encoder(tokens(x[order], y[order], encoding)).sum(0) - encoder(tokens(x, y, encoding)).sum(0))

    return [
        holds(off("index") > 0.1, f"encodings of the index: what the context adds up to changes by {off('index'):.2f}"),
        fails(off("x") < 1e-13, "encodings of x: not at all, to 1e-13"),
        control(off("none") < 1e-13, "without any: not at all, to 1e-13"),
    ]


@true('it "concatenates the x and y pairs together" so that their relation can be learned', "Sivaraya (2023) 3.3")
def pairs_are_tokens():
    """The same x and y paired in another way, as tokens [x, y] and as tokens of x and of y."""
    x, y = drawn((5, 1), (5, 1))
    encoder, none = Encoder(2, 8, 2, 16, rng=generator()), np.zeros((5, 6))

    def together(y):
        return encoder(np.concatenate([x, y, none], 1)).sum(0)

    def apart(y):
        flags = np.repeat(np.eye(2), 5, 0)
        values = np.concatenate([np.concatenate([x, y]), flags, np.zeros((10, 5))], 1)
        return encoder(values).sum(0)

    pairs, single = (largest(f(y[[1, 2, 3, 4, 0]]) - f(y)) for f in (together, apart))
    return [
        holds(pairs > 0.01, f"tokens [x, y]: other pairs change what the context adds up to by {pairs:.2f}"),
        control(single < 1e-13, "tokens of x and y apart, without positions: not at all, to 1e-13"),
    ]


@true_if(
    'auxiliary tokens "with y = 0" stand for what is to be predicted',
    "Sivaraya (2023) 3.3",
    "no value of y is 0, or a flag tells the two apart",
    tests="tests/models/test_tnp.py",
)
def zero_is_ambiguous():
    """The token of a context point with y = 0, and of a target at the same place."""
    x, zero = np.array([[[0.7]]]), np.array([[[0.0]]])
    plain, flagged = (TNPD(**SIZES, flag=flag, rng=generator()) for flag in (False, True))
    return [
        holds(largest(flagged.observed(x, zero) - flagged.unobserved(x)) == 1, "with a flag the two tokens differ"),
        fails(largest(plain.observed(x, zero) - plain.unobserved(x)) == 0, "without one they are the same token"),
        control(largest(plain.observed(x, zero + 0.1) - plain.unobserved(x)) == 0.1, "y = .1 is another token"),
    ]


@true_if(
    '"the x values from the target set effectively appear twice"',
    "Sivaraya (2023) 3.3",
    "of TNP-A; TNP-D has a token for each target",
    tests="tests/models/test_tnp_a.py",
)
def targets_appear_twice():
    """The number of tokens for 2 context points and 3 targets."""
    a, d = autoregressive_mask(2, 3).shape[0], diagonal_mask(2, 3).shape[0]
    return [
        holds(a == 2 + 3 + 3, f"TNP-A: {a} tokens for 2 context points and 3 targets"),
        fails(d == 2 + 3, f"TNP-D: {d}"),
    ]


@true('"To make this work, we must employ a masking scheme"', "Sivaraya (2023) 3.3", tests="tests/models/test_tnp_a.py")
def mask_is_needed():
    """The slope of each target's mean by its own y, under TNP-A's mask and without one."""
    x, y = drawn((6, 1), (6, 1))
    encoder = Encoder(2, 8, 2, 16, rng=generator())
    mask = autoregressive_mask(2, 4)
    open_mask = np.ones_like(mask)

    def padded(y, mask):
        real = np.concatenate([x, y], 1)
        tokens = np.concatenate([real, np.concatenate([x[2:], 0 * y[2:]], 1)])
        return encoder(np.concatenate([tokens, np.zeros((10, 6))], 1), mask=mask)[6:]

    def leak(mask):
        """How far each padded token moves if the y of its own target does."""
        moved = []
        for n in range(4):
            other = y.copy()
            other[2 + n] += 1
            moved.append(largest((padded(other, mask) - padded(y, mask))[n]))
        return max(moved)

    return [
        holds(leak(mask) == 0, "under the mask no padded token depends on the y that it is to predict, to the bit"),
        control(leak(open_mask) > 0.01,
            f"without it they move by up to {leak(open_mask):.2f} with that y: it is copied"),
    ]  # fmt: skip


@true_if(
    'context tokens "attend to themselves", targets to context and "previous target tokens"',
    "Sivaraya (2023) 3.3",
    '"themselves" is the context as a whole, and "previous" counts a real target itself, a padded one not',
    tests="tests/models/test_tnp_a.py",
)
def who_attends_to_whom():
    """The mask for 2 context points and 3 targets, block by block."""
    mask = autoregressive_mask(2, 3)
    real, padded = mask[2:5, 2:5], mask[5:, 2:5]
    before, own = np.tri(3, k=-1, dtype=bool), np.eye(3, dtype=bool)
    return [
        holds(mask[:2, :2].all() and not mask[:2, 2:].any() and mask[2:, :2].all(),
            "context tokens attend to all of the context and to nothing else, targets to all of it"),
        holds((padded == before).all(), "a padded target attends to the real ones before it"),
        fails((real == (before | own)).all(), "a real target to itself besides those before it"),
        control(not mask[:, 5:].any(), "nothing attends to a padded target, not even itself"),
    ]  # fmt: skip
