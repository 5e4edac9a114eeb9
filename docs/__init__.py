"""The site: `python -m docs build` makes it, `python -m docs serve` shows it."""
