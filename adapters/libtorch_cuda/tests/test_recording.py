"""Recording as users do, on a torch that reports CUDA devices."""

import os
import pickle
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
MIB = 1 << 20


@pytest.fixture
def run(fake, cuda, tmp_path):
    def run(case, returncode=0, **environment):
        words = [str(HERE / "program.py"), case, fake._name, "run.plim"]
        ran = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])} | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert ran.returncode == returncode, ran.stderr
        return ran

    return run


def opened(path, **question):
    import plimsoll

    return plimsoll.open(path, **question)


def diagnostics(trace):
    reported = trace.report["source"]["diagnostics"]
    return {each["name"]: (each["count"], each["example"]) for each in reported}


def test_a_device_that_comes_while_recording_is_in_the_trace(run, tmp_path):
    ran = run("late")
    assert ran.stderr == ""
    trace = opened(tmp_path / "run.plim", device="cuda:0", at="end")
    (row,) = trace.tables["by_layer"]
    assert (row["key"], row["bytes"]) == ("Model.block", 3 * MIB)
    (row,) = trace.tables["by_operator"]
    assert row["key"] == "fake::kernel"
    (row,) = trace.tables["by_line"]
    assert "program.py" in row["key"]
    (device,) = [each for each in trace.devices if each["device"] == 0]
    assert device["allocated_bytes_end"] == 3 * MIB
    assert device["reserved"]["end_bytes"] == 20 * MIB


def test_memory_live_before_recording_is_in_the_trace(run, tmp_path):
    run("early")
    trace = opened(tmp_path / "run.plim", at="end")
    ends = {each["device"]: each["allocated_bytes_end"] for each in trace.devices}
    assert (ends[0], ends[1]) == (3 * MIB, 40 * MIB)


def test_recordings_one_after_the_other_see_what_changed_between_them(run, tmp_path):
    run("twice")
    trace = opened(tmp_path / "run.plim", device="cuda:0", at="end")
    assert trace.devices[0]["allocated_bytes_end"] == 3 * MIB


def test_the_cuda_adapter_begins_when_it_is_compiled(run):
    ran = run("switched")
    assert "it now replaces the recording from Python" in ran.stderr


def test_out_of_memory_is_reported_before_the_program_continues(run, tmp_path):
    ran = run("oom", RANK="3")
    first, *_ = ran.stderr.splitlines()
    assert first == (
        "plimsoll: out of memory on cuda:0 of rank 3: "
        "3.0 MiB requested (in a segment of 20.0 MiB), 0 B free of 40.0 MiB"
    )
    assert "requested by Model.block, fake::kernel, forward, " in ran.stderr
    assert "program.py:" in ran.stderr
    assert "plimsoll report run.plim --at oom:1 --device cuda:0\n" in ran.stderr
    assert "plimsoll report run.plim --at oom:3 --device cuda:0\n" in ran.stderr
    assert ran.stderr.count(" MiB requested") == 3  # of a larger number
    assert (
        "again; further failures are not printed, but recorded: plimsoll report run.plim"
        in ran.stderr
    )
    assert len(ran.stderr.split("plimsoll: out of memory")[1].splitlines()) <= 11
    assert (tmp_path / "run.oom.txt").read_text().count(" MiB requested") == 3
    assert (tmp_path / "run.oom.txt").stat().st_mode & 0o777 == 0o600
    assert "since step 2" in ran.stderr
    assert "activation +30.0 MiB" in ran.stderr
    trace = opened(tmp_path / "run.plim", device="cuda:0")
    details = trace.devices[0]["oom_details"][0]
    assert (details["requested_bytes"], details["device_free_bytes"]) == (3 * MIB, 0)
    assert (details["limit_bytes"], details["device_total_bytes"]) == (40 * MIB, 40 * MIB)
    assert "program.py" in details["line"]
    assert diagnostics(trace)["failures_not_printed"] == (
        len(trace.devices[0]["ooms"]) - 3,
        "cuda:0",
    )


