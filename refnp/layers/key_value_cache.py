"""Keys and values that are kept while a sequence grows, token by token.

Under a causal mask, keys and values of a token depend on nothing that comes after it. Decoding N tokens one by one
therefore needs N projections, not N²/2, if keys and values are kept: `KeyValueCache`.

Source: Shazeer (2019), arXiv 1911.02150.
Transcription: tests/transcriptions/rows.py, of attention to all tokens at once: it is the same.
"""

import numpy as np

from refnp.autograd import is_recording
from refnp.autograd.declaration import takes
from refnp.autograd.primitives import raw
from refnp.autograd.tensor import Array, Tensor


class KeyValueCache:
    """Keys (..., h, M, d) and values (..., h, M, d_v) of M tokens, which grow by `extend`.

    Memory is kept for more tokens than there are, and doubled when it is full, so that M tokens are copied O(M) times
    in all. It keeps arrays and no tape.
    """

    def __init__(self) -> None:
        self.length = 0
        self._memory: list[Array] = []

    @takes("key (..., n, d), value (..., n, e)")
    def extend(self, key: Array | Tensor, value: Array | Tensor) -> tuple[Array, Array]:
        """Add the keys (..., h, n, d) and values (..., h, n, d_v) of n tokens; returns those of all tokens so far.

        What is returned are views, true until the next call.
        Raises RuntimeError if a gradient would be lost, ValueError if shapes or types do not continue what came before;
        then nothing has changed.
        """
        if is_recording() and any(isinstance(a, Tensor) and a.requires_grad for a in (key, value)):
            raise RuntimeError("KeyValueCache: keys need a gradient, and a cache keeps none; decode within no_grad()")
        new = [np.asarray(raw(array)) for array in (key, value)]
        memory = self._memory or [np.empty((*a.shape[:-2], 0, *a.shape[-1:]), a.dtype) for a in new]
        for name, array, kept in zip(("key", "value"), new, memory, strict=True):
            so_far = (*kept.shape[:-2], self.length, *kept.shape[-1:])
            same = (*array.shape[:-2], self.length, array.shape[-1]) == so_far
            if not same or array.dtype != kept.dtype:
                raise ValueError(
                    f"KeyValueCache: {name} is {array.dtype} of shape {array.shape}, which does not continue "
                    f"{kept.dtype} of shape {so_far}"
                )
        end = self.length + new[0].shape[-2]
        if end > memory[0].shape[-2]:
            memory = [_enlarged(kept, self.length, max(end, 2 * self.length, 16)) for kept in memory]
        for kept, array in zip(memory, new, strict=True):
            kept[..., self.length : end, :] = array
        self._memory, self.length = memory, end
        return memory[0][..., :end, :], memory[1][..., :end, :]

    def reorder(self, rows: Array) -> None:
        """Row b of the first axis becomes what row `rows[b]` was, as when beams are chosen; IndexError if none is."""
        if self._memory and not np.array_equal(rows, np.arange(len(self._memory[0]))):  # as often in greedy search
            self._memory = [kept[rows] for kept in self._memory]


def _enlarged(kept: Array, used: int, length: int) -> Array:
    larger = np.empty((*kept.shape[:-2], length, kept.shape[-1]), kept.dtype)
    larger[..., :used, :] = kept[..., :used, :]
    return larger
