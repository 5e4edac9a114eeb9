"""The version of refnp, which recordings and reports carry."""

__version__ = "0.1.0"
