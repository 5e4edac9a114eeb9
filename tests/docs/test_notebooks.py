"""Each chapter is a notebook and a script too, with the cells that tests/course/test_laws.py runs."""

import runpy

import pytest

from docs.site import chapters, notebooks

pytest.importorskip("jupytext")
pytest.importorskip("sphinx")


@pytest.mark.parametrize("name", [name for name in chapters.names() if (chapters.COURSE / f"{name}.md").exists()])
def test_a_notebook_has_the_cells_of_its_chapter(name):
    made = notebooks.notebook(name)
    code = [cell.source.strip() for cell in made.cells if cell.cell_type == "code"]
    assert code == [cell.strip() for cell in chapters.cells(chapters.text(name))]
    text = "\n".join(cell.source for cell in made.cells if cell.cell_type == "markdown")
    assert ":::" not in text
    assert "{literalinclude}" not in text
    assert "{source}" not in text
    written = chapters.text(name)
    assert text.count("```python") == written.count("```{literalinclude}") + written.count("```python")


def test_a_chapter_runs_as_a_script(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    assert "softmax" in notebooks.write(tmp_path)
    space = runpy.run_path(str(tmp_path / "softmax.py"))
    assert "complex step" in capsys.readouterr().out
    assert space["p"].shape == (3,)
    assert (tmp_path / "softmax.ipynb").stat().st_size > 1000
