"""Cases as files, for programs in any language; docs/case_format.md describes every byte for their authors.

cases      what a case holds, and `export`: a folder of cases with a manifest
formats    npz, safetensors, json, raw: how arrays with names become bytes, and how answers, not trusted, are read
answers    the verdicts on a folder of answers, and on a program that is run on each case
"""

from refnp.verify.exchange.cases import export, listing

__all__ = ["export", "listing"]


def __dir__() -> list[str]:
    return __all__
