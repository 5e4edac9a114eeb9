"""Programs that are run on each case: right, wrong, failing, hanging, and a page of C."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import refnp
from refnp import cli, progress
from refnp.verify.exchange import export, judge_folder, judge_program
from refnp.verify.exchange.programs import checked, first_line
from refnp.verify.judge import SKIPPED, WITHIN
from tests.helpers import Terminal

ROOT = Path(__file__).parents[2]
ONE = {"layout": "raw", "only": "relu/around zero", "dtypes": ("float32",)}  # also leaky_relu's
COPY = "cp {in}/reference.output.bin {out}/output.bin"

needs_a_shell = pytest.mark.skipif(shutil.which("sh") is None or shutil.which("cp") is None, reason="no sh or cp")
pytestmark = needs_a_shell


def shell(text):
    """A program of a line, with {in} and {out}."""
    return f"sh -c '{text}' sh {{in}} {{out}}"


def test_a_right_program_holds():
    report = judge_program(COPY, "softmax", layout="raw", only="softmax/*", jobs=2)
    verdicts = Counter(row.verdict for row in report.judgements)
    assert report.holds
    assert set(verdicts) == {WITHIN, SKIPPED}  # the gradients are left out
    assert verdicts[WITHIN] == len(report.answers)
    assert verdicts[SKIPPED] == sum(len(problem.case.quantities) > 1 for problem, _ in report.answers)
    assert {row.framework for row in report.judgements} == {"cp"}
    assert {row.why for row in report.judgements if row.verdict == SKIPPED} == {"no gradients"}


NPZ = "import sys, numpy; f = numpy.load(sys.argv[1]); numpy.savez(sys.argv[2], output=f['reference.output'])"
JSON = """import json, sys
case = json.load(open(sys.argv[1]))
json.dump({'output': case['arrays']['reference.output']}, open(sys.argv[2], 'w'))"""


@pytest.mark.parametrize(("layout", "script"), [("npz", NPZ), ("json", JSON)])
def test_every_layout_is_read_and_written(tmp_path, layout, script):
    (tmp_path / "program.py").write_text(script)
    command = f"{sys.executable} {tmp_path / 'program.py'} {{in}} {{out}}"
    report = judge_program(command, "relu", **ONE | {"layout": layout})
    assert report.holds
    assert [row.verdict for row in report.judgements] == [WITHIN, SKIPPED]


def test_a_wrong_program_does_not():
    report = judge_program("cp {in}/input.x.bin {out}/output.bin", "softmax", layout="raw", dtypes=("float32",))
    assert not report.holds
    assert "softmax/ordinary" in str(report)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("exit 0", "no answer"),
        ("exit 3", "exit status 3"),
        ("echo >&2; echo no memory >&2; exit 4", "exit status 4: no memory"),
        ("kill -SEGV $$", "ended by signal 11 (SIGSEGV)"),
        ("cp $1/reference.output.bin $2/output.bin; exit 1", "exit status 1"),
        ("ln -s $1/reference.output.bin $2/output.bin", "a symbolic link, which is not followed"),
        ("head -c 7 /dev/zero > $2/output.bin", "7 bytes of numbers where 36 are right"),
        ("head -c 5000000 /dev/zero > $2/output.bin", "5000000 bytes, where 1049152 are more than enough"),
        ("head -c 5000000 /dev/zero >&2; exit 9", f"exit status 9: {'?' * 200}"),
    ],
)
def test_programs_that_fail(text, why):
    report = judge_program(shell(text), "relu", **ONE)
    assert not report.holds
    (wrong,) = {row.why for row in report.judgements if row.quantity == "output"}
    assert wrong == why
    assert why in str(report)


def test_a_program_may_refuse():
    with pytest.raises(ValueError, match=r"relu: nothing to judge, there is no relu \(1\)"):
        judge_program(shell("echo there is no relu >&2; exit 77"), "relu", **ONE)
    report = judge_program(
        shell('case $1 in *far_left*) exit 77;; esac; cp "$1/reference.output.bin" "$2/output.bin"'),
        "relu",
        layout="raw",
        dtypes=("float32",),
    )
    assert report.holds
    refused = [row for row in report.judgements if row.why == "the program says so (status 77)"]
    assert [row.case for row in refused] == ["relu/far left"]
    assert "relu/far left" not in {problem.case.name for problem in report.judged}


def test_how_far_it_has_come_is_told_on_a_terminal(monkeypatch):
    written = Terminal()
    monkeypatch.setattr("sys.stderr", written)
    monkeypatch.setattr(progress, "AFTER", 0)
    judge_program(shell("sleep 1.5; cp $1/reference.output.bin $2/output.bin"), "relu", **ONE)
    assert "sh has answered 0 of 1 cases of relu, " in written.getvalue()


def test_a_program_that_hangs_is_stopped_with_all_it_started(tmp_path):
    pids = tmp_path / "pids"
    start = time.monotonic()
    text = f"sleep 1000 & echo $! >> {pids}; wait"
    report = judge_program(shell(text), "relu", limit=0.2, **ONE)
    assert {row.why for row in report.deviations} == {"no answer within 0.2 s, and stopped"}
    assert time.monotonic() - start < 20
    for pid in map(int, pids.read_text().split()):
        assert ended(pid)


def test_what_a_program_leaves_behind_is_ended(tmp_path):
    pids = tmp_path / "pids"
    text = f"sleep 1000 & echo $! >> {pids}; cp $1/reference.output.bin $2/output.bin"
    assert judge_program(shell(text), "relu", **ONE).holds
    for pid in map(int, pids.read_text().split()):
        assert ended(pid)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGHUP, -1)])
def test_signals_end_the_programs_that_run(tmp_path, number, status):
    """Long before their limit, with what they have started, and no folder is left."""
    pids = tmp_path / "pids"
    command = shell(f"echo $$ >> {pids}; sleep 1000 & echo $! >> {pids}; wait")
    words = ["judge", "--run", command, "--as", "relu", "--format", "raw", "--jobs", "2", "--limit", "600"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    start = "import signal, sys; from refnp import cli; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    start += "signal.signal(signal.SIGINT, signal.default_int_handler); sys.exit(cli.main())"
    with subprocess.Popen([sys.executable, "-c", start, *words], env=env, stderr=subprocess.DEVNULL) as judge:
        while not pids.exists() or len(pids.read_text().split()) < 4:
            assert judge.poll() is None
            time.sleep(0.02)
        judge.send_signal(number)
        assert judge.wait(30) == status
    assert all(map(ended, map(int, pids.read_text().split())))
    assert os.listdir(tmp_path) == ["pids"]


def test_where_there_are_no_groups_the_program_is_ended_alone(monkeypatch):
    """As on Windows, which has no killpg, and whose paths have backslashes."""
    monkeypatch.delattr(os, "killpg")
    assert judge_program(COPY, "relu", **ONE).holds
    assert not judge_program(shell("exec sleep 1000"), "relu", limit=0.1, **ONE).holds
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(os, "sep", "\\")
    words = checked(r'"C:\Program Files\layers.exe" --to {out} {in}')
    assert words == [r"C:\Program Files\layers.exe", "--to", "{out}", "{in}"]


def ended(pid):
    """Whether a process is gone, or only waits to be counted."""
    for _ in range(50):
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat")
            if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_words_go_to_the_program_as_they_are(tmp_path):
    """No shell is between: what would be a command there is a word."""
    file = tmp_path / "never"
    report = judge_program(f"echo {{in}} {{out}} '; touch {file}' `touch {file}` '$(touch {file})'", "relu", **ONE)
    assert {row.why for row in report.judgements} == {"no answer"}
    assert not file.exists()


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("cp {in}", {}, r"there is no \{out\}"),
        ("cp {out}", {}, r"there is no \{in\}"),
        ("no-such-program {in} {out}", {}, "there is no program no-such-program"),
        (COPY, {"layout": "hdf5"}, "layout is 'hdf5'"),
        (COPY, {"limit": 0}, "limit is 0"),
        (COPY, {"only": "gelu"}, "no case of relu is left by only='gelu'"),
        (COPY, {"skip": ("*relu*",)}, r"no case of relu is left by only='relu/around zero', skip=\('\*relu\*',\)"),
        (COPY, {"excused": ("pytorch#1",)}, "no known defect is called 'pytorch#1'"),
        (COPY, {"dtypes": ("float16",)}, "there is no 'float16'"),
        ("'cp {in} {out}", {}, "No closing quotation"),
    ],
)
def test_wrong_words(command, options, message):
    with pytest.raises(ValueError, match=message):
        judge_program(command, "relu", **ONE | options)


def test_first_lines_are_printable():
    assert first_line(b"\n  \x1b[31mred\x1b[0m\nmore") == "?[31mred?[0m"
    assert first_line(b"\xff" * 500) == "\ufffd" * 200
    assert first_line(b"") == ""


def test_on_the_command_line(tmp_path, capsys):
    words = ["--as", "relu", "--format", "raw", "--only", "relu/around zero", "--dtypes", "float32"]
    assert cli.main(["judge", "--run", COPY, *words]) == 0
    assert "relu holds" in capsys.readouterr().out
    assert cli.main(["judge", "--run", shell("exit 5"), *words, "--limit", "5", "--jobs", "2"]) == 1
    assert "exit status 5" in capsys.readouterr().out
    assert cli.main(["judge", "somewhere", "--run", COPY, *words]) == 2
    assert "cannot be judged at the same time" in capsys.readouterr().err
    assert cli.main(["judge", "--run", COPY, *words, "--mask", "additive"]) == 2
    assert "--mask is of functions; a program follows docs/case_format.md" in capsys.readouterr().err
    assert cli.main(["judge", "--run", COPY, *words, "--skip", "relu/far*"]) == 0


def test_a_folder_on_the_command_line(tmp_path, capsys):
    folder = tmp_path / "cases"
    export(folder, "raw", only="relu/around zero", dtypes=("float32",))
    name = "relu.around_zero.float32"
    (folder / "answers" / name).mkdir(parents=True)
    (folder / "answers" / f"leaky_{name}.json").write_text('{"skipped": "there is none"}')
    shutil.copy(folder / name / "reference.output.bin", folder / "answers" / name / "output.bin")
    for place in (folder, folder / "answers"):
        assert cli.main(["judge", str(place)]) == 0
        printed = capsys.readouterr().out
        assert "1 row within bound" in printed
        assert "skipped: 1 case, there is none: leaky_relu/around zero" in printed
    shutil.copytree(folder / "answers", tmp_path / "elsewhere")
    assert cli.main(["judge", str(tmp_path / "elsewhere")]) == 2
    assert "--cases" in capsys.readouterr().err
    assert cli.main(["judge", str(tmp_path / "elsewhere"), "--cases", str(folder)]) == 0
    report = judge_folder(folder, name="my program")
    assert {row["framework"] for row in report.rows} == {"my program"}
    assert [problem.case.name for problem, _ in report.answers] == ["relu/around zero"]


# A page of C


EXAMPLES = ROOT / "examples/judge_c"


def compile_c(source, program, *options):
    """A program of C99, compiled as the page says."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    words = [compiler, "-std=c99", "-O2", "-Wall", "-Wextra", *options, source, "-o", program, "-lm"]
    subprocess.run(list(map(str, words)), check=True, timeout=60)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A folder of a program for each precision."""
    folder = tmp_path_factory.mktemp("c")
    for dtype, real in (("float32", "float"), ("float64", "double")):
        compile_c(EXAMPLES / "layers.c", folder / dtype, "-Wpedantic", "-Werror", f"-DREAL={real}")
    return folder


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "count"), [("softmax", 10), ("layer_norm", 10), ("attention", 25)])
def test_the_c_program_holds(compiled, name, count, dtype):
    report = judge_program(f"{compiled / dtype} {{in}} {{out}}", name, layout="raw", dtypes=(dtype,))
    assert report.holds, str(report)
    assert sum(row.verdict == WITHIN for row in report.judgements) >= count
    reasons = {row.why for row in report.judgements if row.verdict == SKIPPED}
    assert "no gradients" in reasons
    assert all(why == "no gradients" or why.startswith("there is no ") for why in reasons)


def test_the_c_program_says_what_it_lacks(compiled):
    with pytest.raises(ValueError, match=r"compiled for float \(\d+\)"):
        judge_program(f"{compiled / 'float32'} {{in}} {{out}}", "softmax", layout="raw", dtypes=("float64",))
    with pytest.raises(ValueError, match="there is no relu"):
        judge_program(f"{compiled / 'float32'} {{in}} {{out}}", "relu", **ONE)


@pytest.mark.parametrize(
    ("layer", "right", "wrong", "cause"),
    [
        ("layer_norm", "sqrt(variance / n + (real)eps)", "sqrt(variance / (n - 1) + (real)eps)", "divided by n − 1"),
        (
            "layer_norm",
            "sqrt(variance / n + (real)eps)",
            "(sqrt(variance / n) + (real)eps)",
            "ε stood outside the root",
        ),
        ("softmax", "exp(x[i * step] - m)", "exp(x[i * step])", "the maximum were not subtracted"),
        ("attention", "scores[j] / root", "scores[j]", "√d were left out"),
        ("attention", "!mask ||", "!mask || !", "the mask were inverted"),
    ],
)
def test_mistakes_in_c_are_named(compiled, tmp_path, layer, right, wrong, cause):
    page = (EXAMPLES / "layers.c").read_text()
    assert page.count(right) == 1
    (tmp_path / "wrong.c").write_text(page.replace(right, wrong))
    compile_c(tmp_path / "wrong.c", tmp_path / "wrong")
    options = {"layout": "raw", "dtypes": ("float32",), "only": f"{layer}/*[mr][ae]*"}  # about half of the cases
    report = judge_program(f"{tmp_path / 'wrong'} {{in}} {{out}}", layer, **options)
    assert not report.holds
    first = report.causes[0]
    assert cause in first.says
    assert len(first.rows) > len(report.deviations) / 2
    if "n - 1" in wrong:
        (shown,) = re.findall(r"```text a mistake in C\n(.*?)\n```", (ROOT / "docs/case_format.md").read_text(), re.S)
        assert shown in str(report)


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("", "", "everything that is judged is within its bound"),
        ("(c == targets[n])) / N;", "(c == targets[n]));", "hint: all gradients together are 5 times the right ones"),
        ("+= w2[j][c] * p[n][c]", "+= w2[j][c] * p[n][0]", "gradient of layers.0.weight: "),
        ("(m / (1 - beta1))", "m", "updated layers.0.weight: "),
        (
            "h[n][j] > 0 ? h[n][j] : 0",
            "h[n][j]",
            "as if it were the identity, in relu (the output's error over bound, and not that of the gradients,",
        ),
    ],
)
def test_a_training_step_in_c_is_judged(tmp_path, right, wrong, says):
    page = (EXAMPLES / "step.c").read_text()
    assert right in page
    (tmp_path / "step.c").write_text(page.replace(right, wrong, 1) if right else page)
    compile_c(tmp_path / "step.c", tmp_path / "step", "-Werror")
    asked = [sys.executable, EXAMPLES / "judge_step.py", tmp_path / "step"]
    found = subprocess.run(list(map(str, asked)), capture_output=True, text=True, timeout=60, check=False)
    assert says in found.stdout, found.stdout + found.stderr
    assert found.returncode == bool(right)


def test_what_a_program_lacks_is_said():
    of = lambda command, **options: refnp.program(command, {"output": ()}, **options)
    with pytest.raises(ValueError, match=r"program: command 'true': there is no \{in\}"):
        of("true")
    with pytest.raises(ValueError, match="layout is 'xml'"):
        of("true {in} {out}", layout="xml")
    with pytest.raises(ValueError, match="no answer"):
        of("true {in} {out}")(np.zeros(3))
    answers = {"output": (3,), "gradient.weight": (3,)}
    program = refnp.program(COPY.replace("reference.output", "input.0"), answers, layout="raw")
    with pytest.raises(ValueError, match=r"^gradient\.weight: missing"):
        program(np.zeros(3))
    with pytest.raises(ValueError, match="exit status 1"):
        of("false {in} {out}")(np.zeros(3))


ROWS = """import sys, numpy
f = numpy.load(sys.argv[1])
x = f["input.x"].astype("f8")
y = x * f["input.gain"] / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
if {refuses} and x.ndim > 2:
    sys.exit("no such axes")
