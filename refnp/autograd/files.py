"""Files that are written whole or not at all."""

import os
import tempfile
from pathlib import Path


def write_whole(file: Path, content: bytes) -> None:
    """Write a file whole or not at all: to one beside it, which then takes its name."""
    descriptor, beside = tempfile.mkstemp(dir=file.absolute().parent)
    try:
        with open(descriptor, "wb") as opened:
            opened.write(content)
        os.chmod(beside, 0o644)
        os.replace(beside, file)
    except BaseException:
        os.unlink(beside)
        raise
