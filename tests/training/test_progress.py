"""Progress: a bar on a terminal, whole lines elsewhere, nothing with show=False; and never on stdout."""

import contextlib
import itertools
import os
import sys

import pytest

from refnp.training import progress as page
from refnp.training.progress import progress


@pytest.fixture
def clock(monkeypatch):
    """clock(seconds): from then on so much time passes at every reading."""

    def set_clock(seconds):
        times = itertools.count(0, seconds)
        monkeypatch.setattr(page.time, "monotonic", lambda: next(times))

    return set_clock


def work(steps, show=True, done=0):
    history = {"loss": [1.0] * done, "gap [nats]": [0.5] * done}
    with progress(done, steps, show) as tell:
        for _ in range(done, steps):
            history["loss"].append(1.0)
            history["gap [nats]"].append(0.5)
            tell(history)
    return len(history["loss"])


def test_nothing_is_shown_with_show_false(capsys):
    work(5, show=False)
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_there_is_a_line_at_the_end(capsys):
    work(5)
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith("step 5/5   loss 1.0000   gap [nats] 0.5000   ")
    assert errors.endswith(" steps/s\n")
    assert errors.count("\n") == 1
    assert errors.isprintable() or set(filter(lambda c: not c.isprintable(), errors)) == {"\n"}


def test_lines_come_after_1_2_4_seconds_and_then_every_half_minute(capsys, clock):
    clock(0.125)  # it is read once a step, and twice more for a line
    work(2000)
    lines = capsys.readouterr().err.splitlines()
    steps = [int(line.split("/")[0].removeprefix("step ")) for line in lines]
    gaps = [(b - a) * 0.125 for a, b in itertools.pairwise([0, *steps])]
    assert len(gaps) > 8
    for gap, seconds in zip(gaps[:-1], [1, 2, 4, 8, 16, *[30] * len(gaps)], strict=False):
        assert abs(gap - seconds) <= 4 * 0.125
    assert steps[-1] == 2000


def test_no_line_comes_twice(capsys, clock):
    clock(100)
    work(3)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["1/3", "2/3", "3/3"]


def test_a_run_that_breaks_off_still_shows_where(capsys):
    def broken():
        with progress(0, 9, True) as tell:
            tell({"loss": [1.0]})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert capsys.readouterr().err.startswith("step 1/9")


def test_a_run_that_had_ended_shows_nothing(capsys):
    work(5, done=5)
    assert capsys.readouterr().err == ""


def test_the_speed_is_that_of_this_session(capsys, clock):
    clock(1)
    work(110, done=100)
    speed = float(capsys.readouterr().err.splitlines()[-1].split()[-2])
    assert 0.1 < speed < 1


def test_a_reader_that_has_gone_does_not_stop_the_work(monkeypatch):
    class Gone:
        def isatty(self):
            return False

        def write(self, text):
            raise BrokenPipeError

        def flush(self):
            raise BrokenPipeError

    for stderr in (Gone(), None):
        monkeypatch.setattr(sys, "stderr", stderr)
        assert work(3) == 3


def on_a_terminal(work):
    """What `work` writes to standard error if that is a terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    with open(theirs, "w") as terminal, pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stderr", terminal)
        patched.setenv("COLUMNS", "160")
        patched.setenv("TERM", "xterm")
        work()
        terminal.flush()
    text = b""
    with contextlib.suppress(OSError):  # which Linux raises at the end, where other systems return nothing
        while part := os.read(ours, 1 << 16):
            text += part
    os.close(ours)
    return text.decode()


def test_a_bar_on_a_terminal():
    pytest.importorskip("rich")
    text = on_a_terminal(lambda: work(5))
    assert "step 5/5" in text
    assert "loss 1.0000   gap [nats] 0.5000" in text
    assert "━" in text
    assert "\x1b[" in text


def test_a_terminal_without_rich_gets_lines(monkeypatch):
    monkeypatch.setattr(page.importlib.util, "find_spec", lambda name: None)
    text = on_a_terminal(lambda: work(5))
    assert text.startswith("step 5/5   loss 1.0000")
    assert "\x1b" not in text
    assert text.count("\n") == 1
