"""plimsoll run --cuda-driver, with a fake CUDA that counts its calls.

The programs are adapters/cuda_driver/tests/program.cc, which executes its arguments.
"""

import json
import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from .running import complains, environment

ROOT = Path(__file__).resolve().parents[2]
HOST, FIRST, SECOND = -2, 0, 1  # devices, as the report numbers them


@pytest.fixture(scope="module")
def fake_cuda(built) -> Path:
    """The folder of the fake CUDA."""
    return built("fake_cuda/fake_cuda_static").parent


@dataclass
class Run:
    status: int
    out: str
    err: str
    traces: list[Path]
    reported: dict[str, int] = field(default_factory=dict)  # by the driver


@pytest.fixture
def record(plimsoll, fake_cuda, tmp_path):
    """Runs a program with the fake CUDA under the command."""

    def run(kind: str, *words: str, env=None) -> Run:
        outcome = plimsoll(
            *("run", "--cuda-driver", "-o", "run.plim", "--"),
            *(fake_cuda / f"fake_cuda_{kind}", *words),
            env={"FAKE_CUDA_REPORTS": str(tmp_path / "reports")} | library(fake_cuda) | (env or {}),
            cwd=tmp_path,
        )
        reported: dict[str, int] = {}
        for path in tmp_path.glob("reports.*"):
            for line in path.read_text().splitlines():
                name, value = line.split()
                reported.setdefault(name, int(value))
        return Run(
            outcome.status, outcome.out, outcome.err, sorted(tmp_path.glob("*.plim*")), reported
        )

    return run


def library(fake_cuda: Path) -> dict[str, str]:
    """The environment variable that chooses the library: by default, the one for the fake CUDA."""
    beside = fake_cuda.parent / "src/cli/libplimsoll_cuda_driver.so"
    return {"PLIMSOLL_CUDA_LIBRARY": os.environ.get("PLIMSOLL_CUDA_LIBRARY", str(beside))}


@pytest.fixture
def report(plimsoll):
    def read(path: Path, *options: str) -> dict:
        outcome = plimsoll("report", "--json", "--top", "1000", *options, path)
        assert outcome.status == 0, outcome.err
        return json.loads(outcome.out)

    return read


def totals(reported: dict) -> dict[int, tuple[int, int, int]]:
    """The allocations, live bytes at the end, and peak of each device."""
    found = {}
    for device in reported["devices"]:
        rows = [row for row in reported["tables"]["sites"] if row["device"] == device["device"]]
        count = sum(row["allocations"] for row in rows)
        active = device["requested_active"]
        if count:
            found[device["device"]] = (count, active["end_bytes"], active["peak_bytes"])
    return found


def driver_totals(reported: dict[str, int]) -> dict[int, tuple[int, int, int]]:
    found = {}
    for device, name in ((FIRST, "cuda0"), (SECOND, "cuda1"), (HOST, "host")):
        kinds = ("allocations", "live_bytes", "peak_bytes")
        count, live, peak = (reported[f"{name}.{kind}"] for kind in kinds)
        if count:
            found[device] = (count, live, peak)
    return found


def groups(reported: dict, table: str, device: int = FIRST) -> dict[str, int]:
    return {
        row["key"]: row["bytes"] for row in reported["tables"][table] if row["device"] == device
    }


KINDS = pytest.mark.parametrize("kind", ["shared", "static"])
EVERYTHING = (
    *("malloc:1000", "library:5000", "malloc:3000", "free", "device:1", "managed:700"),
    *("async:900", "ptsz:901", "free", "pool:0.800", "pool:1.801", "free", "host:64"),
    *("hostalloc:65", "driver:123", "pitch:100x10", "3d:10x10x2", "malloc:77", "free"),
    *("device:0", "again:2000"),
)


@KINDS
def test_the_totals_are_the_drivers_to_the_byte(record, report, kind):
    run = record(kind, *EVERYTHING)
    assert (run.status, run.out) == (0, "")
    assert len(run.traces) == 1
    reported = report(run.traces[0])
    assert totals(reported) == driver_totals(run.reported)
    assert len(driver_totals(run.reported)) == 3
    assert not reported["source"]["diagnostics"]