def test_the_lines_and_the_command_in_them_show_the_same_failure(run, tmp_path):
    reported = run("search").stderr.split("plimsoll: out of memory on ")[1:]
    for number, text in enumerate(reported, start=1):
        asked = text.split("cuda:1: ")[1].split(" requested")[0]
        assert f"--at oom:{number} --device cuda:1\n" in text
        trace = opened(tmp_path / "run.plim", device="cuda:1", at=f"oom:{number}")
        (point,) = trace.tables["points_in_time"]
        assert point["name"] == f"oom:{number}"
        (device,) = [each for each in trace.devices if each["device"] == 1]
        details = device["oom_details"][number - 1]
        assert f"{details['requested_bytes'] // MIB}.0 MiB" == asked
        assert details["event"] == point["event"]
    assert len(reported) == 3
    last = opened(tmp_path / "run.plim", device="cuda:1", at="oom")
    assert last.tables["points_in_time"][0]["name"] == "oom:4"
    assert "requested 50.0 MiB" in last.findings[0]["evidence"][0]


def test_settings_are_recorded_and_advice_knows_them(run, tmp_path):
    ran = run("fragmented")
    trace = opened(tmp_path / "run.plim", device="cuda:0")
    trace.export(tmp_path / "run.pickle", "snapshot")
    settings = pickle.loads((tmp_path / "run.pickle").read_bytes())["allocator_settings"]
    assert settings["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert settings["expandable_segments"] is True
    assert settings["max_split_size"] == -1
    assert settings["roundup_power2_divisions"] == {str(2**i): 0 for i in range(16)}
    (finding,) = [each for each in trace.findings if each["id"] == "out_of_memory"]
    assert "expandable_segments is on already." in finding["evidence"]
    assert finding["next_step"].startswith("Allocate what ")
    assert "next         Allocate what " in ran.stderr
    assert re.search(r"stranded     14\.0 MiB, pinned by \S+program\.py:", ran.stderr)


def label_of(line):
    """The label of a line: "since step" in " since step 1: rest -30.0 MiB"."""
    return re.match(r"requested by|[a-z]+(?: [a-z]+)*", line[2:]).group()


def test_the_recorder_alone_reports_what_it_knows(run, tmp_path):
    ran = run("alone")
    lines = ran.stderr.split("plimsoll: out of memory")[1].splitlines()
    line = "program.py:"
    assert [label_of(text) for text in lines[1:]] == [
        "requested by",
        "device",
        "filled with",
        "by layer",
        "largest",
        "stranded",
        "since step",
        "all of it",
    ]
    reported = dict(zip([label_of(text) for text in lines[1:]], lines[1:], strict=True))
    assert (
        "40.0 MiB reserved, 6.0 MiB in 2 blocks; largest gap for this request" in reported["device"]
    )
    assert (
        "34.0 MiB, pinned by 2 blocks (6.0 MiB) of Model.block, fake::kernel"
        in reported["stranded"]
    )
    assert line in reported["stranded"]
    assert reported["since step"] == "  since step 1: rest -30.0 MiB"
    assert (
        reported["all of it"]
        == "  all of it    plimsoll report run.plim --at oom:1 --device cuda:0"
    )
    # The engine reports the same for this event.
    details = opened(tmp_path / "run.plim", device="cuda:0").devices[0]["oom_details"][0]
    assert details["stranded_bytes"] == 34 * MIB
    assert f"request {details['largest_usable_bytes'] / MIB:.1f} MiB" in reported["device"]


def test_an_error_in_the_report_is_printed_and_recorded(run, tmp_path):
    ran = run("faulty")
    first, *others, error = ran.stderr.splitlines()
    assert "30.0 MiB requested" in first
    assert "  device       of the first lines" in others
    assert re.fullmatch(
        r"plimsoll: out of memory on cuda:0; its report is incomplete: "
        r"KeyError: 'reserved_bytes' \(program\.py:\d+\)",
        error,
    )
    assert "went on" in ran.stdout
    assert "of the first lines" in (tmp_path / "run.oom.txt").read_text()
    count, example = diagnostics(opened(tmp_path / "run.plim", device="cuda:0"))["report_failed"]
    assert count == 1
    assert "KeyError: 'reserved_bytes'" in example


def test_a_limit_that_was_set_is_named(run, tmp_path):
    ran = run("limited")
    assert ran.stderr.splitlines()[0] == (
        "plimsoll: out of memory on cuda:0: 30.0 MiB requested, 180.0 MiB free of 200.0 MiB, "
        "limit 20.0 MiB set by set_per_process_memory_fraction"
    )
    # The limit is only context. The code that requests so much is the cause.
    assert "Raise the fraction" not in ran.stderr
    (finding,) = opened(tmp_path / "run.plim", device="cuda:0").findings
    assert "180.0 MiB free of 200.0 MiB, limit 20.0 MiB set by" in finding["evidence"][0]
    assert "requested 30.0 MiB in one allocation" in finding["title"]


def test_a_corrected_size_is_in_every_report(run, tmp_path):
    run("corrected")
    assert diagnostics(opened(tmp_path / "run.plim"))["sizes_corrected"] == (1, "cuda:1")


def test_a_program_that_is_killed_afterwards_leaves_its_failure(run, tmp_path):
    ran = run("killed", returncode=-signal.SIGKILL)
    assert "requested by Model.block, fake::kernel, forward, " in ran.stderr
    trace = opened(tmp_path / "run.plim", device="cuda:0", at="oom")
    assert trace.tables["points_in_time"][0]["name"] == "oom"
    (row,) = trace.tables["by_layer"]
    assert (row["key"], row["bytes"]) == ("Model.block", 36 * MIB)
    assert "file_cut" in diagnostics(trace)
    assert (tmp_path / "run.oom.txt").is_file()


def test_the_users_of_the_device_are_reported_when_it_is_full(run, drivers, tmp_path):
    script = tmp_path / "nvml"
    script.write_text(
        f"device H100|GPU-{'a' * 8}-{'a' * 4}-{'a' * 4}-{'a' * 4}-{'a' * 12}|"
        f"{64 * MIB}|{54 * MIB}|{5 * MIB}|0\nprocess 4711 compute {50 * MIB}\n"
    )
    ran = run("oom", FAKE_NVML=str(script), FAKE_CUDA="a" * 32, **drivers)
    line = next(line for line in ran.stderr.splitlines() if "whole GPU" in line)
    assert line.startswith("  whole GPU    59.0 MiB of 64.0 MiB used: tensors 36.0 MiB, cached 4.0")
    assert line.endswith(" 10.0 MiB, the driver itself 5.0 MiB, unexplained 4.0 MiB")
    assert len(ran.stderr.split("plimsoll: out of memory")[1].splitlines()) <= 12
    bars = opened(tmp_path / "run.plim", device="cuda:0").devices[0]["bars"]
    assert [bar["at"] for bar in bars] == ["fullest", "oom"]
    parts = {part["kind"]: part["bytes"] for part in bars[-1]["parts"]}
    assert sum(parts.values()) == bars[-1]["used_bytes"] == 59 * MIB
    assert (parts["tensors"], parts["cached"]) == (36 * MIB, 4 * MIB)
    assert (parts["driver"], parts["unexplained"]) == (5 * MIB, 4 * MIB)


def test_a_program_that_uses_no_device_is_recorded_as_usual(run):
    assert run("never").stderr == ""


def test_an_allocator_that_cannot_be_followed_leaves_torchs_own_history(run, tmp_path):
    ran = run("refused")
    (line,) = ran.stderr.splitlines()
    assert "no headers of CUDA" in line
    assert "torch's own history" in line
    trace = opened(tmp_path / "run.plim", device="cuda:0", at="end")
    assert trace.report["source"]["format"] == "plimsoll"
    assert "torch_history" in {each["name"] for each in trace.report["source"]["diagnostics"]}
    (row,) = trace.tables["by_line"]
    assert (row["key"], row["bytes"]) == ("train.py:7 (step)", 1000)
    assert trace.devices[0]["oom_details"][0]["requested_bytes"] == 8 * MIB
    count, why = diagnostics(opened(tmp_path / "run.plim"))["cuda_adapter_unavailable"]
    assert count == 1
    assert "no headers of CUDA" in why


def test_the_failure_that_ends_the_program_is_reported_whatever_came_before(run):
    *_, head, rest = run("end", returncode=1).stderr.rpartition("plimsoll: out of memory on cuda:0")
    assert head
    first, asked, *others = rest.splitlines()
    assert first.startswith(": 21.0 MiB requested")
    assert "fake::kernel" in asked
    assert any(line.startswith("  filled with") for line in others)
    assert any("plimsoll report run.plim --at oom:" in line for line in others)
    assert others[-1] == "torch.OutOfMemoryError: CUDA out of memory."


def test_without_any_history_cuda_works_and_what_is_missing_is_said(run, tmp_path):
    (line,) = run("async").stderr.splitlines()
    assert line.startswith("plimsoll: torch uses the allocator cudaMallocAsync")
    assert line.endswith("CUDA memory is not recorded")
    count, why = diagnostics(opened(tmp_path / "run.plim"))["device_not_recorded"]
    assert count == 1
    assert why.endswith("cudaMallocAsync does not yet support recordHistory.")


def test_without_the_adapter_there_is_torchs_own_history(run, tmp_path):
    assert run("python").stderr == ""
    trace = opened(tmp_path / "run.plim", device="cuda:0", at="end")
    assert trace.devices[0]["allocated_bytes_end"] == 1024
    reported = diagnostics(trace)
    assert reported["cuda_adapter_unavailable"] == (1, "recorded without the compiled adapter")


@pytest.mark.parametrize(
    ("signature", "wanted"),
    [
        ("(enabled='all', context='all', stacks='all', max_entries=1, device=None)", "stacks"),
        ("(enabled='all', context='all', stacks='all', max_entries=1, skip=None)", "stacks"),
        ("(enabled='all', *args, **kwargs)", "stacks"),
        ("(enabled, record_context=True, trace_alloc_max_entries=1)", "trace_alloc_max_entries"),
    ],
)
def test_torchs_history_is_asked_for_as_each_version_takes_it(signature, wanted):
    from plimsoll._cuda.cuda_history import arguments

    scope = {}
    exec(f"def _record_memory_history{signature}: pass", scope)
    memory = type("memory", (), {"_record_memory_history": scope["_record_memory_history"]})
    reported = arguments(memory)
    assert wanted in reported
    if wanted == "stacks":
        scope["_record_memory_history"](**reported)
        assert reported["stacks"] == "python"


def test_torch_without_cuda_is_left_alone(compiled, tmp_path):
    program = """
import sys
import plimsoll, torch
with plimsoll.record("run.plim"):
    torch.nn.Linear(3, 3)(torch.ones(3)).sum().backward()
queued = len(torch.cuda._queued_calls)
with plimsoll.record("again.plim"):
    torch.ones(3)
assert len(torch.cuda._queued_calls) == queued
assert not [c for c, _ in torch.cuda._queued_calls if "plimsoll" in c.__module__]
for name in ("_cuda.cuda_adapter", "_cuda.cuda_history", "_oom.oom_report"):
    assert f"plimsoll.{name}" not in sys.modules, name
assert "_plimsoll_torch_cuda" not in sys.modules
assert not torch.cuda.is_initialized()
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
