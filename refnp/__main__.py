"""`python -m refnp`: the same as the command `refnp`."""

import sys

from refnp.cli import main

if __name__ == "__main__":
    sys.exit(main())
