"""How far it is from a call to its arithmetic stays as short as it is: the measures of `python -m tests.structure`."""

import numpy as np

from refnp.layers import attention, set_convolution
from tests import structure


def test_attention_is_eight_deep():
    """The machinery, three times; what is hidden set apart; the kernel, its form with all scores, masked_softmax, and
    the one place where NumPy's einsum may be called."""
    q = np.ones((3, 2))
    attention(q, q, q)  # shapes that fitted once are not looked at again
    assert structure.call(lambda: attention(q, q, q)).deepest <= 8


def test_a_set_convolution_of_two_points_stands_in_eight_files():
    """What is around every page, checks of shapes and numbers, kinds of these, arrays, the kernel and its weights."""
    x, y = np.array([[0.0], [1.0]]), np.ones((2, 1))
    set_convolution(x, x, y, 0.5)
    entered = structure.call(lambda: set_convolution(x, x, y, 0.5))
    assert len(entered.functions) <= 20
    assert len(entered.files) <= 8


def test_training_is_twelve_frames_from_the_command_line_to_the_set_convolution():
    names = [code.co_name for code in structure.training(1).stack]
    assert names[0] == "main"
    assert names[-1] == "set_convolution"
    assert len(names) <= 12  # two are what is around every page


def test_one_step_of_training_enters_few_functions():
    step = structure.one_step()
    assert len(step.functions) <= 213  # one of them only while arrays live that a module gave outside of the tape
    assert len(step.files) <= 40  # a page and its kernel are two


def test_ideas_are_files():
    files, _ = structure.size()
    assert files <= 424  # a new idea may have a page and a kernel, an idea that has them may not have a second
