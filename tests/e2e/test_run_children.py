"""`plimsoll run` reports scripts that restart themselves, fork, or only start other programs."""

import json
import os
import subprocess
import sys

import pytest

TRAIN = """
import os, sys
def train():
    import torch
    model = torch.nn.Linear(64, 64)
    model(torch.ones(8, 64)).sum().backward()
"""
AGAIN = (
    TRAIN
    + """
if len(sys.argv) == 1:
    if os.environ.get("EARLY"):
        train()
    os.environ["AGAIN"] = "1"
    os.CALL
train()
print(os.environ["AGAIN"], sorted(name for name in os.environ if "PLIMSOLL_RUN" in name))
print(os.environ.get("PYTHONPATH"), sys.argv[1:])
"""
)
CALLS = {
    "execv": "execv(sys.executable, [sys.executable, __file__, 'again'])",
    "execve": "execve(sys.executable, [sys.executable, __file__, 'again'], dict(os.environ))",
    "execl": "execl(sys.executable, sys.executable, '-B', __file__, 'again')",
    "execvp": "execvp(sys.executable, [sys.executable, __file__, 'again'])",
}


@pytest.fixture
def run(plimsoll, tmp_path):
    pytest.importorskip("torch")

    def start(program, *options, **env):
        (tmp_path / "script.py").write_text(program)
        env = {"PLIMSOLL_PYTHON": sys.executable} | env
        return plimsoll("run", *options, "-o", "run.plim", "script.py", env=env, cwd=tmp_path)

    return start


def report_of(plimsoll, path):
    return json.loads(plimsoll("report", path, "--json").out)


SLOW_CALLS = [pytest.param(call, marks=pytest.mark.slow) for call in CALLS if call != "execve"]


@pytest.mark.parametrize("call", ["execve", *SLOW_CALLS])
def test_a_script_that_starts_itself_again_is_recorded(run, plimsoll, tmp_path, call):
    outcome = run(AGAIN.replace("CALL", CALLS[call]), PYTHONPATH="/nowhere")
    assert (outcome.status, outcome.out) == (0, "1 []\n/nowhere ['again']\n")
    assert "plimsoll: run.plim: " in outcome.err
    assert report_of(plimsoll, tmp_path / "run.plim")["source"]["events"] > 3


@pytest.mark.slow
def test_each_program_has_a_file_and_the_first_reports_that_it_has_no_end(run, plimsoll, tmp_path):
    (tmp_path / "run.plim").write_bytes(b"")
    outcome = run(AGAIN.replace("CALL", CALLS["execv"]), "--force", EARLY="1")
    assert (outcome.status, outcome.out) == (0, "1 []\nNone ['again']\n")
    assert "run.plim exists; this run is recorded into" in outcome.err
    first, second = (report_of(plimsoll, tmp_path / name) for name in ("run.plim", "run.2.plim"))
    assert first["source"]["events"] > 3 and second["source"]["events"] > 3
    assert [each["name"] for each in first["source"]["diagnostics"]] == ["file_cut"]
    assert second["source"]["diagnostics"] == []


