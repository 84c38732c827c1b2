"""plimsoll nsys, with a fake nsys that records its command lines."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.waiting import wait_until

from .running import complains, environment

FAKE = """#!{python}
import json, os, pathlib, subprocess, sys
words = sys.argv[1:]
folder = pathlib.Path({folder!r})
with open(folder / "calls", "a") as calls:
    calls.write(json.dumps(words) + "\\n")
fails = json.loads((folder / "fails").read_text()) if (folder / "fails").exists() else {{}}
if words[0] in fails:
    print(*fails[words[0]][1:], sep="\\n", file=sys.stderr)
    sys.exit(fails[words[0]][0])
options = dict(w.split("=", 1) for w in words if w.startswith("--") and "=" in w)
if words[:2] == ["sessions", "list"]:
    print((folder / "sessions").read_text())
if words[0] == "profile":
    status = subprocess.run(words[len([w for w in words if w.startswith("--")]) + 1 :]).returncode
    pathlib.Path(options["--output"]).write_text("a report")
    sys.exit(status)
if words[0] == "start":
    (folder / "pid").write_text(str(os.getpid()))
    (folder / "started").write_text(options["--output"])
if words[0] == "stop":
    pathlib.Path((folder / "started").read_text()).write_text("a report")
if words[0] == "stats":
    assert os.environ["LC_ALL"] == "C"
    print((folder / "stats").read_text())
