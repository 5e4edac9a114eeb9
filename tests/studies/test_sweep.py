"""`refnp sweep`: runs of a file, finished once, gone on with, and their table over seeds."""

import json

import numpy as np
import pytest

from refnp.cli import main
from refnp.studies import plotting, sweep
from refnp.training.checkpoint import load

FILE = """
models = ["cnp"]
tasks = ["eq"]
seeds = [0, 1]
steps = 3
every = 2
evaluated = 16
batch = 2

[options.cnp]
hidden = 8

[published.cnp.eq]
"marginal log-likelihood" = -0.5
"KL by itself" = [0.54, 1.41]
"""


@pytest.fixture
def file(tmp_path):
    """A sweep of two short runs."""
    (tmp_path / "two.toml").write_text(FILE)
    return tmp_path / "two.toml"


def test_runs_are_finished_once_and_shown_as_a_table(file, capsys):
    assert main(["sweep", str(file), "--status"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"cnp on eq, seed {s}: 0 of 3 steps" for s in (0, 1)]
    assert main(["sweep", str(file), "--jobs", "1"]) == 0
    first = capsys.readouterr().out
    runs = sweep.opened(file).runs()
    figures = [json.loads((file.parent / "two/cnp-eq" / f"seed-{s}/figures.json").read_text()) for s in (0, 1)]
    values = [one["figures"]["eq"]["inside"]["marginal log-likelihood"]["mean"] for one in figures]
    row = next(line for line in first.splitlines() if "marginal" in line)
    assert f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}" in row
    assert row.split()[-4:] == ["-0.50", "2", "of", "2"]
    written = [run.checkpoint.stat().st_mtime_ns for run in runs]
    assert main(["sweep", str(file), "--jobs", "1"]) == 0
    assert "2 runs, of which 2 are finished" in capsys.readouterr().out
    assert written == [run.checkpoint.stat().st_mtime_ns for run in runs]
    assert main(["sweep", str(file), "--status"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"cnp on eq, seed {s}: finished" for s in (0, 1)]


def test_curves_of_all_seeds_are_drawn(file, capsys):
    pytest.importorskip("matplotlib")
    out = file.parent / "curves.svg"
    assert main(["sweep", str(file), "--plot", str(out)]) == 2
    assert "no run has a validation yet" in capsys.readouterr().err
    assert main(["sweep", str(file), "--jobs", "1"]) == 0
    found = sweep.opened(file)
    first, _ = (load(run.checkpoint).history for run in found.runs())
    ((name, (steps, values)),) = sweep.curves(found).items()
    assert (name, values.shape) == ("cnp on eq", (2, len(steps)))
    np.testing.assert_array_equal(values[0], first["validation"])
    axes = plotting.drawing_of_curves({name: (steps, values)}).axes[0]
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), values.mean(0))
    ends = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (ends.min(), ends.max()) == (values.min(), values.max())
    assert main(["sweep", str(file), "--plot", str(out)]) == 0
    assert "<svg" in out.read_text()
    assert main(["sweep", str(file), "--plot", "curves.txt"]) == 2


def test_runs_are_evaluated_on_other_tasks_and_at_other_places_from_their_figures_alone(file, capsys):
    file.write_text('also = ["matern"]\nplaces = ["inside", "shifted"]\n' + FILE)
    assert main(["sweep", str(file), "--jobs", "1"]) == 0
    capsys.readouterr()
    best = load(sweep.opened(file).runs()[1].checkpoint).history["validation"].min()
    for run in sweep.opened(file).runs():
        run.checkpoint.unlink()
    assert main(["sweep", str(file), "--table"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "marginal" in line]
    assert [row[3:5] for row in rows] == [[t, p] for t in ("eq", "matern") for p in ("inside", "shifted")]
    assert [row for row in rows if "-0.50" in row] == rows[:1]
    file.write_text('also = ["matern"]\nplaces = ["inside", "beyond"]\nshown = ["KL by itself"]\n' + FILE)
    assert main(["sweep", str(file), "--table"]) == 0
    divergences = [line.split() for line in capsys.readouterr().out.splitlines() if "2 of 2" in line]
    assert [row[-4] for row in divergences] == ["0.54", "1.41", divergences[2][-4], divergences[3][-4]]
    assert [row[5:8] for row in divergences] == [["KL", "by", "itself"]] * 4
    kept = json.loads((file.parent / "two/cnp-eq/seed-1/figures.json").read_text())
    assert kept["made"]["processor seconds"] >= 0
    assert kept["validation"] == -best
    values = [kept["figures"][row[3]][row[4]]["marginal log-likelihood"]["mean"] for row in rows]
    assert len(set(values)) == len(values)


def test_a_table_of_what_is_not_finished_says_so(file, capsys):
    assert main(["sweep", str(file), "--table"]) == 1
    assert "per target" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("models =", "is no TOML"),
        ('models = ["cnp"]', "tasks, seeds, steps must be given"),
        (FILE.replace('"cnp"', '"cpn"'), "cnp"),
        ("rate = 1\n" + FILE, "there is no 'rate'"),
        ('places = ["outside"]\n' + FILE, "outside"),
        ('shown = ["R.M.S.E"]\n' + FILE, "did you mean RMSE"),
    ],
)
def test_a_wrong_file_is_refused(file, text, says, capsys):
    file.write_text(text)
    assert main(["sweep", str(file)]) == 2
    assert says in capsys.readouterr().err
