"""Keys and values of the tokens seen so far, so that a new token computes its own only.

Under a causal mask, keys and values of a token depend on nothing that comes after it. Decoding N tokens one by one
therefore needs N projections, not N²/2, and gives what the whole sequence at once would give.

Source: Sivaraya (2023) §1.8 (inference); the cache is folklore, see Shazeer, arXiv 1911.02150 §2.3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refnp.autograd import Tensor, is_recording
from refnp.autograd.primitive import raw


class KeyValueCache:
    """Keys (..., h, M, d) and values (..., h, M, d_v) of M tokens, which grow by `extend`.

    The room doubles when it is full, so that M tokens are copied O(M) times in all. It keeps arrays and no tape.
    """

    def __init__(self) -> None:
        self.length = 0
        self._rooms: list[np.ndarray] = []

    def extend(self, key: Any, value: Any) -> tuple[np.ndarray, np.ndarray]:
        """Add the keys (..., h, n, d) and values (..., h, n, d_v) of n tokens; returns those of all tokens so far.

        What is returned are views, true until the next call.
        Raises RuntimeError if a gradient would be lost, ValueError if shapes or types do not continue what came before;
        then nothing has changed.
        """
        if is_recording() and any(isinstance(a, Tensor) and a.requires_grad for a in (key, value)):
            raise RuntimeError("KeyValueCache: keys need a gradient, and a cache keeps none; decode within no_grad()")
        new = [np.asarray(raw(array)) for array in (key, value)]
        rooms = self._rooms or [np.empty((*a.shape[:-2], 0, *a.shape[-1:]), a.dtype) for a in new]
        for name, array, room in zip(("key", "value"), new, rooms, strict=True):
            seen = (*room.shape[:-2], self.length, *room.shape[-1:])
            if array.ndim < 2 or (*array.shape[:-2], self.length, array.shape[-1]) != seen or array.dtype != room.dtype:
                raise ValueError(
                    f"KeyValueCache: {name} is {array.dtype} of shape {array.shape}, which does not continue "
                    f"{room.dtype} of shape {seen}"
                )
        if new[0].shape[-2] != new[1].shape[-2]:
            raise ValueError(f"KeyValueCache: {new[0].shape[-2]} keys but {new[1].shape[-2]} values; they must match")
        end = self.length + new[0].shape[-2]
        if end > rooms[0].shape[-2]:
            rooms = [_enlarged(room, self.length, max(end, 2 * self.length, 16)) for room in rooms]
        for room, array in zip(rooms, new, strict=True):
            room[..., self.length : end, :] = array
        self._rooms, self.length = rooms, end
        return self._rooms[0][..., :end, :], self._rooms[1][..., :end, :]

    def reorder(self, rows: np.ndarray) -> None:
        """Row b of the first axis becomes what row `rows[b]` was, as when beams are chosen anew."""
        if self._rooms and not np.array_equal(rows, np.arange(len(self._rooms[0]))):  # as often in greedy search
            self._rooms = [room[rows] for room in self._rooms]


def _enlarged(room: np.ndarray, used: int, length: int) -> np.ndarray:
    larger = np.empty((*room.shape[:-2], length, room.shape[-1]), room.dtype)
    larger[..., :used, :] = room[..., :used, :]
    return larger
