"""A generator's state as text, and back: what follows is drawn as if it had never been put away.

The state is that of the bit generator, and of the seed sequence behind it, which counts the children that `rng.spawn`
has given; NumPy keeps the one apart from the other.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np


def state_of(rng: np.random.Generator) -> str:
    """All that decides what `rng` draws next and what it spawns, as JSON."""
    bits: Any = rng.bit_generator
    seed = bits.seed_seq
    state = {"bits": bits.state, "seed": seed.state if isinstance(seed, np.random.SeedSequence) else None}
    return json.dumps(state, default=lambda array: array.tolist())


def set_state(rng: np.random.Generator, text: str) -> None:
    """Let `rng` go on where `state_of` was asked; it changes only if all is well.

    Raises ValueError for a state of another kind of bit generator, or for what is no state.
    """
    bits: Any = rng.bit_generator
    kind = type(bits)
    try:
        state: dict[str, Any] = json.loads(text)
        stored = state["bits"]["bit_generator"]
        if stored == kind.__name__:
            whole = state["bits"], _seed_sequence(state["seed"], bits)
            kind(0).__setstate__(whole)  # raises here, on one that nobody uses
    except (ValueError, KeyError, TypeError, IndexError, OverflowError) as wrong:
        raise ValueError(f"set_state: this is no state of a generator: {wrong!r}") from wrong
    if stored != kind.__name__:
        raise ValueError(f"set_state: the state is of a {stored}, the generator is a {kind.__name__}; make one alike")
    bits.__setstate__(whole)


def _seed_sequence(state: dict[str, Any] | None, bits: Any) -> Any:
    return bits.seed_seq if state is None else np.random.SeedSequence(**state)
