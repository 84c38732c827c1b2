"""`plimsoll bisect` in git repositories whose programs write digests, and in one that trains."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.running import Outcome, Plimsoll, complains

ROOT = Path(__file__).resolve().parents[2]
WRITER = f"""
import json, pathlib, sys
sys.path.insert(0, {str(ROOT)!r})
from tests.budgets.digests import digest
text = pathlib.Path("memory.txt").read_text()
if text.startswith("fail"):
    sys.exit(7)
pathlib.Path("run.json").write_text(json.dumps(digest(text)))
pathlib.Path("memory.txt").write_text("changed by the run")
"""


class Repository:
    """A repository with one commit for each text that its program makes a digest of."""

    def __init__(self, folder: Path, plimsoll: Plimsoll) -> None:
        self.folder = folder
        self.plimsoll = plimsoll
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.write("program.py", WRITER)

    def git(self, *words: str) -> str:
        identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        ran = subprocess.run(
            ["git", *identity, *words], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return ran.stdout.strip()

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def commit(self, subject: str, **files: str) -> str:
        for name, text in files.items():
            self.write(name, text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", subject)
        return self.git("rev-parse", "HEAD")

    def commits(self, *texts: str) -> list[str]:
        return [self.commit(f"Change {i}", **{"memory.txt": text}) for i, text in enumerate(texts)]

    def bisect(self, *words: str, folder: str = ".", good: str = "", bad: str = "HEAD") -> Outcome:
        first = self.git("rev-list", "--max-parents=0", "HEAD")
        ends = [f"--good={good or first}", f"--bad={bad}"]
        env = {"PLIMSOLL_PYTHON": sys.executable}
        return self.plimsoll("bisect", *ends, *words, cwd=self.folder / folder, env=env)

    def bisect_digests(self, *words: str, **how: str) -> Outcome:
        program = ["--recording", "run.json", "--", sys.executable, "program.py"]
        return self.bisect(*words, *program, **how)


@pytest.fixture
def repository(tmp_path: Path, plimsoll_command: str) -> Repository:
    return Repository(tmp_path / "project", Plimsoll(plimsoll_command))


def memory(body: int, head: int) -> str:
    return f"Net.head/other={head} Net.body/other={body}"


# The body grows in change 8. The head shrinks and grows before and after it.
HISTORY = [(1000, 5000)] * 3 + [(1000, 3000)] * 5 + [(9000, 3000)] * 2 + [(9000, 5500)] * 2


def test_the_commit_of_the_largest_cause_is_found_whatever_else_changes(repository):
    commits = repository.commits(*(memory(*each) for each in HISTORY))
    outcome = repository.bisect_digests()
    assert outcome.status == 0, outcome
    lines = outcome.out.splitlines()
    assert lines[0] == f"WARNING {commits[8][:10]} is the first bad commit: Change 8"
    assert "Peak on cpu grew by 7.8 KiB (+200.0%), from 3.9 KiB to 11.7 KiB." in lines[1]
    assert "+7.8 KiB: " in lines[2]
    assert "Net.body" in lines[2]
    assert "By Ada on 20" in outcome.out
    tested = [line for line in lines if line.strip().startswith(("good", "bad"))]
    assert 4 <= len(tested) <= 6
    assert "plimsoll: following +7.8 KiB of the peak on cpu: " in outcome.err
    assert f"{commits[0][:10]} is good: 0 B of it, peak on cpu 5.9 KiB\n" in outcome.err
    assert f"plimsoll: recording {commits[8][:10]} Change 8\n" in outcome.err


HALF_IS_UNUSED = """
made = json.loads(pathlib.Path("run.json").read_text())
made["points"][0]["unused"] = {"bytes": made["points"][0]["bytes"] // 2, "steps": "all"}
pathlib.Path("run.json").write_text(json.dumps(made))
"""


def test_what_no_operator_uses_again_is_evidence(repository):
    repository.write("program.py", WRITER + HALF_IS_UNUSED)
    repository.commits(*(memory(*each) for each in HISTORY))
    outcome = repository.bisect_digests()
    assert outcome.status == 0, outcome
    unused = "No operator uses 5.9 KiB of the peak again, 3.9 KiB more than before."
    assert f"  - {unused}\n" in outcome.out


def test_another_cause_can_be_tracked(repository):
    commits = repository.commits(*(memory(*each) for each in HISTORY))
    text = repository.bisect_digests("--cause", "grew", good=commits[3], bad=commits[11]).out
    assert text.startswith(f"WARNING {commits[8][:10]} is the first bad commit")
    outcome = repository.bisect_digests("--cause", "scaled")
    assert outcome.status == 2
    wanted = "plimsoll: the two commits do not differ by a cause scaled; they differ by grew"
    assert outcome.err.splitlines()[-1].startswith(wanted)


def test_memory_that_only_the_good_commit_has_is_tracked_too(repository):
    without = "Net.head/other=500"
    commits = repository.commits(*[memory(900, 500)] * 3, *[without] * 4)
    outcome = repository.bisect_digests()
    assert outcome.status == 0, outcome
    assert outcome.out.startswith(f"INFO {commits[3][:10]} is the first bad commit: Change 3")


def test_commits_that_do_not_run_are_skipped(repository):
    texts = [memory(100, 100)] * 4 + ["fail"] + [memory(900, 100)] * 4
    commits = repository.commits(*texts)
    outcome = repository.bisect_digests()
    assert outcome.status == 0, outcome
    assert f"{commits[4][:10]} is skipped: the run failed with exit status 7" in outcome.err
    first = " ".join(outcome.out.splitlines()[:2])
    assert first.startswith("WARNING the first bad commit is one of these 2: some of them cannot")
    for commit in commits[4:6]:
        assert f"{commit[:10]} Change" in outcome.out


def test_nothing_of_the_user_changes(repository, tmp_path):
    repository.commits(*(memory(*each) for each in HISTORY))
    repository.write("memory.txt", "not committed")
    repository.write("staged.txt", "staged")
    repository.git("add", "staged.txt")
    repository.write("new.txt", "not tracked")
    repository.git("bisect", "start", "HEAD")  # the user's own bisection

    def state() -> list[str]:
        words = (["status", "--porcelain"], ["rev-parse", "HEAD"], ["bisect", "log"])
        return [repository.git(*each) for each in (*words, ["worktree", "list"], ["for-each-ref"])]

    before = state()
    assert repository.bisect_digests().status == 0
    assert state() == before
    assert (repository.folder / "memory.txt").read_text() == "not committed"


def test_it_runs_in_the_folder_that_it_is_started_in(repository):
    for text in (memory(100, 1), memory(100, 1), memory(300, 1), memory(300, 1)):
        repository.commit("Change", **{"inner/memory.txt": text, "inner/program.py": WRITER})
    outcome = repository.bisect_digests(folder="inner")
    assert outcome.status == 0, outcome
    assert "is the first bad commit" in outcome.out


def test_usage_errors(repository, tmp_path):
    commits = repository.commits(memory(1000, 1), memory(1000, 1), memory(3000, 1))
    complains(repository.bisect(), 2, "needs a COMMAND after --, or --budget NAME")
    complains(repository.bisect("--budget", "net", "--", "x"), 2, "give no other one")
    complains(repository.bisect("--budget", "net"), 3, "plimsoll.budgets.yaml: there is no such")
    complains(repository.bisect_digests(bad="nowhere"), 2, "nowhere is not a commit")
    complains(repository.bisect_digests(bad="--help"), 2, "--help is not a commit")
    complains(repository.bisect_digests(bad=commits[0]), 2, "are the same commit")
    outcome = repository.bisect_digests(bad=commits[1])
    assert outcome.status == 2
    wanted = "plimsoll: the two commits do not differ by more than 0.1% at any point"
    assert outcome.err.splitlines()[-1] == wanted
    outcome = repository.bisect_digests(good=commits[2], bad=commits[0])
    complains(outcome, 2, "the good commit is not an ancestor of the bad one")
    outside = repository.plimsoll(*("bisect", "--good", "a", "--bad", "b", "--", "x"), cwd=tmp_path)
    complains(outside, 2, "not a git repository")


@pytest.mark.parametrize(
    "path", ["{file}", "../../../{file}", "{name}", "link/{name}", "file.json"]
)
def test_no_file_outside_the_working_tree_is_removed(repository, tmp_path, path):
    mine = tmp_path / "mine.json"
    mine.write_text("mine")
    (repository.folder / "link").symlink_to(tmp_path)  # both are committed
    (repository.folder / "file.json").symlink_to(mine)
    repository.commits(memory(1000, 1), memory(3000, 1))
    given = {"{file}": mine, "{name}": tmp_path / "project" / ".." / "mine.json"}.get(
        path, path.format(file=str(mine).lstrip("/"), name=mine.name)
    )
    outcome = repository.bisect(f"--recording={given}", "--", sys.executable, "program.py")
    complains(outcome, 2, f"--recording {given} leads outside the temporary working tree")
    assert mine.read_text() == "mine"
    assert repository.git("worktree", "list").count("\n") == 0


def test_a_commit_at_which_the_recording_leads_outside_is_skipped(repository, tmp_path):
    mine = tmp_path / "run.json"
    mine.write_text("mine")
    texts = [memory(100, 100)] * 3
    writer = WRITER.replace('"run.json"', '"out/run.json"')
    repository.commit("Write into a folder", **{"program.py": writer, "out/kept": ""})
    repository.commits(*texts)
    folder = repository.folder / "out"
    (folder / "kept").unlink()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    linked = repository.commit("Link the folder", **{"memory.txt": memory(900, 100)})
    folder.unlink()
    repository.commit("Unlink it", **{"out/kept": ""})
    repository.commit("Same")
    program = ["--recording", "out/run.json", "--", sys.executable, "program.py"]
    outcome = repository.bisect(*program, good=repository.git("rev-parse", "HEAD~3"))
    assert outcome.status == 0, outcome
    assert f"{linked[:10]} is skipped: --recording out/run.json leads outside" in outcome.err
    assert mine.read_text() == "mine"


def test_a_run_that_removes_git_does_not_affect_the_repository_around_it(repository):
    """The temporary folder may be inside of the user's repository."""
    repository.write("program.py", WRITER + "pathlib.Path('.git').unlink()")
    repository.commits(memory(1000, 1), memory(1000, 1), memory(3000, 1))
    repository.write("memory.txt", "not committed")
    repository.write("new.txt", "not tracked")
    (repository.folder / "tmp").mkdir()
    first = repository.git("rev-list", "--max-parents=0", "HEAD")
    words = ["--recording", "run.json", "--", sys.executable, "program.py"]
    outcome = repository.plimsoll(
        *("bisect", f"--good={first}", "--bad=HEAD", *words),
        cwd=repository.folder,
        env={"TMPDIR": str(repository.folder / "tmp")},
    )
    assert outcome.status != 0
    assert (repository.folder / "memory.txt").read_text() == "not committed"
    assert (repository.folder / "new.txt").read_text() == "not tracked"


def test_a_recording_may_be_above_the_current_folder(repository):
    writer = WRITER.replace('"run.json"', '"../run.json"')
    for text in (memory(100, 1), memory(300, 1)):
        repository.commit("Change", **{"inner/memory.txt": text, "inner/program.py": writer})
    first = repository.git("rev-parse", "HEAD~1")
    program = ["--recording", "../run.json", "--", sys.executable, "program.py"]
    outcome = repository.bisect(*program, folder="inner", good=first)
    assert outcome.status == 0, outcome
    assert "is the first bad commit" in outcome.out


def test_an_unknown_cause_is_refused_before_the_first_run(repository):
    repository.commits(memory(1000, 1), memory(3000, 1))
    outcome = repository.bisect_digests("--cause", "nonsense")
    complains(outcome, 2, "--cause nonsense is not one of kept_each_step, graph_kept, ")


def test_every_documented_cause_can_be_tracked(repository):
    table = (ROOT / "docs/diff.md").read_text().partition("## Causes")[2].partition("##")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    documented = [each.strip("` ") for row in rows for each in row.split(",")]
    err = repository.plimsoll("bisect", "--good=a", "--bad=b", "--cause=?", "--", "x").err
    known = err.partition("is not one of ")[2].partition(" (")[0].split(", ")
    assert sorted(known) == sorted(documented)


def test_an_end_that_cannot_be_measured_is_named(repository):
    commits = repository.commits(memory(1, 1), "fail")
    outcome = repository.bisect_digests()
    assert outcome.status == 3
    wanted = f"the bad commit {commits[1][:10]} cannot be measured: the run failed with exit"
    assert wanted in outcome.err
    assert repository.git("worktree", "list").count("\n") == 0


TRAIN = """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 8))
optimizer = torch.optim.SGD(model.parameters())
for _ in range(3):
    model(torch.ones(BATCH, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.slow
def test_a_commit_of_a_program_that_trains_is_found_by_its_budget(repository):
    budget = "net:\n  run: train.py\n  peak: 1 GiB\n"
    commits = []
    for batch, width in ((16, 64), (8, 64), (8, 64), (8, 512), (16, 512)):
        source = TRAIN.replace("WIDTH", str(width)).replace("BATCH", str(batch))
        commits.append(repository.commit(f"Width {width}", **{"train.py": source}))
    repository.write("plimsoll.budgets.yaml", budget)  # not committed: the current one counts
    outcome = repository.bisect("--budget", "net")
    assert outcome.status == 0, outcome
    assert outcome.out.startswith(f"WARNING {commits[3][:10]} is the first bad commit: Width 512")
    assert "size of Sequential.0 and 2: [64, 64] → [512, 64]" in outcome.out
    assert "train.py:" in outcome.out
    assert "tree/" not in outcome.out