def test_the_outermost_call_is_reported_once(record, report):
    reported = report(record("shared", *EVERYTHING, "malloc:9").traces[0], "--at", "end")
    assert groups(reported, "by_operator") == {"cudaMalloc": 6009, "cudaMallocFromPoolAsync": 800}
    assert groups(reported, "by_operator", SECOND) == {
        "cudaMallocManaged": 700,
        "cudaMallocAsync": 900,
        "cuMemAlloc": 123,
        "cudaMallocPitch": 5120,
        "cudaMalloc3D": 10240,
    }
    assert groups(reported, "by_operator", HOST) == {"cudaMallocHost": 64, "cudaHostAlloc": 65}


def test_a_runtime_inside_the_program_is_seen_through_the_driver(record, report):
    reported = report(record("static", "malloc:1000", "async:900").traces[0])
    assert groups(reported, "by_operator") == {"cuMemAlloc": 1000, "cuMemAllocAsync": 900}


def test_the_caller_is_reported_by_library_line_and_stack(record, report, plimsoll):
    run = record("shared", "malloc:1000", "library:5000", "library:600")
    reported = report(run.traces[0])
    libraries = {"libasking_library.so": 5600, "fake_cuda_shared": 1000}
    assert groups(reported, "by_library") == libraries
    lines = groups(reported, "by_line")
    assert lines["libasking_library.so (asking_library_workspace)"] == 5600
    assert sum(lines.values()) == 6600
    stack = next(row["stack"] for row in reported["tables"]["by_stack"] if row["bytes"] == 5600)
    assert stack[0] == "libasking_library.so asking_library_workspace"
    assert re.fullmatch(r"fake_cuda_shared .+", stack[1])
    text = plimsoll("report", "--full", run.traces[0]).out  # without a request
    assert re.search(r"5\.5 KiB +84\.8% +2 +4\.9 KiB +libasking_library\.so\n", text)


@KINDS
def test_threads(record, report, kind):
    run = record(kind, "threads:8")
    assert run.status == 0
    reported = report(run.traces[0])
    (count, live, peak) = totals(reported)[FIRST]
    assert (count, live) == driver_totals(run.reported)[FIRST][:2] == (8000, 0)
    # The order of two threads within the same microsecond is unknown.
    assert peak == pytest.approx(driver_totals(run.reported)[FIRST][2], rel=0.05)


@KINDS
def test_out_of_memory_is_passed_on_and_reported(record, report, kind):
    run = record(
        *(kind, "malloc:6000", "errno:77", "malloc:5000", "malloc:1000", "free", "errno:78"),
        env={"FAKE_CUDA_BYTES": "10000"},
    )
    assert run.status == 0
    assert run.out == "malloc:5000: 2\n"
    assert "out of memory: 1" in run.err
    reported = report(run.traces[0])
    (device,) = (each for each in reported["devices"] if each["device"] == FIRST)
    assert [oom["requested_bytes"] for oom in device["ooms"]] == [5000]
    assert device["ooms"][0]["device_free_bytes"] == 4000
    assert reported["findings"][0]["id"] == "out_of_memory"


def test_a_free_that_the_driver_refuses_has_not_happened(record, report):
    run = record("static", "malloc:1000", "malloc:500", "refuse", "free", "bad-free")
    assert run.out == "free: 1\nbad-free: 1\n"
    assert driver_totals(run.reported)[FIRST] == (2, 1500, 1500)
    reported = report(run.traces[0])
    (_, live, peak) = totals(reported)[FIRST]
    assert (live, peak) == (1500, 1500)
    assert groups(reported, "by_operator") == {"cuMemAlloc": 1500}
    assert not reported["source"]["diagnostics"]


def test_physical_memory_is_live_as_long_as_a_handle_or_a_mapping(record, report):
    held = ("create:4096", "map", "release", "retain", "unmap")
    for words, live in ((held, 4096), ((*held, "release"), 0), (("create:4096", "release"), 0)):
        run = record("static", *words, "malloc:1")
        assert run.out == ""
        reported = report(run.traces[0])
        assert totals(reported)[SECOND] == (1, live, 4096) == driver_totals(run.reported)[SECOND]
        assert groups(reported, "by_operator", SECOND) == {"cuMemCreate": 4096}
        for path in run.traces[0].parent.glob("reports.*"):
            path.unlink()


