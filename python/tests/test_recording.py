"""Recording as users do it: `plimsoll.record`, `python -m plimsoll run`, `PLIMSOLL=1`."""

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.support.waiting import wait_until

import plimsoll

SCRIPT = """
import sys
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(100, 50), nn.ReLU(), nn.Linear(50, 10))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    loss = model(torch.randn(8, 100)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("words:", *sys.argv[1:], __name__, __file__)
"""


def run(words, folder, **environment):
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def bytes_by_category(trace):
    return {row["key"]: row["bytes"] for row in trace.tables["by_category"]}


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def train(steps=3):
    model = torch.nn.Sequential(torch.nn.Linear(100, 50), torch.nn.ReLU())
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        model(torch.randn(8, 100)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def test_a_recording_reads_the_memory_of_the_process(tmp_path):
    with plimsoll.record(tmp_path / "run.plim"):
        train(steps=4)
    trace = plimsoll.open(tmp_path / "run.plim")
    (device,) = [each for each in trace.report["devices"] if each["device_type"] == "cpu"]
    start, end, highest, warm = (
        device[f"process_{name}_bytes"] for name in ("start", "end", "highest", "warm")
    )
    assert 10 << 20 < start <= highest
    assert 10 << 20 < end <= highest
    assert warm <= highest
    arrow = pytest.importorskip("pyarrow")
    readings = arrow.table(trace.readings).to_pylist()
    assert [each["device"] for each in readings] == ["cpu"] * 3  # after step 3, too
    assert [each["process_bytes"] for each in readings][::2] == [start, end]


@pytest.mark.parametrize("is_kept", [True, False])
def test_memory_outside_tensors_that_grows_is_reported_from_64_mib(is_kept, tmp_path):
    program = f"""
import plimsoll, torch
with plimsoll.record({str(tmp_path / "run.plim")!r}):
    model, kept = torch.nn.Linear(8, 8), []
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(20):
        model(torch.ones(8)).sum().backward()
        optimizer.step()
        block = b"x" * (6 << 20)
        if {is_kept}:
            kept.append(block)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    findings = plimsoll.open(tmp_path / "run.plim").findings
    found = [each["severity"] for each in findings if each["id"] == "memory_outside_tensors"]
    assert found == (["warning"] if is_kept else [])


def test_a_recording_is_a_trace_with_the_bytes_computed_by_hand(tmp_path):
    with plimsoll.record(tmp_path / "run.plim") as recording:
        kept = train()
    assert recording.state["dropped"] == 0
    assert recording.state["events"] > 0
    trace = plimsoll.open(recording.path, at="end")
    categories = bytes_by_category(trace)
    parameters = (100 * 50 + 50) * 4
    assert categories["parameter"] == parameters
    assert categories["optimizer_state"] == 2 * parameters + 2 * 4
    del kept


def test_a_recording_reports_its_state(tmp_path):
    path = str(tmp_path / "run.plim")
    recording = plimsoll.record(path)
    assert repr(recording) == f"<plimsoll.Recording {path!r}: not started>"
    with recording:
        assert repr(recording) == f"<plimsoll.Recording {path!r}: running>"
        torch.rand(1000)
    peak = recording.peaks["cpu"]  # including live memory of earlier tests
    assert peak >= 4_000
    assert repr(recording).endswith(f" events, peak {peak:,} bytes on cpu>")


@pytest.mark.parametrize("adapter", ["auto", "python"])
def test_a_recording_and_its_report_count_the_same_events(adapter, tmp_path):
    with plimsoll.record(tmp_path / "run.plim", adapter=adapter) as recording:
        with plimsoll.region("training"):
            kept = train()
        plimsoll.step()
    assert recording.state["dropped"] == recording.state["unmatched"] == 0
    assert recording.state["events"] == plimsoll.open(recording.path).report["source"]["events"]
    del kept


def test_the_report_of_a_recording_that_still_runs(tmp_path):
    with plimsoll.record(tmp_path / "run.plim") as recording:
        train()
        assert recording.report().report["source"]["events"] > 0


def test_recordings_start_once_and_end_once(tmp_path):
    recording = plimsoll.record(tmp_path / "run.plim").start()
    with pytest.raises(plimsoll.InvalidArgumentError, match="only once"):
        recording.start()
    recording.stop()
    recording.stop()
    with pytest.raises(plimsoll.InvalidArgumentError, match="only once"):
        recording.start()


def test_two_recordings_simultaneously_and_one_after_the_other(tmp_path):
    with plimsoll.record(tmp_path / "a.plim") as outer:
        train()
        with plimsoll.record(tmp_path / "b.plim") as inner:
            train()
        train()
    with plimsoll.record(tmp_path / "c.plim") as after:
        train()
    assert outer.state["events"] > inner.state["events"] > 0
    assert after.state["events"] > 0
    for recording in (outer, inner, after):
        assert plimsoll.open(recording.path).report["source"]["events"] > 0


def test_an_exception_ends_the_recording_and_leaves_no_hook(tmp_path):
    modules = importlib.import_module("torch.nn.modules.module")
    with pytest.raises(ZeroDivisionError), plimsoll.record(tmp_path / "run.plim") as recording:
        train()
        _ = 1 / 0
    assert recording.state["events"] > 0
    assert not modules._global_parameter_registration_hooks


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"mode": "half"}, "full, lite"),
        ({"adapter": "magic"}, "libtorch"),
        ({"max_events": 0}, "positive"),
    ],
)
def test_invalid_arguments_are_refused_with_the_valid_choices(arguments, word):
    with pytest.raises(plimsoll.InvalidArgumentError, match=word):
        plimsoll.record(**arguments)


def test_missing_folders_are_created_and_a_file_in_their_place_is_an_os_error(tmp_path):
    with plimsoll.record(tmp_path / "runs" / "today" / "run.plim", adapter="none") as recording:
        assert recording.path == str(tmp_path / "runs" / "today" / "run.plim")
    (tmp_path / "thesis").write_text("text")
    with pytest.raises(OSError, match="thesis"):
        plimsoll.record(tmp_path / "thesis" / "run.plim").start()


def test_steps_and_regions_of_the_user(tmp_path):
    with plimsoll.record(tmp_path / "run.plim") as recording:
        for _ in range(4):
            with plimsoll.region("fold"):
                torch.randn(10)
            plimsoll.step()
    marks = plimsoll.open(recording.path).marks.to_pydict()
    kinds = [str(kind) for kind in marks["kind"]]
    assert kinds.count("step") == 4
    assert sum("region" in kind for kind in kinds) in (4, 8)


@pytest.mark.parametrize("adapter", ["auto", "python"])
@pytest.mark.parametrize("before", [0, 2])
def test_the_programs_steps_replace_those_of_the_optimizer(tmp_path, adapter, before):
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())

    def update():
        optimizer.zero_grad()
        model(torch.rand(2, 4)).sum().backward()
        optimizer.step()

    for turn in range(2):  # each recording starts from scratch
        with plimsoll.record(tmp_path / f"run{turn}.plim", adapter=adapter) as recording:
            for _ in range(before):
                update()
            for _ in range(3):
                update()
                plimsoll.step()
        marks = plimsoll.open(recording.path).marks.to_pydict()
        kinds = [str(kind) for kind in marks["kind"]]
        steps = [step for kind, step in zip(kinds, marks["step"], strict=True) if kind == "step"]
        assert len(steps) == 3
        assert steps == list(range(steps[0], steps[0] + 3))
        if adapter == "auto":  # without the compiled adapter there is no such mark
            assert kinds.count("backward_begin") == before + 3


def test_marks_do_nothing_while_nothing_is_recorded():
    plimsoll.step()
    with plimsoll.region("nothing"):
        pass


def test_only_the_newest_events_are_kept(tmp_path):
    with plimsoll.record(tmp_path / "run.plim", max_events=20_000) as recording:
        for number in range(100_000):
            torch.empty(1)
            if number % 10_000 == 0:
                recording.flush()  # so that no event is dropped, even on a busy machine
    state, trace = recording.state, plimsoll.open(recording.path)
    assert 0 < state["evicted"] < state["events"]
    assert trace.report["source"]["events"] < 100_000
    names = [each["name"] for each in trace.report["source"]["diagnostics"]]
    assert "evicted_events" in names
    assert f"max_events evicted {state['evicted']:,} events" in trace.findings[0]["title"]


def test_the_python_adapter_sees_the_same_parameters(tmp_path):
    with plimsoll.record(tmp_path / "run.plim", adapter="python") as recording:
        kept = train()
    trace = plimsoll.open(recording.path, at="end")
    categories = bytes_by_category(trace)
    assert categories["parameter"] == (100 * 50 + 50) * 4
    names = [d["name"] for d in trace.report["source"]["diagnostics"]]
    assert any("python" in name for name in names)
    del kept


def test_a_script_runs_as_python_runs_it_and_is_recorded(script, tmp_path):
    ran = run(["-m", "plimsoll", "run", "-o", "out.plim", "train.py", "--lr", "3", "-o"], tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"words: --lr 3 -o __main__ {script}\n"
    assert "out.plim" in ran.stderr
    assert "peak" in ran.stderr
    trace = plimsoll.open(tmp_path / "out.plim")
    lines = [row["key"] for row in trace.tables["by_line"]]
    assert all("train.py" in line for line in lines)


@pytest.mark.slow
def test_a_module_runs_as_python_runs_it(script, tmp_path):
    ran = run(["-m", "plimsoll", "run", "-o", "out.plim", "-m", "train", "word"], tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("words: word __main__")
    assert (tmp_path / "out.plim").is_file()


@pytest.mark.slow
def test_the_default_path_names_script_process_and_rank(script, tmp_path):
    ran = run(["-m", "plimsoll", "run", "train.py"], tmp_path, RANK="3", WORLD_SIZE="8")
    assert ran.returncode == 0, ran.stderr
    (path,) = tmp_path.glob("*.plim")
    assert path.name.startswith("plimsoll-train-rank3-")


@pytest.mark.slow
def test_exit_status_and_traceback_are_those_of_the_script(tmp_path):
    (tmp_path / "fails.py").write_text(
        "import torch\n\ndef f():\n    torch.zeros(2).frob()\n\nf()\n"
    )
    with_us = run(["-m", "plimsoll", "run", "-o", "out.plim", "fails.py"], tmp_path)
    alone = run(["fails.py"], tmp_path)
    assert with_us.returncode == alone.returncode == 1
    traceback = [line for line in with_us.stderr.splitlines() if not line.startswith("plimsoll:")]
    assert traceback == alone.stderr.splitlines()
    (tmp_path / "exits.py").write_text("import sys\nimport torch\nsys.exit(5)\n")
    assert run(["-m", "plimsoll", "run", "-o", "o.plim", "exits.py"], tmp_path).returncode == 5


def test_an_option_that_needs_the_command_is_rejected_with_the_reason(tmp_path):
    ran = run(["-m", "plimsoll", "run", "--cuda-driver", "--", "true"], tmp_path)
    assert ran.returncode == 2
    assert "needs the command: plimsoll run --cuda-driver -- PROGRAM" in ran.stderr


def test_a_script_without_torch_runs_too(tmp_path):
    (tmp_path / "plain.py").write_text("print('hello')\n")
    ran = run(["-m", "plimsoll", "run", "plain.py"], tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "hello\n")
    assert "torch was not imported" in ran.stderr


def test_a_script_that_does_not_exist(tmp_path):
    ran = run(["-m", "plimsoll", "run", "nothing.py"], tmp_path)
    assert ran.returncode == 2
    assert "can't open file" in ran.stderr


@pytest.mark.slow
def test_the_environment_starts_a_recording(tmp_path):
    (tmp_path / "own.py").write_text("import plimsoll\n" + SCRIPT)
    ran = run(["own.py"], tmp_path, PLIMSOLL="1", PLIMSOLL_OUT="own.plim")
    assert ran.returncode == 0, ran.stderr
    assert plimsoll.open(tmp_path / "own.plim").report["source"]["events"] > 0


@pytest.mark.slow
def test_a_killed_script_leaves_a_trace(tmp_path):
    def events():
        try:
            return plimsoll.open(tmp_path / "out.plim").report["source"]["events"]
        except plimsoll.Error:  # no file yet, or no complete block
            return 0

    (tmp_path / "waits.py").write_text(SCRIPT + "\nsys.stdin.readline()\n")
    words = [sys.executable, "-m", "plimsoll", "run", "-o", "out.plim", "waits.py"]
    with subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.PIPE) as process:
        wait_until(lambda: events() > 100)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert events() > 100


@pytest.mark.slow
def test_the_command_finds_this_python(script, tmp_path, plimsoll_command):
    ran = subprocess.run(
        [Path(plimsoll_command).resolve(), "run", "-o", "out.plim", "train.py", "--help"],
        cwd=tmp_path,
        env=os.environ | {"PLIMSOLL_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("words: --help")
    assert (tmp_path / "out.plim").is_file()


@pytest.mark.slow
def test_without_a_compiler_there_is_one_sentence_and_a_recording(script, tmp_path):
    ran = run(
        ["-m", "plimsoll", "run", "-o", "out.plim", "train.py"],
        tmp_path,
        CXX="/bin/false",
        PLIMSOLL_CACHE=str(tmp_path / "cache"),
    )
    assert ran.returncode == 0, ran.stderr
    assert "did not compile" in ran.stderr
    assert "recording from Python instead" in ran.stderr
    assert plimsoll.open(tmp_path / "out.plim").report["source"]["events"] > 0


@pytest.mark.slow
def test_the_requested_adapter_is_not_replaced(tmp_path):
    code = "import plimsoll\nplimsoll.record('x.plim', adapter='libtorch').start()\n"
    cache = str(tmp_path / "cache")
    ran = run(["-c", code], tmp_path, CXX="/bin/false", PLIMSOLL_CACHE=cache)
    assert ran.returncode == 1
    assert "AdapterError: the adapter did not compile" in ran.stderr
