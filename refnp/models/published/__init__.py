"""Weights of others: state dicts of published models under refnp's names, a table of names for each source."""
