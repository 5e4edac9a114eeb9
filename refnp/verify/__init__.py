"""The oracle: is refnp right, and who else is?

rounding    numbers that carry a bound on their own rounding error
equations   the textbook's equations and gradients, in such numbers: a second opinion and a bound at once
bounds      the classical closed forms of those bounds;  truncation: what a set convolution leaves out
case        a function, inputs and a cotangent;  cases: all of them;  known: what others are known to get wrong
judge       the verdict on an array
frameworks  adapters to PyTorch and JAX;  recorded: what they answered;  record: the script that asked them
properties  what must hold for every input
run, command, report    `refnp verify`
"""