if not {refuses}:
    rows = y.reshape(-1, y.shape[-1])
    rows[len(rows) // 512 * 512 or len(rows):] = 0
numpy.savez(sys.argv[2], output=y.astype(f["input.x"].dtype))
"""


def test_cases_that_follow_from_declarations_are_asked_and_may_be_refused(tmp_path):
    def judged(**words):
        (tmp_path / "rms.py").write_text(ROWS.format(**words))
        command = f"{sys.executable} {tmp_path / 'rms.py'} {{in}} {{out}}"
        chosen = {"only": "*in front*", "skip": ("*eps*",), "dtypes": ("float32",)}
        return judge_program(command, "rms_norm", **chosen)

    lossy, strict = judged(refuses=False), judged(refuses=True)
    assert {row.case for row in lossy.deviations} == {"rms_norm/made: (1027,) in front"}
    assert strict.holds
    assert "it ends with exit status 1: no such axes" in str(strict)


NOISE = """import sys, numpy
x = numpy.load(sys.argv[1])["input.x"]
numpy.savez(sys.argv[2], output=numpy.maximum(x, 0) + numpy.random.default_rng().normal(size=x.shape).astype(x.dtype))
"""


def test_a_program_is_asked_once_more_to_see_what_it_does(tmp_path):
    (tmp_path / "relu.py").write_text(NOISE)
    report = judge_program(f"{sys.executable} {tmp_path / 'relu.py'} {{in}} {{out}}", "relu", **ONE | {"layout": "npz"})
    assert "two calls with the same arguments differ" in str(report)
