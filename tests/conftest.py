"""Hypothesis profiles: HYPOTHESIS_PROFILE=dev (the default, seconds), ci (the same examples every time), thorough.

And one fixture, for tests of Ctrl-C.
"""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

slow_is_fine = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", max_examples=8, **slow_is_fine)
settings.register_profile("ci", max_examples=25, derandomize=True, database=None, print_blob=True, **slow_is_fine)
settings.register_profile("thorough", max_examples=400, **slow_is_fine)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.fixture
def ctrl_c():
    """Ctrl-C means KeyboardInterrupt, as at a terminal, and means it still afterwards.

    What a shell starts in the background ignores it.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)
