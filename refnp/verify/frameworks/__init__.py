"""Other frameworks' own functions on refnp's cases: the only place that may import them, and only inside functions."""

from __future__ import annotations


class NotOfferedError(Exception):
    """The framework has no function for this case; the message says what it lacks."""
