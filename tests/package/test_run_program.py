"""plimsoll run -- PROGRAM: a linked program is recorded, any other is an error."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def run(*words, **how) -> subprocess.CompletedProcess:
    return subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, **how)


@pytest.fixture
def record(plimsoll_command, recorded_program, tmp_path):
    def start(*words, program=recorded_program, options=("-o", "run.plim"), env=None):
        environment = {**os.environ, **(env or {})}
        return run(
            *(plimsoll_command, "run", *options, "--", program, *words),
            cwd=tmp_path, env=environment, timeout=60,
        )  # fmt: skip

    return start


def report(command, path: Path) -> dict:
    return json.loads(run(command, "report", "--json", path).stdout)


def test_a_linked_program_records_into_the_named_file(record, plimsoll_command, tmp_path):
    ran = record("alloc:1000", "alloc:24")
    assert (ran.returncode, ran.stdout) == (0, "")
    assert ran.stderr == (
        "plimsoll: run.plim: 2 allocations, peak 1.0 KiB on cpu; "
        "to see it: plimsoll report run.plim\n"
    )
    (cpu,) = report(plimsoll_command, tmp_path / "run.plim")["devices"]
    assert cpu["requested_active"]["peak_bytes"] == 1024


def test_without_a_name_the_file_is_named_after_the_program(record, tmp_path):
    assert record("alloc:1", options=()).returncode == 0
    (path,) = tmp_path.glob("*.plim")
    assert path.name.startswith("plimsoll-recorded_program-")


def test_its_own_recordings_are_unaffected(record, plimsoll_command, tmp_path):
    assert record("alloc:5", f"own:{tmp_path}/own.plim", "alloc:7").returncode == 0
    peaks = {
        name: report(plimsoll_command, tmp_path / name)["devices"][0]["requested_active"]
        for name in ("run.plim", "own.plim")
    }
    assert peaks["run.plim"]["peak_bytes"] == 12
    assert peaks["own.plim"]["peak_bytes"] == 12  # a recording begins with the live memory


@pytest.mark.parametrize("status", [0, 7])
def test_a_program_without_plimsoll_fails_and_its_own_status_takes_precedence(
    record, status, tmp_path
):
    ran = record("-c", f"exit {status}", program="/bin/sh")
    assert ran.returncode == (status or 2)
    assert ran.stdout == ""
    (line,) = ran.stderr.splitlines()
    assert line.startswith("plimsoll: /bin/sh is not linked with plimsoll: nothing was recorded")
    assert "plimsoll run --cuda-driver -- /bin/sh" in line
    assert list(tmp_path.iterdir()) == []


def test_a_linked_program_that_allocates_nothing_fails(record):
    ran = record()
    assert ran.returncode == 2
    assert "made no allocation that plimsoll can see" in ran.stderr


def test_the_status_of_a_recorded_program_is_its_own(record, tmp_path):
    ran = record("alloc:10", "exit:3")
    assert ran.returncode == 3
    assert "run.plim: 1 allocation," in ran.stderr


def test_each_process_of_a_program_records_into_a_separate_file(record, plimsoll_command, tmp_path):
    ran = record("alloc:50", "child")
    assert ran.returncode == 0
    second, first = sorted(tmp_path.iterdir())
    assert (first.name, second.name) == ("run.plim", "run.2.plim")
    peaks = [
        report(plimsoll_command, path)["devices"][0]["requested_active"]["peak_bytes"]
        for path in (first, second)
    ]
    assert peaks == [50, 77]
    assert ran.stderr.count("to see it") == 2


def test_ranks_record_into_separate_files(record, tmp_path):
    for rank in ("0", "1"):
        ran = record("alloc:8", env={"RANK": rank, "WORLD_SIZE": "2"})
        assert ran.returncode == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.rank0.plim", "run.rank1.plim"]


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("lora_rank12.plim", "lora_rank12.rank1.plim"),
        ("franks1.plim", "franks1.rank1.plim"),
        ("run-rank_01.plim", "run-rank_01.plim"),
        ("rank1/run.plim", "rank1/run.plim"),
    ],
)
def test_a_name_that_is_the_rank_s_stays(record, tmp_path, name, own):
    (tmp_path / "rank1").mkdir()
    ran = record(
        "alloc:8", options=("-o", name), env={"LOCAL_RANK": "1", "RANK": "", "WORLD_SIZE": "2"}
    )
    assert ran.returncode == 0, ran.stderr
    assert [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.plim")] == [own]


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_file_that_is_not_a_trace_is_kept(record, tmp_path, force):
    mine = tmp_path / "run.plim"
    mine.write_text("my notes\n")
    ran = record("alloc:8", options=("-o", "run.plim", *force))
    assert ran.returncode == 0
    assert "run.2.plim: 1 allocation," in ran.stderr
    assert mine.read_text() == "my notes\n"


def test_an_earlier_trace_is_replaced_only_on_request(record, tmp_path):
    trace = tmp_path / "run.plim"
    trace.touch()
    assert "run.plim: 1 allocation," in record("alloc:8").stderr  # into the empty file
    first = trace.read_bytes()
    assert "run.2.plim: 1 allocation," in record("alloc:9").stderr
    assert trace.read_bytes() == first
    ran = record("alloc:10", "child", options=("-o", "run.plim", "--force"))
    assert "plimsoll: run.plim: 1 allocation, peak 10 B" in ran.stderr
    assert "run.3.plim: 1 allocation," in ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "run.2.plim",
        "run.3.plim",
        "run.plim",
    ]


def test_a_file_that_cannot_be_written_is_refused_before_the_program_starts(record, tmp_path):
    ran = record("alloc:8", options=("-o", "/dev/null/x.plim"))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "cannot record into /dev/null/x.plim: /dev/null is not a folder" in ran.stderr


def test_a_program_that_cannot_be_started_is_an_error(record):
    ran = record(program="./no-such-program")
    assert ran.returncode == 2
    assert ran.stderr.startswith("plimsoll: cannot start ./no-such-program: ")


def test_options_that_have_no_meaning_here_are_an_error(record):
    ran = record(options=("--no-stacks",))
    assert ran.returncode == 2
    assert "--no-stacks cannot be used before --" in ran.stderr


def test_only_the_newest_events_are_kept_on_request(record, plimsoll_command, tmp_path):
    for options in ((), ("--max-events", "1000")):
        ran = record("churn:5000", options=("-o", f"run{len(options)}.plim", *options))
        assert ran.returncode == 0
    events = [
        report(plimsoll_command, tmp_path / f"run{number}.plim")["source"]["events"]
        for number in (0, 2)
    ]
    assert events[0] == 10_000
    assert 900 <= events[1] < 2_500


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_the_program_and_what_was_recorded_is_there(
    plimsoll_command, recorded_program, number, tmp_path
):
    words = [plimsoll_command, "run", "-o", "run.plim", "--", recorded_program]
    command = subprocess.Popen(
        [*map(str, words), "alloc:64", "wait"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert command.stdout.readline() == "waiting\n"
    end = time.monotonic() + 120
    while "\nalloc " not in run(plimsoll_command, "dump", tmp_path / "run.plim").stdout:
        assert time.monotonic() < end
    if number == signal.SIGTERM:
        command.send_signal(number)  # the command forwards it
    else:
        children = run("ps", "-o", "pid=", "--ppid", command.pid).stdout.split()
        os.kill(int(children[0]), number)
    _, errors = command.communicate(timeout=120)
    assert command.returncode == 128 + number
    assert "run.plim: 1 allocation," in errors


def test_the_variable_alone_records_too(recorded_program, tmp_path):
    out = tmp_path / "direct.plim"
    ran = run(recorded_program, "alloc:4096", env={"PLIMSOLL": "1", "PLIMSOLL_OUT": str(out)})
    assert ran.returncode == 0
    assert ran.stderr.startswith(f"plimsoll: {out}: ")
    assert "peak 4.0 KiB" in ran.stderr
    assert out.stat().st_size > 0
    plain = run(recorded_program, "alloc:4096", cwd=tmp_path, env={"PLIMSOLL": "0"})
    assert (plain.stderr, list(tmp_path.iterdir())) == ("", [out])


def test_a_python_is_recorded_through_its_script(record, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "ones.py").write_text("import torch; x = torch.ones(1000)\n")
    by_python = {"PLIMSOLL_ADAPTER": "python"}  # compiles nothing
    ran = record("ones.py", program=sys.executable, env=by_python)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.splitlines()[-1].startswith("plimsoll: run.plim: ")
    assert ran.stderr.count("to see it") == 1
    refused = record("-c", "print(1)", program=sys.executable)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "write the code after -c into a file" in refused.stderr


def test_the_variable_names_the_file_where_no_option_does(record, plimsoll_command, tmp_path):
    ran = record("alloc:4096", options=(), env={"PLIMSOLL_OUT": "by_variable.plim"})
    assert ran.returncode == 0, ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["by_variable.plim"]
    ran = record("alloc:4096", env={"PLIMSOLL_OUT": "other.plim"})  # the option takes precedence
    assert ran.returncode == 0, ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["by_variable.plim", "run.plim"]


@pytest.mark.parametrize("variable", ["MAX_EVENTS", "MODE", "IN_CHILDREN"])
def test_a_variable_that_cannot_be_understood_is_named(recorded_program, variable, tmp_path):
    for value in ("²", "-1", "1e3", "9" * 30, "x y", "9" * 5000):
        odd = {"PLIMSOLL": "1", f"PLIMSOLL_{variable}": value}
        ran = run(recorded_program, "alloc:4096", cwd=tmp_path, env=odd)
        assert ran.returncode == 0
        reported = f"plimsoll: nothing is recorded: PLIMSOLL_{variable}='{value}' is n"
        assert ran.stderr.startswith(reported), ran.stderr
        assert ran.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
