"""Hypothesis profiles: HYPOTHESIS_PROFILE=dev (the default, seconds), ci (the same examples every time), thorough."""

import os

from hypothesis import HealthCheck, settings

slow_is_fine = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", max_examples=8, **slow_is_fine)
settings.register_profile("ci", max_examples=25, derandomize=True, database=None, print_blob=True, **slow_is_fine)
settings.register_profile("thorough", max_examples=400, **slow_is_fine)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
