"""The equations of the layers and of their gradients, written once more, in numbers that carry their rounding error.

Every function here takes `Rounded` numbers and returns (y, pullback), pullback(ȳ) one gradient per argument, in the
form in which the textbooks print them and independent of refnp's own code. So each gives two things at once: a second
opinion on refnp's value, and the bound by which it and every framework is judged (`refnp.verify.rounding`).

Where two forms of an equation are equal on paper, the one that cancels least is written down: erfc and not 1 + erf,
log1p of the rest and not log of the sum, σ(−x) and not 1 − σ(x). What an implementation loses by using another is its
own loss.
"""
