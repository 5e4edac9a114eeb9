"""The same work in refnp and in its peers, in one run, as ratios: `python -m benchmarks`.

A page for each family of work, and three that serve them all: timing.py, memory.py and report.py.
"""
