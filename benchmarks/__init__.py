"""The same work in refnp and in its peers, in one run, as ratios: `python -m benchmarks`.

A file for each family of work, listed in works.py; timing.py compares, worker.py runs one framework, report.py prints.
"""