@KINDS
def test_a_reset_frees_the_memory_of_the_device(record, report, kind):
    run = record(kind, "malloc:1000", "malloc:50", "device:1", "malloc:7", "device:0", "reset")
    assert totals(report(run.traces[0])) == driver_totals(run.reported)
    assert driver_totals(run.reported)[FIRST] == (2, 0, 1050)


@KINDS
def test_symbol_lookups_give_the_same_results_as_without_plimsoll(record, kind):
    following = f"next:{int(kind == 'shared')}"
    assert record(kind, "old", "missing", following, "malloc:1", "old", following).out == ""


def test_each_runtime_of_a_process_is_called_by_those_that_it_belongs_to(record, report):
    run = record("static", "malloc:1000", "plugin:200", "malloc:30", "plugin:4", "free")
    assert run.out == ""
    reported = report(run.traces[0], "--at", "end")
    assert groups(reported, "by_operator") == {"cuMemAlloc": 1030, "cudaMalloc": 200}
    assert groups(reported, "by_library") == {"fake_cuda_static": 1030, "libasking_library.so": 200}
    assert totals(reported) == driver_totals(run.reported)


def test_the_devices_are_reported_by_their_uuid(record, plimsoll):
    dump = plimsoll("dump", record("shared", "malloc:1").traces[0]).out
    assert 'meta key="cuda.1.uuid" value="GPU-10111213-1415-1617-1819-1a1b1c1d1e1f"' in dump


@pytest.mark.parametrize(("word", "status"), [("exit:7", 7), ("_exit:8", 8), ("abort", 134)])
def test_the_programs_status_is_ours(record, report, word, status):
    run = record("static", "malloc:1000", "again:100", "malloc:234", word)
    assert run.status == status
    assert totals(report(run.traces[0]))[FIRST][:2] == (102, 1234)
    assert "102 allocations, peak " in run.err
    assert "to see it: plimsoll report run.plim" in run.err


def test_a_killed_program_leaves_its_trace(record, report):
    run = record("static", "malloc:1000", "kill")
    assert run.status == 128 + signal.SIGKILL
    assert totals(report(run.traces[0])) == {FIRST: (1, 1000, 1000)}
    assert "run.plim: 1 allocation, peak 1000 B on cuda:0" in run.err


@KINDS
def test_children_record_into_separate_files(record, report, kind):
    run = record(kind, "malloc:1000", "fork:777", "malloc:50")
    second, first = run.traces
    assert (first.name, second.name) == ("run.plim", "run.2.plim")
    assert totals(report(first)) == {FIRST: (2, 1050, 1050)}
    assert totals(report(second)) == {FIRST: (1, 777, 777)}  # without the parent's memory
    assert run.err.count("to see it") == 2


def test_programs_that_the_program_starts_are_recorded(plimsoll, fake_cuda, tmp_path, report):
    program = fake_cuda / "fake_cuda_static"
    outcome = plimsoll(
        *("run", "--cuda-driver", "-o", "run.plim", "--", "sh", "-c"),
        f"{program} malloc:1; exec {program} malloc:22",
        env=library(fake_cuda),
        cwd=tmp_path,
    )
    assert outcome.status == 0
    second, first = sorted(tmp_path.glob("*.plim"))
    assert totals(report(first)) == {FIRST: (1, 1, 1)}
    assert totals(report(second)) == {FIRST: (1, 22, 22)}


def test_the_file_is_named_after_the_program(plimsoll, fake_cuda, tmp_path):
    words = ("run", "--cuda-driver", "--", fake_cuda / "fake_cuda_static", "malloc:1")
    assert plimsoll(*words, env=library(fake_cuda), cwd=tmp_path).status == 0
    (trace,) = tmp_path.iterdir()
    assert re.fullmatch(r"plimsoll-fake_cuda_static-\d+\.plim", trace.name)


