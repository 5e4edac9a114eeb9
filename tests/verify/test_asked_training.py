"""What training does beside the forward pass: running statistics, and gradients of padding and of frequent tokens."""

import pytest

import refnp

torch = pytest.importorskip("torch")
F, nn = torch.nn.functional, torch.nn


def statistics(x):
    """Mean and unbiased variance of every channel."""
    rows = x.transpose(0, 1).flatten(1)
    return rows.mean(-1), rows.var(-1, correction=1)


def biased(x):
    """What normalises, and is not what is kept."""
    return x.transpose(0, 1).flatten(1).var(-1, correction=0)


def of_batch_norm(x, running_mean, momentum=0.1):
    kept = running_mean.clone()
    F.batch_norm(x, kept, torch.ones_like(kept), training=True, momentum=momentum)
    return kept


RIGHT = [
    ("running_mean", of_batch_norm),
    ("running_mean", lambda x, mean, momentum=0.1: torch.lerp(mean, statistics(x)[0], momentum)),
    ("running_var", lambda x, running_var, momentum=0.1: torch.lerp(running_var, statistics(x)[1], momentum)),
]
WRONG = [
    ("moving_mean", lambda x, mean, momentum=0.1: momentum * mean + (1 - momentum) * statistics(x)[0]),
    ("running_variance", lambda x, var, momentum=0.1: torch.lerp(var, biased(x), momentum)),
    ("running_variance", lambda x, var, momentum=0.1: torch.lerp(var, statistics(x)[1], 0.1)),
]


@pytest.mark.parametrize(("name", "function"), RIGHT)
def test_right_statistics_hold(name, function):
    report = refnp.judge(name, function, framework="torch")
    assert report.holds, str(report)


@pytest.mark.parametrize(("name", "function"), WRONG)
def test_wrong_statistics_do_not_hold(name, function):
    assert not refnp.judge(name, function, framework="torch").holds


def test_an_embedding_is_asked_for_what_it_takes():
    report = refnp.judge("embedding", F.embedding, gradients=True)
    assert report.holds, str(report)
    asked = {row["case"] for row in report.rows}
    assert {"embedding/padding", "embedding/by frequency", "embedding/padding, by frequency"} <= asked
    plain = refnp.judge("embedding", lambda tokens, table: table[tokens], framework="torch", gradients=True)
    assert plain.holds
    assert "embedding/padding" in plain.skipped["the function takes no padding_index"]


def test_the_gradient_of_padding_and_of_frequent_tokens_is_judged():
    unheeding = lambda tokens, table, padding_idx=None: table[tokens]
    by_number = lambda tokens, table, scale_grad_by_freq=False: F.embedding(tokens, table)
    for function in (unheeding, by_number):
        assert refnp.judge("embedding", function, framework="torch").holds
        assert not refnp.judge("embedding", function, framework="torch", gradients=True).holds


@pytest.mark.parametrize("options", [{"padding_idx": 1}, {"scale_grad_by_freq": True}, {}])
def test_modules_are_asked_with_what_they_were_made_with(options):
    report = refnp.judge("Embedding", nn.Embedding(7, 3, **options), gradients=True)
    assert report.holds, str(report)

    class Plain(nn.Embedding):
        def forward(self, tokens):
            return self.weight[tokens]

    assert refnp.judge("Embedding", Plain(7, 3, **options), gradients=True).holds == (not options)


def test_dropout_of_a_mask_that_was_drawn():
    right = lambda x, mask, p: x * mask / (1 - p)
    undivided = lambda x, mask, p: x * mask
    hidden = lambda x, mask, p: x * ~mask / (1 - p)
    rate = {"dropout": "p"}
    assert refnp.judge("dropout_of_mask", right, arguments=rate, framework="torch", gradients=True).holds
    for wrong in (undivided, hidden):
        assert not refnp.judge("dropout_of_mask", wrong, arguments=rate, framework="torch").holds
