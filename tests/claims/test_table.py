"""docs/ledger.md and the tables of other pages say what is expected, and what a sample of the rows comes to now."""

import pytest

from refnp.claims import APPROXIMATE, BROKEN, EXACT, ON_SUBGROUP, decide, rows, table
from refnp.claims.decision import Found
from refnp.claims.ledger import in_words
from refnp.files import between_marks

EVERY = 36  # one row of so many is decided here; `refnp claims` decides all
ROWS = [row for _, row in rows()]
BY_NAME = {(row.subject, row.symmetry): row for row in ROWS}
WORDS = {EXACT: "yes", BROKEN: "no", APPROXIMATE: "nearly"}


def lines_of(text):
    """The cells of every line of the tables in a text, without the rules under their headings."""
    found = [[cell.strip() for cell in line[1:-1].split(" | ")] for line in text.splitlines() if line.startswith("|")]
    return [line for line in found if set("".join(line)) - set("-|")]


def ledger_lines():
    """(subject, symmetry) → (verdict, discrepancy, bound, pairs, reason) as the page has them, in its order."""
    found, subject = {}, ""
    for line in lines_of((table.DOCS / table.PAGE).read_text(encoding="utf-8")):
        if line[0] == "subject":
            continue
        subject = line[0] or subject
        found[subject, line[1]] = line[2:]
    return found


LINES = ledger_lines()


def test_the_page_has_every_row_with_what_is_expected_of_it():
    assert list(LINES) == list(BY_NAME)
    for name, (verdict, *_, reason) in LINES.items():
        row = BY_NAME[name]
        assert verdict.partition(", ")[0] == in_words(row.expected, row.subgroup)
        assert not verdict.endswith("proved") or row.expected == EXACT
        assert reason == row.reason


@pytest.mark.parametrize("row", ROWS[::EVERY], ids=lambda row: row.name)
def test_a_sample_of_the_rows_comes_out_as_the_page_says(row):
    found = decide(row)
    assert found.right, f"{found.verdict} {found.subgroup} {found.remark}\n{found.counterexample}"
    verdict, *written, pairs, _ = LINES[row.subject, row.symmetry]
    assert verdict.endswith(", proved") == found.proved
    assert min(int(pairs), found.pairs) > 0
    for discrepancy, bound in (map(float, written), (found.discrepancy, found.bound)):
        if row.expected == EXACT:
            assert discrepancy <= bound < 1e-9
        else:
            assert discrepancy > 1e3 * bound


@pytest.mark.parametrize("name", table.TABLES)
def test_the_tables_of_other_pages_say_what_is_expected(name):
    own = table.TABLES[name]
    text = (table.DOCS / own.page).read_text(encoding="utf-8")
    heading, *body = lines_of(between_marks(text, name)[1])
    cells = {(line[0], column): cell for line in body for column, cell in zip(heading[1:], line[1:], strict=True)}
    assert len(cells) == len(own.subjects) * len(own.symmetries)
    for label, subject in own.subjects.items():
        for column, symmetry in own.symmetries.items():
            cell = cells[(column, label) if own.across else (label, column)]
            row = BY_NAME.get((subject, symmetry))
            if row is None:
                assert cell == "–"
            else:
                right = row.subgroup if row.expected == ON_SUBGROUP else WORDS[row.expected]
                assert cell.partition(",")[0] == right
                assert cell == right or float(cell.partition(", ")[2]) > 0


def test_a_page_is_renewed_where_a_verdict_changed():
    row = BY_NAME["CNP", "context permuted"]
    changed = Found(row.subject, row.symmetry, row.expected, "", row.reason, verdict=BROKEN, discrepancy=0.25)
    text = (table.DOCS / "neural_processes.md").read_text(encoding="utf-8")
    renewed = table.with_tables(text, "neural_processes.md", {(row.subject, row.symmetry): changed})
    assert "| context permuted | no, 0.25 | – |" in renewed
    before, _, after = between_marks(text, "neural processes")
    assert renewed.startswith(before)
    assert renewed.count("<!--") == text.count("<!--")
    assert len(after) > 1000