def test_a_program_without_cuda_gets_no_file(plimsoll, fake_cuda, tmp_path):
    for words, said in ((("true",), "true"), (("sh", "-c", "exit 3"), "sh")):
        outcome = plimsoll(
            "run", "--cuda-driver", "--", *words, env=library(fake_cuda), cwd=tmp_path
        )
        assert outcome.status == (3 if words[0] == "sh" else 2)
        assert outcome.err == (
            f"plimsoll: {said} never requested memory from the CUDA driver: nothing was recorded\n"
        )
    assert not list(tmp_path.iterdir())


def test_a_program_that_cannot_be_preloaded_is_reported(plimsoll, fake_cuda, tmp_path):
    outcome = plimsoll(
        *("run", "--cuda-driver", "--", "/sbin/ldconfig", "--version"),  # linked statically
        env=library(fake_cuda),
        cwd=tmp_path,
    )
    assert outcome.status == 2
    assert "could not be loaded into /sbin/ldconfig" in outcome.err


def test_other_preloaded_libraries_stay(plimsoll, fake_cuda, tmp_path):
    ours = library(fake_cuda)
    words = ("run", "--cuda-driver", "--", "sh", "-c", "echo $LD_PRELOAD")
    other = str(fake_cuda / "libasking_library.so")
    outcome = plimsoll(*words, env=ours | {"LD_PRELOAD": other}, cwd=tmp_path)
    assert outcome.out == f"{other}:{ours['PLIMSOLL_CUDA_LIBRARY']}\n"


def test_a_file_that_cannot_be_written_is_refused(plimsoll, fake_cuda, tmp_path):
    outcome = plimsoll(
        *("run", "--cuda-driver", "-o", "/dev/null/run.plim", "--"),
        *(fake_cuda / "fake_cuda_static", "malloc:1000", "exit:5"),
        env=library(fake_cuda),
        cwd=tmp_path,
    )
    assert outcome.status == 2
    assert "cannot record into /dev/null/run.plim: /dev/null is not a folder" in outcome.err


def test_a_file_that_cannot_be_written_after_all_does_not_stop_the_program(
    plimsoll, fake_cuda, tmp_path
):
    program = fake_cuda / "fake_cuda_static"
    folder = tmp_path / "runs"
    folder.mkdir()
    outcome = plimsoll(
        *("run", "--cuda-driver", "-o", folder / "run.plim", "--", "sh", "-c"),
        f"rmdir '{folder}'; echo > '{folder}'; exec {program} malloc:1000 exit:5",
        env=library(fake_cuda),
        cwd=tmp_path,
    )
    assert outcome.status == 5
    assert "nothing was recorded" in outcome.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_pass_through(plimsoll_command, fake_cuda, tmp_path, number):
    words = ["run", "--cuda-driver", "--", "sh", "-c"]
    script = f"trap 'exit 42' {number.value}; touch ready; while :; do sleep 0.05; done"
    with subprocess.Popen(
        [plimsoll_command, *words, script],
        env=environment() | library(fake_cuda),
        cwd=tmp_path,
        stderr=subprocess.PIPE,
    ) as running:
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)
        running.send_signal(number)
        running.communicate(timeout=120)
    assert running.returncode == 42


def test_usage_errors(plimsoll, fake_cuda, tmp_path):
    ours = library(fake_cuda)
    missing = {"PLIMSOLL_CUDA_LIBRARY": str(tmp_path / "none.so")}
    spaced = tmp_path / "a b.so"
    spaced.touch()
    for words, env, said in (
        (("--cuda-driver",), ours, "no program given after --"),
        (("--cuda-driver", "train.py"), ours, "no program given after --"),
        (("--cuda-driver", "--no-stacks", "--", "true"), ours, "--no-stacks cannot be used"),
        (("--cuda-driver", "--", "/no/such/program"), ours, "cannot start /no/such/program"),
        (("--cuda-driver", "--", "true"), missing, "is not a file that can be read"),
        (("--cuda-driver", "--", "true"), {"PLIMSOLL_CUDA_LIBRARY": str(spaced)}, "a space"),
    ):
        complains(plimsoll("run", *words, env=env, cwd=tmp_path), 2, said)
