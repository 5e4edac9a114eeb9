"""Names that people type: found, or refused with the ones that are close."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any


def named(what: str, name: str, things: Mapping[str, Any]) -> Any:
    """things[name], or ValueError that suggests the names close to it and lists all."""
    if name not in things:
        raise ValueError(unknown(what, name, things))
    return things[name]


def unknown(what: str, name: str, names: Iterable[str]) -> str:
    """A message: there is no such thing, did you mean …; and all there is."""
    names = list(names)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    meant = f"; did you mean {' or '.join(close)}?" if close else "."
    return f"there is no {what} {name!r}{meant} There are {', '.join(names) or 'none'}"
