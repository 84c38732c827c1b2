"""Which files `plimsoll check` reads and replaces, and which recordings it refuses to judge."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.running import complains
from tests.support.waiting import wait_until

HEAD = "Net.head/parameter=500"
COMPAT = Path(__file__).resolve().parents[1] / "compat"


@pytest.mark.parametrize("text", ["{}", "", "print(1)\n", "net: {recording: run.json}\n"])
def test_update_replaces_nothing_but_digests(project, net, text):
    project.write("run.json", HEAD)
    other = project.folder / "train.py"
    other.write_text(text)
    outcome = net("baseline: train.py", "--update")
    complains(outcome, 2, "plimsoll.budgets.yaml:1: net: train.py is not a digest", "remove it")
    assert other.read_text() == text


def test_a_baseline_is_neither_the_recording_nor_the_budget_file(project, net):
    recording = project.write("run.json", HEAD)
    (project.folder / "link.json").symlink_to(recording)
    for words in ((), ("--update",)):
        complains(net("baseline: run.json", *words), 2, "run.json is the recording itself")
        complains(net("baseline: link.json", *words), 2, "link.json is the recording itself")
    complains(net("baseline: plimsoll.budgets.yaml", "--update"), 2, "is not a digest")


@pytest.mark.parametrize("words", [(), ("--update",)])
def test_a_baseline_is_a_regular_file(project, net, words):
    project.write("run.json", HEAD)
    os.mkfifo(project.folder / "pipe")
    (project.folder / "gone").symlink_to("nowhere")
    complains(net("baseline: pipe", *words), 2, "pipe is a pipe or device")
    complains(net("baseline: /dev/zero", *words), 2, "/dev/zero is a pipe or device")
    complains(net("baseline: .", *words), 2, ". is a folder")
    complains(net("baseline: gone", *words), 2, "gone is a symbolic link that leads to no file")


@pytest.mark.parametrize("path", ["./base.json", "made/../base.json", "link.json", "hard.json"])
def test_two_budgets_never_share_a_baseline(project, path):
    base = project.write("base.json", HEAD)
    project.write("run.json", HEAD)
    (project.folder / "made").mkdir()
    (project.folder / "link.json").symlink_to(base)
    (project.folder / "hard.json").hardlink_to(base)
    project.budget(
        "one: {recording: run.json, baseline: base.json}\n"
        f"two: {{recording: run.json, baseline: {path}}}\n"
    )
    complains(project.check(), 2, "two", "the baseline of one")


def test_the_output_is_no_file_that_a_budget_names(project):
    project.write("run.json", HEAD)
    project.write("base.json", HEAD)
    (project.folder / "train.py").write_text("raise SystemExit(7)\n")
    project.budget(
        "read: {recording: '*n.json', baseline: base.json}\nrun: {run: ./train.py, peak: 5}\n"
    )
    for name, role in {
        "plimsoll.budgets.yaml": "the budget file",
        "base.json": "the baseline of read",
        "base.rank1.json": "the baseline of read",
        "run.json": "a recording of read",
        "train.py": "named by the run of run",
    }.items():
        before = {path: path.read_bytes() for path in project.folder.iterdir()}
        outcome = project.check("--only", "read", "--format", "json", "-o", name)
        complains(outcome, 2, f"{name} is {role}", "--output")
        assert before == {path: path.read_bytes() for path in project.folder.iterdir()}


def test_a_missing_baseline_is_named_before_the_program_runs(project):
    (project.folder / "train.py").write_text("open('ran', 'w').close()\n")
    project.budget("net: {run: train.py, baseline: base.json}\n")
    outcome = project.check()
    assert outcome.status == 3
    assert "there is no baseline base.json yet; write it with plimsoll check" in outcome.err
    (project.folder / "base.json").write_text("{}")
    outcome = project.check("--update")
    assert outcome.status == 2
    assert "base.json is not a digest" in outcome.err
    assert not (project.folder / "ran").exists()


def incomplete(kind: str) -> bytes:
    """A recording that lacks a part of what happened."""
    dropped = (COMPAT / "v1.plimsoll").read_bytes()
    middle = len(dropped) // 2
    return {
        "cut short": dropped[:middle],
        "a flipped bit": dropped[:middle] + bytes([dropped[middle] ^ 16]) + dropped[middle + 1 :],
        "dropped events": dropped,
        "evicted events": (COMPAT / "v3.plimsoll").read_bytes(),
    }[kind]


INCOMPLETE = {
    "cut short": "file_cut",
    "a flipped bit": "corrupt_block",
    "dropped events": "dropped_events",
    "evicted events": "evicted_events",
}


@pytest.mark.parametrize(("kind", "diagnostic"), INCOMPLETE.items(), ids=INCOMPLETE)
def test_an_incomplete_recording_is_not_judged(project, kind, diagnostic):
    recording = project.folder / "run.plim"
    project.budget("net: {recording: run.plim, baseline: base.json, peak: 1 TiB}\n")
    recording.write_bytes(incomplete(kind))
    words = "net: run.plim is incomplete, so it is not judged"
    complains(project.check("--update"), 3, words, diagnostic)
    assert not (project.folder / "base.json").exists()

    recording.write_bytes((COMPAT / "v2.plimsoll").read_bytes())
    assert project.check("--update").status == 0
    assert project.check().status == 0
    recording.write_bytes(incomplete(kind))
    complains(project.check(), 3, words, diagnostic)


@pytest.mark.parametrize(("kind", "diagnostic"), INCOMPLETE.items(), ids=INCOMPLETE)
def test_diff_warns_of_an_incomplete_recording_first(project, kind, diagnostic):
    whole = COMPAT / "v2.plimsoll"
    part = Path("part.plim")  # short, so that the sentence fits a line
    (project.folder / part).write_bytes(incomplete(kind))
    for files in ((whole, part), (part, whole)):
        outcome = project.plimsoll("diff", *files, cwd=project.folder)
        assert outcome.status == 0
        assert outcome.out.startswith(f"WARNING {part} is incomplete")
        assert diagnostic in outcome.out
        outcome = project.plimsoll("diff", *files, "--fail-on-growth", "1TiB", cwd=project.folder)
        assert outcome.status == 3
        assert f"{part}: the recording is incomplete, so its growth is unknown" in outcome.err


def test_a_digest_of_an_incomplete_recording_says_so(project, net):
    (project.folder / "part.plim").write_bytes(incomplete("a flipped bit"))
    words = ("export", "part.plim", "--to", "digest", "-o", "run.json")
    assert project.plimsoll(*words, cwd=project.folder).status == 0
    complains(net("peak: 1 TiB"), 3, "run.json is incomplete", "corrupt_block")


FORKS = """
import os
import torch

