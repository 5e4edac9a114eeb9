"""The page of all machines: what stands in it is what was measured; rooflines and growth are what they say."""

import copy
import dataclasses
import json

import numpy as np
import pytest

from benchmarks import growth, page, report, roofline, works
from benchmarks.growth import Growth, Series, exponent
from benchmarks.timing import Needs, Work

RATE = {
    "products": {"float32": 2e9, "float64": 1e9},
    "exponentials": {"float32": 1e9, "float64": 5e8},
    "passes": {"float32": 4e9, "float64": 2e9},
    "memory": 8e9,
    "call": 1e-6,
}
ROW = {"work": "GELU", "dtype": "float32", "peer": "torch", "refnp_ms": 30.0, "peer_ms": 5.0, "ratio": 6.0,
       "low": 5.5, "high": 6.5, "refnp_peak_mb": None}  # fmt: skip
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->"
ABOUT = {"processor": "A Processor @ 2.50GHz", "threads": "2 on 4 cores", "date": "2026-01-02"}
GROWN = Growth("a sum", [10, 100], [1.0, 10.0], [2.0, 200.0], 1.1, 1.1, 150)


def measured(**changes):
    about = {"machine": ABOUT, "roofline": {"1": RATE, "2": RATE}, "rows": [ROW], "growth": [vars(GROWN)]}
    return copy.deepcopy(about) | changes


def test_the_page_is_written_from_the_measurements_that_are_kept():
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.with_tables(text, page.all_measured()) == text, "run `python -m benchmarks.page`"


def test_all_machines_stand_side_by_side_with_misses_and_reasons(tmp_path):
    other = {"machine": {"processor": "Other"}, "source": "a letter", "rows": [{**ROW, "ratio": 7.0}]}
    del other["rows"][0]["refnp_ms"]
    for name, found in (("a", other), ("b", measured())):
        (tmp_path / f"{name}.json").write_text(json.dumps(found))
    target = tmp_path / "page.md"
    target.write_text(f"before\n{BEGIN}old\n{END}\nafter\n")
    page.write_page(target, tmp_path)
    text = target.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| GELU | float32 | ≤ 2 | 30.0 / 5.00: **6.00** (5.50–6.50) | **7.00** |" in text
    assert "| products float32, GFLOP/s | 2.00 / 2.00 |  |" in text
    assert "| source | `python -m benchmarks --page` | a letter |" in text
    assert "- Other, of which no roofline is recorded: GELU float32 7.00 (aim 2)." in text
    assert "- A Processor @ 2.50GHz: GELU float32 6.00 (aim 2). Of 30.0 ms" in text
    assert "- A Processor @ 2.50GHz: a sum: memory grows like N^2.00, aim 1.1." in text
    assert "- A Processor @ 2.50GHz: a sum: 200 MB at N = 100, aim 150." in text
    page.write_page(target, tmp_path)
    assert target.read_text() == text


def test_a_ratio_that_is_reached_is_not_named():
    lines = page.missed([measured(rows=[{**ROW, "ratio": 2.0}], growth=[])])
    assert lines == ["None."]


@pytest.mark.parametrize("text", ["", BEGIN, BEGIN * 2 + END])
def test_a_page_without_its_marks_is_refused(text):
    with pytest.raises(ValueError, match="once each"):
        page.with_tables(text, [])


def test_a_machine_has_a_file_of_its_own():
    assert page.file_of(ABOUT).name == "a-processor-2-50ghz-2-threads.json"
    assert page.file_of({**ABOUT, "threads": "1 on 4 cores"}).name != page.file_of(ABOUT).name


def test_every_recorded_row_is_of_a_work_that_is_measured():
    known = {(work.name, work.dtype) for work in page.works_with_peer()}
    for found in page.all_measured():
        assert {(row["work"], row["dtype"]) for row in found["rows"]} <= known


def test_every_aim_against_pytorch_that_may_be_missed_has_its_needs():
    lacking = {w.name for w in page.works_with_peer() if page.PEER in w.aims and w.needs == Needs()}
    assert lacking <= {"ConvCNP SimpleConv step", "ConvCNP U-Net XL step"}


def test_a_floor_is_the_sum_of_what_is_needed_at_the_best_rates():
    needs = Needs(products=2e6, exponentials=1e6, passes=4e6, numbers=1e6, calls=2)
    kinds = roofline.floor(needs, "float64", RATE)
    assert kinds == pytest.approx(
        {"products": 2.0, "exponentials": 2.0, "passes in the cache": 2.0, "memory": 1.0, "calls": 0.002}
    )
    assert roofline.floor(Needs(), "float32", RATE) == {}


