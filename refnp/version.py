"""What recordings and reports say of where they were made: the version of refnp, and the processor."""

import platform
from pathlib import Path

__version__ = "0.1.0"


def processor() -> str:
    """The processor's name, and the operating system."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{named[0] if named else platform.processor() or platform.machine()}, {platform.system()}"
