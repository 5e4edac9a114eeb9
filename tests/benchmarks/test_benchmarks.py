"""The benchmarks at tiny sizes: what is compared agrees, what is timed is timed, what is printed can be read."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import (
    attention,
    convcnp,
    convolutions,
    encoder,
    machine,
    report,
    rows,
    sets,
    tape,
    timing,
    tnp,
    transformer,
    works,
)
from benchmarks.__main__ import against_one_thread, main
from benchmarks.timing import Pairs, Side, Work
from refnp import autograd as ad
from refnp.kernels import process

ROOT = pathlib.Path(__file__).parents[2]
SMALL = [
    *encoder.works(encoder.Sizes(layers=1, width=8, heads=2, hidden=12, batch=2, tokens=5)),
    *transformer.works(
        transformer.Sizes(layers=1, width=8, heads=2, hidden=12, batch=2, tokens=5, vocabulary=9, decoded=6)
    ),
    *tnp.works(tnp.Sizes(width=8, heads=4, hidden=6, layers=3, kernel=4, batch=2, points=6, paths=2, sampled=4)),
    *convcnp.works(convcnp.Sizes(batch=2, contexts=5, targets=4, half=0.5, many=300)),
    *convolutions.works({"conv1d": ((2, 3, 9), (4, 3, 5)), "conv2d": ((2, 3, 5, 6), (4, 3, 3, 3))}, batch=2, places=64),
    *rows.works(rows=6, features=7),
    *attention.works(lengths=(5,)),
    *sets.works(counts=(20,), places=12),
    *tape.works(operations=10),
]


@pytest.fixture(autouse=True)
def _leave_mygrad_as_it_was():
    yield
    if "mygrad" in sys.modules:
        sys.modules["mygrad"].turn_memory_guarding_on()


@pytest.mark.parametrize("framework", machine.PEERS)
@pytest.mark.parametrize("work", SMALL, ids=lambda work: f"{work.name}-{work.dtype}")
def test_all_compute_the_same(work, framework):
    if framework in machine.FRAMEWORKS:
        pytest.importorskip(framework)
    if framework not in work.makers:
        pytest.skip(f"{framework} has no such function")
    if (framework, work.name) == ("jax", "U-Net step"):
        pytest.skip("it compiles for seconds; the benchmark itself compares its results before timing them")
    if framework == "jax" and work.dtype == "float64" and not pytest.importorskip("jax").config.jax_enable_x64:
        pytest.skip("this process computes in float32 with JAX")
    ours, theirs = work.makers["refnp"](), work.makers[framework]()
    assert 0 <= timing.disagreement(ours.result(), theirs.result(), work) <= 1
    ours.run()
    if (framework, work.name) != ("jax", "encoder step"):  # which would compile a second program
        theirs.run()


def test_needs_of_convolutions_by_hand():
    """3 products of 2 · 4 · 3 · 5 operations; windows of x 3 + 4 · 4 or all 15, of ȳ 4 + 3 · 4 or all 20; 3; bias 6."""
    assert convolutions.needs_of((4, 3, 5), 7) == timing.Needs(products=7 * 360, passes=7 * (15 + 16 + 3 + 6))
    halved = convolutions.needs_of_network({"down0": (4, 3, 5), "up0": (4, 3, 5)}, 2, 14)
    assert halved.products == 2 * convolutions.needs_of((4, 3, 5), 2 * 7).products
    relu = 2 * 2 * (7 * 4 + 14 * 3)
    assert halved.passes == 2 * convolutions.needs_of((4, 3, 5), 2 * 7).passes + 2 * 10 * 60 + relu
    for work in convcnp.works(convcnp.Sizes(batch=2, contexts=5, targets=4, half=0.5, many=300))[:4]:
        assert min(work.needs.products, work.needs.exponentials, work.needs.passes) > 0


@pytest.mark.parametrize("framework", ["refnp", "torch", "autograd"])
def test_a_training_step_moves_downhill(framework):
    pytest.importorskip(framework)
    side = SMALL[0].makers[framework]()
    ((before,), _) = side.result()
    for _ in range(20):
        side.run()
    ((after,), _) = side.result()
    assert after < before


def test_every_work_has_a_name_of_its_own_and_peers_that_exist():
    found = works.all_works()
    assert len({(work.name, work.dtype) for work in found}) == len(found)
    for work in found:
        assert next(iter(work.makers)) == "refnp"
        assert set(work.makers) <= {"refnp", *machine.PEERS}
        assert set(work.aims) <= {"memory", *work.makers}
    assert works.find("softmax", "float64").dtype == "float64"


def test_a_wrong_gradient_is_found():
    work = next(work for work in SMALL if work.dtype == "float64")
    values, gradients = work.makers["refnp"]().result()
    wrong = [g * (1 + 1e-9) if i == 0 else g for i, g in enumerate(gradients)]
    with pytest.raises(ValueError, match="gradient 0 differs"):
        timing.disagreement((values, gradients), (values, wrong), work)
    with pytest.raises(ValueError, match="gradient 0 has shape"):
        timing.disagreement((values, gradients), (values, [g[None] for g in gradients]), work)
    with pytest.raises(ValueError, match="value 0 differs by nan"):
        timing.disagreement((values, gradients), ([np.array(np.nan)], gradients), work)


def test_turns_alternate_and_ratios_are_of_pairs(monkeypatch):
    monkeypatch.setattr(timing, "REST", 0.0)
    order = []

    def clock(name, seconds):
        def run(count):
            order.append(name)
            return seconds * count

        return run

    pairs = timing.alternate(clock("a", 0.2), clock("b", 0.4), seconds=0.0, least=4)
    assert order[-9:] == ["a", "a", "b"] * 3  # b is long: its first run in a turn counts
    assert pairs.first == pytest.approx([0.2] * 4)
    assert pairs.quartiles() == pytest.approx((0.5, 0.5, 0.5))
    assert Pairs([1.0, 3.0, 2.0], [1.0, 1.0, 1.0]).quartiles() == (1.5, 2.0, 2.5)
    assert Pairs([1.0], [4.0]).quartiles() == (0.25, 0.25, 0.25)


def test_short_work_is_repeated_until_a_turn_is_full(monkeypatch):
    monkeypatch.setattr(timing, "REST", 0.0)
    counts = []

    def clock(count):
        counts.append(count)
        return 1e-3 * count

    timing.alternate(clock, clock, seconds=0.0, least=1)
    assert max(counts) * 1e-3 == pytest.approx(timing.TURN)


def test_a_clock_counts_runs():
    calls = []
    seconds = timing.clock_of(Side(lambda: calls.append(1), lambda: ([], [])))(7)
    assert len(calls) == 7
    assert seconds > 0


def test_rows_are_aligned_or_markdown():
    work = Work("work", "float32", {}, terms=1, units=2, aims={"torch": 0.5, "memory": 10})
    row = report.row_of(work, "torch", 2, Pairs([0.002, 0.004], [0.002, 0.002]), 0.1)
    assert (row.refnp_ms, row.peer_ms, row.ratio, row.pairs) == pytest.approx((1.5, 1.0, 1.5, 2))
    assert row.misses() == ["work float32: 1.50 × torch, aim 0.5"]
    assert report.summary([row])[0] == "0 of 1 aims reached"
    text, markdown = (report.line(row.cells(), markdown=m) for m in (False, True))
    assert text.split() == ["work", "float32", "torch", "1.50", "1.00", "1.500", "1.250–1.750", "2", "≤", "0.5"]
    assert markdown.count("|") == len(report.COLUMNS) + 1
    lines = report.heading({"threads": "2"}, markdown=True)
    assert lines[-1].count("|") == lines[-2].count("|") == len(report.COLUMNS) + 1
    assert [report.three_digits(x) for x in (123.4, 12.34, 1.234, 0.1234, 0.00534)] == [
        "123", "12.3", "1.23", "0.123", "0.00534",
    ]  # fmt: skip


def test_json_replaces_the_file_whole(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text("old")
    work = Work("work", "float32", {}, terms=1)
    report.write_json(path, {"threads": "2"}, [report.row_of(work, "jax", 2, Pairs([1.0], [2.0]), 0.0)])
    found = json.loads(path.read_text())
    assert found["machine"] == {"threads": "2"}
    assert found["rows"][0]["ratio"] == 0.5
    assert os.listdir(tmp_path) == ["rows.json"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "no such work"], "matches nothing; there are encoder step"),
        (["--peers", "tensorflow"], "tensorflow not installed"),
        (["--threads", "0"], "--threads is 0"),
        (["--json", "no/such/folder/rows.json"], "there is no folder"),
        (["--before", "no/such/folder"], "no checkout of refnp"),
        (["--page", "--only", "softmax"], "--page measures everything"),
        (["--again", "--quick"], "--again measures everything"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_runs(arguments, message, capsys):
    with pytest.raises(SystemExit) as exit_code:
        main(arguments)
    assert exit_code.value.code == 2
    assert message in capsys.readouterr().err


def test_from_the_command_line(tmp_path):
    """Against another checkout; here it is the same one."""
    path = tmp_path / "rows.json"
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", "small", "--peers", "", "--before", "."]
    done = subprocess.run(
        [*command, "--json", path], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "one small operation" in done.stdout
    (row,) = json.loads(path.read_text())["rows"]
    assert row["peer"] == "before"
    assert 0 < row["low"] <= row["ratio"] <= row["high"]
    assert 0 < row["refnp_ms"] < 10
    assert row["threads"] == len(machine.cores())


def test_the_threads_of_refnp_and_of_its_blas_are_set():
    before, controls = ad.get_threads(), process.blas_controls()
    of_blas = controls[0]() if controls else 1
    try:
        for count in (1, 2):
            machine.use_threads("refnp", count)
            assert ad.get_threads() == count
            assert controls is None or controls[0]() == count
    finally:
        machine.use_threads("refnp", of_blas)
        ad.set_threads(before)


def test_all_threads_are_compared_with_one_in_one_process(monkeypatch):
    class Process:
        """Instead of a worker: work of .03 seconds with one thread and .01 with two, too long if it is attention."""

        made, threads = [], None

        def __init__(self, framework, threads):
            assert (framework, threads) == ("refnp", 2)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def make(self, work):
            self.made.append(work.name)
            self.long = work.name.startswith("attention")

        def use_threads(self, threads):
            self.threads = threads

        def clock(self, count):
            return count * (3.0 if self.long else {1: 0.03, 2: 0.01}[self.threads])

    monkeypatch.setattr("benchmarks.__main__.Worker", Process)
    monkeypatch.setattr(timing.time, "sleep", lambda seconds: None)
    asked = [work for work in SMALL if work.name in ("softmax", "attention N=5", "greedy decoding")]
    found = against_one_thread(asked, 2)
    assert [(row["work"], row["dtype"]) for row in found] == [("softmax", "float32"), ("softmax", "float64")]
    assert all(row["low"] == row["ratio"] == row["high"] == pytest.approx(1 / 3) for row in found)
    assert set(Process.made) == {"softmax", "attention N=5"}  # decoding has no peer that is asked for
    assert against_one_thread(asked, 1) == []
