"""The example project with a memory budget, checked the way its users and its CI check it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.e2e.running import Outcome, Plimsoll

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/memory_budget"
PYTHON = {"PLIMSOLL_PYTHON": sys.executable}
FUSED = "functional.scaled_dot_product_attention(*heads, is_causal=True)"
MANUAL = "self.mixed(*heads)"
MANUAL_METHOD = """
    def mixed(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
        return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v


class Block"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    copy = tmp_path / "project"
    shutil.copytree(EXAMPLE, copy)
    return copy


@pytest.fixture
def check(project: Path, plimsoll_command: str) -> Callable[..., Outcome]:
    def run(*words: object, **environment: str) -> Outcome:
        plimsoll = Plimsoll(plimsoll_command)
        return plimsoll("check", *words, cwd=project, env=PYTHON | environment, timeout=600)

    return run


def change(file: Path, *pairs: tuple[str, str]) -> None:
    source = file.read_text()
    for old, new in pairs:
        assert source.count(old) == 1
        source = source.replace(old, new)
    file.write_text(source)


def step_of_workflow(project: Path, plimsoll_command: str) -> subprocess.CompletedProcess[str]:
    """Run the Check step of the workflow in a shell configured like GitHub's."""
    workflow = yaml.safe_load((project / ".github/workflows/memory.yml").read_text())
    steps = workflow["jobs"]["check"]["steps"]
    (script,) = (step["run"] for step in steps if step.get("name") == "Check")
    shell = f'plimsoll() {{ "{plimsoll_command}" "$@"; }}\n{script}'
    words = ["env", f"PLIMSOLL_PYTHON={sys.executable}", "bash", "-eo", "pipefail", "-c", shell]
    return subprocess.run(
        words, cwd=project, check=False, capture_output=True, text=True, timeout=600
    )


def test_the_tests_of_the_example_pass(project):
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    subprocess.run(words, cwd=project, check=True, timeout=300)


def test_the_committed_baseline_is_met(project, plimsoll_command):
    ran = step_of_workflow(project, plimsoll_command)
    assert ran.returncode == 0, ran
    assert (project / "comment.md").read_text().startswith("OK: ")


WORSE = {
    "manual attention": (
        "model.py",
        [(FUSED, MANUAL), ("\n\nclass Block", MANUAL_METHOD)],
        "attention",
    ),
    "wider": (
        "model.py",
        [
            ("(width, 4 * width)", "(width, 6 * width)"),
            ("(4 * width, width)", "(6 * width, width)"),
        ],
        "384",
    ),
    "deeper": ("model.py", [("depth: int = 2", "depth: int = 3")], "blocks"),
    "larger batch": ("train.py", [("default=16", "default=24")], " 1.5"),
    "scores kept": (
        "train.py",
        [
            ("append(loss.item())", "append(loss.item())\n        kept.append(scores)"),
            ("    losses = []\n", "    losses = []\n    kept = []\n"),
        ],
        "(Net.forward)",
    ),
}


@pytest.mark.parametrize(("file", "pairs", "cause"), WORSE.values(), ids=WORSE)
def test_a_change_that_uses_more_memory_fails(project, plimsoll_command, file, pairs, cause):
    change(project / file, *pairs)
    ran = step_of_workflow(project, plimsoll_command)
    assert ran.returncode == 1, ran
    first = (project / "comment.md").read_text().splitlines()[0]
    assert first.startswith("**FAILED train: ")
    assert cause in first


def test_a_failed_run_is_an_error_not_an_exceeded_budget(project, check):
    change(project / "train.py", ("    torch.manual_seed(0)\n", "    raise SystemExit(7)\n"))
    outcome = check()
    assert outcome.status == 3
    assert outcome.out == ""
    assert "train: the run failed with exit status 7: train.py --steps 8" in outcome.err


@pytest.mark.parametrize(
    ("words", "threads", "runs"), [("", "2", 10), (" --workers 2", "2", 10), ("", "1", 3)]
)
def test_repeated_runs_use_equal_memory(project, check, words, threads, runs):
    budgets = project / "plimsoll.budgets.yaml"
    text = budgets.read_text().replace("--steps 8", f"--steps 8{words}")
    budgets.write_text(text)
    assert check("--update", OMP_NUM_THREADS="2").status == 0
    for _ in range(runs):
        outcome = check(OMP_NUM_THREADS=threads)
        assert outcome.status == 0, outcome
        assert ("The number of threads differs" in outcome.out) == (threads != "2")


def test_the_baseline_stores_the_number_of_recordings(project, check):
    outcome = check("--update", "--repeat", 2)
    assert outcome.status == 0, outcome
    baseline = (project / "budgets/train.json").read_text()
    assert '"recordings": 2' in baseline
    assert "project/" not in baseline  # paths are relative