kept = torch.zeros(1000)
for _ in range(2):
    child = os.fork()
    if child == 0:
        own = torch.zeros(1_000_000)
        END
    os.waitpid(child, 0)
print("the program's own line")
"""


@pytest.mark.slow
def test_forked_children_are_named_because_no_limit_includes_them(project):
    script = project.folder / "train.py"
    script.write_text(FORKS.replace("END", "raise SystemExit"))
    how = {"env": {"PLIMSOLL_PYTHON": sys.executable}, "timeout": 300}
    project.budget("net: {run: train.py, peak: 4000}\n")
    outcome = project.check(**how)
    assert outcome.status == 0, outcome
    assert outcome.out.startswith("OK: 1 limit of 1 budget is met.\n")
    wanted = (
        "INFO net: 2 forked children allocated memory that is not recorded and that no limit covers"
    )
    assert wanted in outcome.out
    said = outcome.err.splitlines()
    assert said.index("plimsoll: recording net: train.py") < said.index("the program's own line")

    project.budget("net: {run: --in-children train.py, peak: 3999}\n")
    outcome = project.check(**how)
    assert outcome.status == 1, outcome
    assert outcome.out.startswith("FAILED net: peak on cpu is 3.9 KiB, 1 B over the limit")
    wanted = "INFO net: 2 forked children used up to 3.8 MiB each, which no limit covers"
    assert wanted in outcome.out

    script.write_text(FORKS.replace("END", "os._exit(0)"))  # without the end of its recording
    outcome = project.check(**how)
    assert "INFO net: 2 forked children used 3.9 KiB or more each, which no" in outcome.out


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_program_and_leaves_nothing(project, plimsoll_command, number):
    scratch = project.folder / "scratch"
    scratch.mkdir()
    (project.folder / "train.py").write_text(
        "import os, time\nopen('pid', 'x').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    project.budget("net: {run: train.py, peak: 5}\n")
    environment = os.environ | {"TMPDIR": str(scratch), "PLIMSOLL_PYTHON": sys.executable}
    check = subprocess.Popen([plimsoll_command, "check"], cwd=project.folder, env=environment)
    wait_until(lambda: (project.folder / "pid").exists() and (project.folder / "pid").read_text())
    check.send_signal(number)
    assert check.wait(timeout=60) == 130
    assert not Path("/proc", (project.folder / "pid").read_text()).exists()
    assert list(scratch.iterdir()) == []
