"""Each claim of the texts is decided, in two directions, and docs/claims.md says what is found."""

import ast
import pathlib
import re
import subprocess
import sys

import pytest

from refnp.claims.sentences import CONDITION, FALSE, TRUE, UNSEEN, Sentence, control, fails, holds
from refnp.claims.sentences.__main__ import ROWS, cells, found, main, page
from refnp.claims.sentences.register import EMPTY, NOT_DECIDED, SECTIONS, consistent
from tests.pages import differences

ROOT = pathlib.Path(__file__).parents[2]
EVERY = [(text, section) for text, sections in SECTIONS.items() for section in sections]


@pytest.mark.parametrize("name", ROWS)
def test_the_verdict_is_what_is_measured(name):
    assert consistent(ROWS[name], list(found(name))) == []


def a_row(verdict, *findings):
    return consistent(Sentence("a row", "", (), verdict, "", list), list(findings))


def test_a_row_that_is_not_met_is_noticed():
    yes, no, turned = holds(True, "a"), fails(True, "b"), control(True, "c")
    for verdict, findings in ((TRUE, (yes, turned)), (CONDITION, (yes, no)), (FALSE, (no, turned))):
        assert a_row(verdict, *findings) == []
        for other in {TRUE, CONDITION, FALSE} - {verdict}:
            assert a_row(other, *findings) != []
        for i, finding in enumerate(findings):
            assert a_row(verdict, *findings[:i], finding._replace(met=False), *findings[i + 1 :]) != []
    assert a_row(UNSEEN, no, turned) == [] != a_row(UNSEEN, yes, turned)
    assert a_row(TRUE, yes) == ["it is decided in one direction only"]


def test_every_section_of_the_texts_has_a_row_or_makes_no_claim():
    said = {place for row in ROWS.values() for place in row.where}
    assert said <= set(EVERY)
    assert {(text, section) for text, section, *_ in NOT_DECIDED} <= set(EVERY)
    assert set(EVERY) - said == set(EMPTY)


def test_quotations_are_short():
    quoted = [words for row in ROWS.values() for words in re.findall(r'"(.*?)"', row.claim)]
    quoted += [words for _, _, words, _ in NOT_DECIDED]
    assert [words for words in quoted if len(words.split()) > 12] == []


def test_other_tests_exist():
    for row in ROWS.values():
        for test in row.tests:
            path, _, name = test.partition("::")
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            assert not name or name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, test


def test_the_page_says_what_is_found():
    written = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    assert differences(written, page()) == []
    assert all(f"| `{name}` |" in written for name in ROWS)


def test_the_command_prints_a_row_and_refuses_an_unknown_one(capsys):
    assert main(["missing-root"]) == 0
    printed = capsys.readouterr().out
    assert all(text in printed for _, _, text in found("missing-root"))
    assert cells(ROWS["missing-root"])[1] in printed
    with pytest.raises(SystemExit):
        main(["no-such-row"])
    assert "no-such-row" in capsys.readouterr().err


def test_it_is_a_command():
    command = [sys.executable, "-m", "refnp.claims.sentences", "maps-dropped"]
    assert "fails" in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
