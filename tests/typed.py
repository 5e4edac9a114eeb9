"""What a type checker knows of refnp as pip has installed it: python …/tests/typed.py, in a folder without refnp.

`mypy --strict` accepts the program of a user (user.py) with the mistakes that are marked, and no public name is Any.
Needs mypy, and refnp in the same environment.
"""

import importlib
import pathlib
import subprocess
import sys

CHAPTERS = ("autograd", "layers", "models", "studies", "symmetry", "tasks", "training", "verify")
PACKAGES = ("refnp", *(f"refnp.{name}" for name in CHAPTERS), "gradcheck")
# of any kind of number; and, by an option, one result or two
MAY_BE_ANY = {
    f"refnp.{name}" for name in ("autograd.sum_to", "layers.grouped_attention", "layers.similarity_attention")
}


def public() -> list[str]:
    """Every public name, with its package."""
    return [f"{package}.{name}" for package in PACKAGES for name in importlib.import_module(package).__all__]


def checked(*arguments: str) -> str:
    """What mypy says; the end of this program if it finds an error."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *arguments]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode:
        sys.exit(found.stdout + found.stderr)
    return found.stdout


if __name__ == "__main__":
    checked(str(pathlib.Path(__file__).with_name("user.py")))
    names = public()
    packages = {name.rpartition(".")[0] for name in names}
    lines = [*(f"import {package}" for package in sorted(packages)), *(f"reveal_type({name})" for name in names)]
    revealed = checked("-c", "\n".join(lines)).splitlines()
    gives = [line.removesuffix(' -> def (*Any, **Any) -> Any"') for line in revealed]  # a function that gives functions
    unknown = [
        name
        for name, line in zip(names, gives, strict=True)
        if name not in MAY_BE_ANY and line.endswith(('"Any"', '-> Any"'))
    ]
    if unknown:
        sys.exit(f"Any, or a function that gives Any: {', '.join(unknown)}")
    print(f"{len(names)} public names have types")
