"""The page of `--html`: whole, in order, and with nothing of the rows taken for markup."""

import math
from html.parser import HTMLParser

from refnp import cli
from refnp.verify.html import page
from refnp.verify.judge import DEVIATES, KNOWN, SKIPPED, WITHIN, Judgement


def row(case, verdict, **more):
    numbers = (math.nan, math.nan) if verdict == SKIPPED else (0.5, 1.0) if verdict == WITHIN else (math.inf, 3e7)
    return Judgement("frameworks", case, "mine", "NumPy 2", "float32", "output", *numbers, verdict, **more)


ROWS = [
    row("relu/ordinary", WITHIN),
    row("softmax/<b>", DEVIATES, claimed=math.nan, right=0.25, why="a & b <script>"),
    row("softmax/skipped", SKIPPED, why="not offered"),
    row("gelu/tail", KNOWN, issue="x#1", claimed=0.1, right=0.2, why="cancels"),
]


class Reader(HTMLParser):
    """What stands in the cells, and whether every element is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.cells, self.summaries = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "input"):
            self.open.append(tag)
            if tag == "td":
                self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "a"):
            self.cells[-1] += data
        if self.open and self.open[-1] == "b":
            self.summaries.append(data)


def test_every_row_is_there_and_nothing_is_taken_for_markup():
    read = Reader(page(ROWS, title="a <title>", summary=["1 < 2"]))
    assert read.open == []
    assert read.cells.count("softmax/<b>") == 1
    assert "a & b <script>" in read.cells
    assert "x#1: cancels" in read.cells
    assert len(read.cells) == 3 * 3 + 11 * len(ROWS), "a line for each layer, and one for each row"
    assert read.cells[:9] == ["relu", "1", "0.5", "softmax", "2", "1 deviates", "gelu", "1", "1 known defect"]


def test_layers_in_which_something_deviates_come_first():
    assert Reader(page(ROWS, title="t")).summaries == ["layers and frameworks", "softmax", "gelu", "relu"]
    assert Reader(page([], title="nothing")).open == []


def test_verify_writes_it(tmp_path, capsys):
    file = tmp_path / "v.html"
    assert cli.main(["verify", "--only", "frameworks/relu", "--live", "none", "--html", str(file)]) == 0
    text = file.read_text()
    assert text.count("<tr class=") > 50
    assert "rows judged against" in text
    assert "http" not in text.replace("https://github.com", ""), "it needs nothing beside it"
    assert cli.main(["verify", "--html", "/no/such/folder/v.html"]) == 2


def test_a_text_longer_than_a_screen_stands_behind_its_heading():
    short, long = (
        page(ROWS, title="t", summary=["\n".join(f"line {i}" for i in range(count)), "end"]) for count in (9, 99)
    )
    assert "in words" not in short
    assert "<details><summary><b>in words</b></summary><pre>line 0" in long
    Reader(long)