@pytest.mark.parametrize(
    "call",
    [
        "execv('/bin/sh', ['sh', '-c', 'echo $PYTHONPATH $PLIMSOLL_RUN_OPTIONS done'])",
        pytest.param(
            "execv(sys.executable, [sys.executable, '-I', '-c', 'print(\"done\")'])",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_program_that_is_not_recorded_is_named(run, tmp_path, call):
    outcome = run(AGAIN.replace("CALL", call), EARLY="1")
    assert (outcome.status, outcome.out) == (0, "done\n")
    assert "plimsoll: the program becomes /" in outcome.err
    assert ", which is not recorded\n" in outcome.err


def test_a_program_that_cannot_be_started_leaves_the_environment_as_it_was(run):
    program = """
import os, subprocess, sys
before = dict(os.environ)
for call in (lambda: os.execv("/nonexistent", ["x"]),
             lambda: os.execve("/nonexistent", ["x"], {}),
             lambda: os.execv(sys.executable, []),
             lambda: os.execvp("no such program", ["x"]),
             lambda: os.execv("/", ["x"]),
             lambda: os.execv(sys.executable, 3)):
    try:
        call()
    except (OSError, TypeError, ValueError) as error:
        print(type(error).__name__, error)
assert os.environ == before
print(subprocess.check_output(["env"], text=True).count("PLIMSOLL_RUN"))
print(os.execve in os.supports_fd, os.execv.__name__, os.execv.__module__)
"""
    outcome = run(program)
    plain = outcome.out
    assert outcome.status == 0, outcome.err
    assert plain.splitlines()[-2:] == ["0", "True execv posix"]
    assert "arg 2 must" in plain and "No such file" in plain
    assert "not recorded" not in outcome.err


FORKS = (
    TRAIN
    + """
import torch
for _ in range(2):
    child = os.fork()
    if child == 0:
        train()
        os._exit(0)
    os.waitpid(child, 0)
"""
)


def test_forked_children_that_are_not_recorded_are_counted(run, plimsoll, tmp_path):
    outcome = run(FORKS)
    assert outcome.status == 0
    assert "; 2 forked children are not in it (--in-children)" in outcome.err
    diagnostics = report_of(plimsoll, tmp_path / "run.plim")["source"]["diagnostics"]
    reported = next(each for each in diagnostics if each["name"] == "children_unrecorded")
    assert reported["count"] == 2
    assert "--in-children" in reported["help"]


@pytest.mark.slow
def test_forked_children_that_are_recorded_are_not_counted(run, tmp_path):
    outcome = run(FORKS, "--in-children")
    assert "forked" not in outcome.err
    assert len(list(tmp_path.glob("run.plim.*"))) == 2


def test_a_script_that_only_starts_others_is_shown_how_to_record_them(run):
    burns = "import os\nwhile sum(os.times()[:2]) < 1.2: pass\n"
    program = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burns!r}])\n"
    outcome = run(program)
    assert outcome.err == (
        "plimsoll: torch was not imported, so nothing was recorded; for processes that it starts, "
        "use PLIMSOLL=1 after plimsoll enable\n"
    )


BROKEN = {
    "missing file": ("missing.py", 2, "can't open file '"),
    "missing module": ("-m", "missing", 1, "No module named missing"),
    "folder without a program": (".", 1, "can't find '__main__' module"),
    "error before torch": ("broken.py", 1, "No module named 'missing'"),
    "no Python": ("text.py", 1, "SyntaxError"),
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("how", ["command", "package"])
def test_a_program_that_cannot_run_has_the_errors_of_python_alone(
    case, how, plimsoll_command, tmp_path
):
    (tmp_path / "broken.py").write_text("import missing\n")
    (tmp_path / "text.py").write_text("no python\n")
    *words, status, reason = BROKEN[case]
    start = {
        "command": [plimsoll_command, "run"],
        "package": [sys.executable, "-m", "plimsoll", "run"],
    }
    environment = os.environ | {"PLIMSOLL_PYTHON": sys.executable}
    ran = subprocess.run(
        [*start[how], *words], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    plain = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, check=False)
    assert ran.returncode == plain.returncode == status
    assert ran.stderr == plain.stderr
    assert reason in ran.stderr.decode()


# ---- options in the environment ------------------------------------------------------------------


def modes(plimsoll, path):
    dump = plimsoll("dump", path).out
    return [line for line in dump.splitlines() if line.startswith("meta") and "mode" in line]


@pytest.mark.slow
def test_variables_apply_if_there_is_no_option(run, plimsoll, tmp_path):
    for options, expected in (((), "lite"), (("--mode", "full"), "full")):
        outcome = run(TRAIN + "train()", *options, "--force", PLIMSOLL_MODE="lite")
        assert outcome.status == 0, outcome.err
        (line,) = modes(plimsoll, tmp_path / "run.plim")
        assert expected in line


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        (
            "PLIMSOLL_MODE",
            "lit",
            "PLIMSOLL_MODE='lit' is not one of full, lite; did you mean lite?",
        ),
        (
            "PLIMSOLL_USES",
            "alway",
            "PLIMSOLL_USES='alway' is not one of auto, always, sampled, never; "
            "did you mean always?",
        ),
        ("PLIMSOLL_MAX_EVENTS", "-1", "PLIMSOLL_MAX_EVENTS: '-1' is not a whole number above 0"),
        ("PLIMSOLL_STACKS", "no", "PLIMSOLL_STACKS='no' is not one of 1, 0"),
    ],
)
def test_a_wrong_variable_is_a_usage_error_as_a_wrong_option_is(run, variable, value, says):
    outcome = run("print('ran')", **{variable: value})
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == f"plimsoll run: {says}\n"


