"""Cases as files, for programs in any language; docs/case_format.md describes every byte for their authors.

cases      what a case holds, and `export`: a folder of cases with a manifest
formats    npz, safetensors, json, raw: how arrays with names become bytes, and how answers, not trusted, are read
answers    the verdicts on a folder of answers
programs   the verdict on a program that is run on each case
"""

from refnp.verify.exchange.answers import judge_folder
from refnp.verify.exchange.cases import export, listing
from refnp.verify.exchange.programs import judge_program

__all__ = ["export", "judge_folder", "judge_program", "listing"]


def __dir__() -> list[str]:
    return __all__