"""

STATS = """Generating SQLite file
Processing [run.sqlite] with [reports/cuda_gpu_mem_size_sum.py]...

 ** CUDA GPU MemOps Summary (by Size) (cuda_gpu_mem_size_sum):

Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation
402.653,48,8.389,8.389,8.389,8.389,0.000,[CUDA memcpy Host-to-Device]
"""


class Nsys:
    """The fake nsys: its answers, and its command lines."""

    def __init__(self, folder):
        self.folder = folder
        program = folder / "nsys"
        program.write_text(FAKE.format(python=sys.executable, folder=str(folder)))
        program.chmod(0o755)
        self.answer("stats", STATS)
        self.answer("sessions", "  ID  TIME  STATE  LAUNCH  NAME\n")
        self.env = {"PATH": f"{folder}:{os.environ['PATH']}"}

    def answer(self, what: str, text: str) -> None:
        (self.folder / what).write_text(text)

    def fail(self, **verbs) -> None:
        self.answer("fails", json.dumps(verbs))

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]


@pytest.fixture
def nsys(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    return Nsys(folder)


def test_a_program_is_profiled_and_summed_up(plimsoll, nsys, tmp_path):
    outcome = plimsoll("nsys", "-o", "run", "--", "echo", "hi you", env=nsys.env, cwd=tmp_path)
    assert outcome.status == 0, outcome
    assert outcome.out.startswith("hi you\nCopies and fills on the device\n")
    assert "384.0 MiB     48  8.0 MiB" in outcome.out
    assert "run.nsys-rep: open it in nsys-ui" in outcome.out
    profile, stats = nsys.calls()
    traced = ["--trace=cuda,nvtx,osrt", "--cuda-memory-usage=true"]
    assert profile == ["profile", *traced, "--output=run.nsys-rep", "echo", "hi you"]
    assert stats[0] == "stats"
    assert stats[-1] == "run.nsys-rep"
    assert "cuda_gpu_mem_size_sum" in stats


def test_the_programs_status_is_ours(plimsoll, nsys, tmp_path):
    outcome = plimsoll("nsys", "--", "sh", "-c", "exit 7", env=nsys.env, cwd=tmp_path)
    assert outcome.status == 7
    assert "384.0 MiB" in outcome.out
    assert "exit status 7" in outcome.err


def test_print_only_prints(plimsoll, nsys, tmp_path):
    words = (
        "nsys",
        "--print",
        "--force",
        "-o",
        "run",
        "--",
        "python3",
        "train.py",
        "--name",
        "it's",
    )
    outcome = plimsoll(*words, env={"PATH": "/nowhere"}, cwd=tmp_path)
    assert outcome.status == 0
    assert outcome.out.splitlines()[0] == (
        "PLIMSOLL_MONITOR_NVTX=1 nsys profile --trace=cuda,nvtx,osrt --cuda-memory-usage=true "
        "--output=run.nsys-rep "
        "--force-overwrite=true python3 train.py --name 'it'\\''s'"
    )
    assert outcome.out.splitlines()[1].startswith("nsys stats --report cuda_gpu_mem_size_sum ")
    outcome = plimsoll("nsys", "--print", "--attach-seconds", "30", "-o", "run", cwd=tmp_path)
    assert outcome.out.splitlines()[:3] == [
        "nsys start --session=SESSION --output=run.nsys-rep",
        "sleep 30",
        "nsys stop --session=SESSION",
    ]
    assert not (nsys.folder / "calls").exists()


def test_a_launched_program_is_profiled_and_summarized(plimsoll, nsys, tmp_path):
    nsys.answer("sessions", "  ID  TIME  STATE  LAUNCH  NAME\n 195  00:03 Launched  1  mine-1\n")
    words = ("nsys", "--attach-seconds", "0.1", "-o", "part")
    outcome = plimsoll(*words, env=nsys.env, cwd=tmp_path)
    assert outcome.status == 0, outcome
    assert "384.0 MiB" in outcome.out
    verbs = [call[0] for call in nsys.calls()]
    assert verbs == ["sessions", "start", "stop", "stats"]
    assert nsys.calls()[1] == ["start", "--session=mine-1", "--output=part.nsys-rep"]


def test_control_c_ends_the_profile_early(plimsoll_command, nsys, tmp_path):
    words = ["nsys", "--attach-seconds", "3600", "--session", "mine", "-o", "part"]
    with subprocess.Popen(
        [plimsoll_command, *words],
        env=environment() | nsys.env,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        wait_until((nsys.folder / "started").exists)
        start = Path("/proc", (nsys.folder / "pid").read_text())
        wait_until(lambda: not start.exists())  # the start has ended, and plimsoll has noticed
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=120)
    assert running.returncode == 0
    assert "384.0 MiB" in out


def test_launch_starts_a_session(plimsoll, nsys, tmp_path):
    words = ("nsys", "--launch", "--session", "mine", "--", "true")
    assert plimsoll(*words, env=nsys.env, cwd=tmp_path).status == 0
    assert nsys.calls()[0][:3] == ["launch", "--session-new=mine", "--trace=cuda,nvtx,osrt"]


def test_sessions_that_cannot_be_chosen(plimsoll, nsys, tmp_path):
    words = ("nsys", "--attach-seconds", "1")
    outcome = plimsoll(*words, env=nsys.env, cwd=tmp_path)
    complains(outcome, 2, "cannot attach to one that was started without it", "--launch")
    nsys.answer("sessions", "ID NAME\n1 00:01 Launched 1 a\n2 00:01 Launched 1 b\n")
    outcome = plimsoll(*words, env=nsys.env, cwd=tmp_path)
    complains(outcome, 2, "several sessions: a, b", "--session")


def test_nsys_that_is_not_installed(plimsoll, tmp_path):
    outcome = plimsoll("nsys", "--", "true", env={"PATH": str(tmp_path)}, cwd=tmp_path)
    complains(outcome, 2, "nsys is not installed", "nsight-systems-cli")


def test_usage_errors(plimsoll, nsys, tmp_path):
    (tmp_path / "there.nsys-rep").write_text("x")
    for words, status, said in (
        ((), 2, "no program given after --"),
        (("--attach-seconds", "soon"), 2, "is not a number of seconds"),
        (("--attach-seconds", "1", "--", "true"), 2, "use only one of"),
        (("--launch",), 2, "no program given"),
        (("-o", "there", "--", "true"), 2, "replace it with --force"),
        (("--summarize", "nothing.nsys-rep"), 3, "no report nothing.nsys-rep"),
        (("--lunch", "--", "true"), 2, "did you mean --launch?"),
    ):
        complains(plimsoll("nsys", *words, env=nsys.env, cwd=tmp_path), status, said)


def test_failures_of_nsys_are_reported(plimsoll, nsys, tmp_path):
    report = tmp_path / "there.nsys-rep"
    report.write_text("x")
    words = ("nsys", "--summarize", "there.nsys-rep")
    nsys.fail(stats=[1, "ERROR: Report file is corrupt."])
    outcome = plimsoll(*words, env=nsys.env, cwd=tmp_path)
    complains(outcome, 3, "cannot read there.nsys-rep: ERROR: Report file is corrupt.")
    nsys.fail()
    nsys.answer("stats", "something else altogether")
    outcome = plimsoll(*words, env=nsys.env, cwd=tmp_path)
    complains(outcome, 3, "try nsys stats there.nsys-rep")
    nsys.answer("stats", "SKIPPED: there.sqlite does not contain GPU memory data.\n")
    outcome = plimsoll(*words, env=nsys.env, cwd=tmp_path)
    assert outcome.status == 0
    assert "recorded no copies on a GPU" in outcome.out
    nsys.fail(profile=[4, "cannot profile"])
    outcome = plimsoll("nsys", "-o", "new", "--", "true", env=nsys.env, cwd=tmp_path)
    assert outcome.status == 4
    assert "nsys ended with exit status 4" in outcome.err


def test_the_program_is_requested_to_send_its_ranges(plimsoll, nsys, tmp_path):
    asks = ("sh", "-c", 'echo "asked: $PLIMSOLL_MONITOR_NVTX"')
    outcome = plimsoll("nsys", "-o", "a", "--", *asks, env=nsys.env, cwd=tmp_path)
    assert "asked: 1\n" in outcome.out
    outcome = plimsoll("nsys", "-o", "b", "--no-nvtx", "--", *asks, env=nsys.env, cwd=tmp_path)
    assert "asked: \n" in outcome.out
    reported = nsys.env | {"PLIMSOLL_MONITOR_NVTX": "0"}
    outcome = plimsoll("nsys", "-o", "c", "--", *asks, env=reported, cwd=tmp_path)
    assert "asked: 0\n" in outcome.out
    words = ("nsys", "--print", "--no-nvtx", "--launch", "--session", "s", "--", "true")
    outcome = plimsoll(*words, env=nsys.env, cwd=tmp_path)
    assert outcome.out.startswith("nsys launch --session-new=s ")


TRAIN = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    net(torch.randn(2, 4)).sum().backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_nsys_gets_the_ranges_of_recorded_programs(plimsoll, nsys, tmp_path, nvtx_tool):
    (tmp_path / "train.py").write_text(TRAIN)
    log = tmp_path / "nvtx.log"
    # nsys sets this variable for the program that it runs.
    tool = {"NVTX_INJECTION64_PATH": nvtx_tool, "FAKE_NVTX_LOG": str(log)}
    words = ("nsys", "-o", "run", "--", sys.executable, "-m", "plimsoll", "run", "train.py")
    outcome = plimsoll(*words, env=nsys.env | tool, cwd=tmp_path, timeout=300)
    assert outcome.status == 0, outcome
    lines = [line.split(" ", 1)[1] for line in log.read_text().splitlines()]
    at = lines.index("push phase forward")
    assert lines[at : at + 3] == [
        "push phase forward",
        "push layer Sequential",
        "push layer Sequential.0",
    ]
    assert lines.count("push phase backward") == lines.count("push phase optimizer") == 2
    assert sum(line.startswith("push") for line in lines) == lines.count("pop")
    assert [line for line in lines if line.startswith("mark memory cpu allocated bytes = ")]