def test_a_misspelled_variable_is_named_and_the_script_runs(run):
    program = "import torch\nprint('ran')"
    outcome = run(program, PLIMSOLL_MOED="lite", PLIMSOLL_MONITOR_NVTXX="1", PLIMSOLL_OTHER="x")
    assert (outcome.status, outcome.out) == (0, "ran\n")
    first, second, *_ = outcome.err.splitlines()
    assert first == "plimsoll run: PLIMSOLL_MOED is ignored; did you mean PLIMSOLL_MODE?"
    assert second == (
        "plimsoll: PLIMSOLL_MONITOR_NVTXX is ignored: no option 'nvtxx': did you mean 'nvtx'?"
    )


def test_a_wrong_mode_is_a_usage_error_for_programs_too(plimsoll):
    outcome = plimsoll("run", "--", "true", env={"PLIMSOLL_MODE": "lit"})
    assert outcome.status == 2
    assert outcome.err == (
        "plimsoll: PLIMSOLL_MODE=lit is not one of full, lite; did you mean lite?\n"
    )


def test_operators_are_attributed_natively_if_asked(run, plimsoll, tmp_path):
    for options, env in (("--attribution", "native"), {}), ((), {"PLIMSOLL_ATTRIBUTION": "native"}):
        outcome = run(TRAIN + "train()\n", "--uses", "never", *options, "--force", **env)
        assert outcome.status == 0, outcome.err
        dump = plimsoll("dump", tmp_path / "run.plim").out
        assert 'key="attribution" value="native"' in dump
        assert '"aten::linear"' in dump and '"AddmmBackward0"' in dump
    outcome = run("print('ran')", "--attribution", "nativ")
    assert "'nativ' is not one of observer, native; did you mean native?" in outcome.err


MISTYPED_USES = "is not one of auto, always, sampled, never; did you mean always?"


def test_a_mistyped_choice_of_a_script_is_suggested(run):
    outcome = run("print('ran')", "--uses", "alway")
    assert (outcome.status, outcome.out) == (2, "")
    assert f"argument --uses: 'alway' {MISTYPED_USES} (plimsoll run --help)" in outcome.err
    outcome = run("print('ran')", "--adapter", "torch")
    assert "did you mean libtorch?" in outcome.err
    outcome = run("print('ran')", "--mode", "x")
    assert "--mode: 'x' is not one of full, lite (plimsoll run --help)" in outcome.err


def test_a_mistyped_choice_of_a_program_is_suggested(plimsoll):
    outcome = plimsoll("run", "--uses", "alway", "--", "true")
    assert (outcome.status, outcome.err) == (2, f"plimsoll: --uses alway {MISTYPED_USES}\n")
    outcome = plimsoll("run", "--", "true", env={"PLIMSOLL_USES": "alway"})
    assert (outcome.status, outcome.err) == (2, f"plimsoll: PLIMSOLL_USES=alway {MISTYPED_USES}\n")


def test_options_after_the_script_belong_to_it(plimsoll, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint(*sys.argv[1:])\n")
    outcome = plimsoll("run", "-o", tmp_path / "run.plim", script, "--n", "3", "--mod", "x")
    assert (outcome.status, outcome.out) == (0, "--n 3 --mod x\n"), outcome.err


def test_letters_of_one_group_may_end_with_an_option_that_has_a_value(plimsoll, tmp_path):
    (tmp_path / "script.py").write_text("print('ran')\n")
    outcome = plimsoll("run", "-mo", tmp_path / "run.plim", "script", cwd=tmp_path)
    assert (outcome.status, outcome.out) == (0, "ran\n"), outcome.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--mod", "lite"), "no option --mod; did you mean --mode?"),
        (("--mode", "lite", "--uses", "always"), "--mode lite contradicts --uses always"),
        (("--adapter", "none", "--uses", "sampled"), "--adapter none contradicts --uses sampled"),
    ],
)
def test_shortened_and_contradictory_options_are_refused(run, options, says):
    outcome = run("print('ran')", *options)
    assert (outcome.status, outcome.out) == (2, "")
    assert says in outcome.err


@pytest.mark.parametrize("program", ["script.py", "--"])
def test_contradictory_variables_are_refused(plimsoll, program):
    words = [program, "true"] if program == "--" else [program]
    environment = {"PLIMSOLL_USES": "always"}
    outcome = plimsoll("run", "--mode", "lite", *words, env=environment)
    assert (outcome.status, outcome.out) == (2, "")
    assert "--mode lite contradicts --uses always: lite observes no uses" in outcome.err