def test_the_reason_says_whether_the_roofline_forbids_the_aim():
    work = Work("GELU", "float32", {}, 1, aims={"torch": 2.0}, needs=Needs(exponentials=20e6))
    assert "cannot reach less than 4.00 of PyTorch's time" in page.reason(RATE, work, ROW)
    work = Work("GELU", "float32", {}, 1, aims={"torch": 2.0}, needs=Needs(exponentials=5e6))
    assert "(exponentials 5.00), 1.00 of PyTorch's time; the rest is" in page.reason(RATE, work, ROW)


def test_rates_are_measured():
    found = roofline.rates(1, seconds=0.0)
    assert set(found) == set(RATE)
    flat = [*found["products"].values(), *found["exponentials"].values(), *found["passes"].values()]
    assert all(1e6 < rate < 1e14 for rate in [*flat, found["memory"]])
    assert 1e-8 < found["call"] < 1e-2


def test_a_machine_says_from_which_length_on_threads_pay():
    assert roofline.shortest(2, sizes=(8, 16)) in (None, 8, 16)
    assert page.shortest_text({"1": RATE, "2": RATE | {"shortest": 4096}}) == "4096"
    assert page.shortest_text({"2": RATE | {"shortest": None}}) == "never"
    assert page.shortest_text(None) == page.shortest_text({"1": RATE}) == ""


def test_threads_stand_on_the_page():
    one = {"work": "GELU", "dtype": "float32", "ratio": 0.6, "low": 0.5, "high": 0.7}
    assert "| GELU | float32 | 0.60 (0.50–0.70) |" in page.thread_table([measured(threads=[one]), measured()])


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0, 1.5])
def test_an_exponent_is_found_again(power):
    sizes = [10, 100, 5000]
    assert exponent(sizes, [3.0 * n**power for n in sizes]) == pytest.approx(power, abs=1e-12)


def test_growth_is_measured_size_by_size():
    one = Series("sums", (10, 20), lambda n: None, 1.1, 1.1)
    found = growth.measured(one, lambda name: (float(name.split("=")[1]), 5.0))
    assert (found.seconds, found.megabytes, found.misses()) == ([10.0, 20.0], [5.0, 5.0], [])
    assert found.exponents() == pytest.approx((1.0, 0.0))
    with pytest.raises(ValueError, match="must all be above 0"):
        growth.measured(one, lambda name: (0.0, 5.0))


@pytest.mark.parametrize("make", [growth.one_head, growth.onto_grid, growth.onto_as_many])
def test_the_works_that_grow_run(make):
    side = make(200)
    (y,), gradients = side.result()
    assert all(np.isfinite(a).all() for a in (y, *gradients))
    side.run()


def test_the_worker_finds_the_works_that_grow():
    for one in growth.series():
        assert works.find(growth.name_of(one, one.sizes[-1]), "float32").makers["refnp"]
        assert list(one.sizes) == sorted(set(one.sizes))


def test_a_later_run_stands_beside_the_first(tmp_path):
    """Its rows are kept in the machine's file, and the page says how many quartiles meet, and which do not."""
    machine = {"date": "today", "processor": "P", "threads": "2 on 2 cores"}
    first, later = ([row(work, low, low + 0.1) for work in ("softmax", "GELU")] for low in (1.0, 1.05))
    later[1] = row("GELU", 1.2, 1.3)
    report.write_json(tmp_path / page.file_of(machine).name, machine, first)
    threads = [{"work": "softmax", "dtype": "float32", "ratio": 0.6, "low": 0.5, "high": 0.7}]
    page.keep_again(machine | {"date": "tomorrow"}, later, threads, tmp_path)
    (kept,) = page.all_measured(tmp_path)
    assert page.thread_table([kept])[0] == "| work | dtype | P, again |"
    assert page.thread_table([kept])[2:] == ["| softmax | float32 | 0.60 (0.50–0.70) |"]
    lines = page.thread_table([kept | {"threads": [threads[0] | {"ratio": 0.8}]}])
    assert lines[2:] == ["| softmax | float32 | 0.80 (0.50–0.70) | 0.60 (0.50–0.70) |"]
    assert kept["rows"] == [dataclasses.asdict(one) for one in first]
    lines = page.again_table([kept])
    assert lines[1].endswith(
        "today and tomorrow: the quartiles of 1 of 2 ratios meet; the others have moved by up to 19 %.\n"
    )
    assert lines[-2:] == ["| --- | --- | --- | --- |", "| GELU | float32 | 1.05 (1.00–1.10) | 1.25 (1.20–1.30) |"]
    alike = page.again_table([kept | {"again": kept["again"] | {"rows": kept["rows"]}}])
    assert alike[-1].endswith("the quartiles of 2 of 2 ratios meet.\n")
    assert page.again_table([{"machine": machine, "rows": []}]) == []


def row(work, low, high):
    """A row of the report with these quartiles."""
    return report.Row(work, "float32", 2, "torch", 1.0, 1.0, (low + high) / 2, low, high, 5, 0.0, 1.0)
