"""A run publishes its memory for `plimsoll top`, while it runs and `top` reads it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # waits for running programs

LOOP = """
import select, sys, torch
net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
optimizer = torch.optim.Adam(net.parameters())
print("begun", flush=True)
while not select.select([sys.stdin], [], [], 0.01)[0]:  # until it is told to end
    loss = net(torch.randn(64, 256)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
WATCHED = """
import sys, plimsoll, torch
plimsoll.BatchMemoryProfiler()
kept = torch.nn.Linear(1024, 1024)
print("begun", flush=True)
sys.stdin.readline()
"""


class Run:
    """Run a script until the end of the `with` block."""

    def __init__(self, words, script, folder, **env):
        path = folder / "script.py"
        path.write_text(script)
        self.live = folder / "live"
        self.env = os.environ | {"PLIMSOLL_LIVE_FOLDER": str(self.live), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, *words, str(path)],
            cwd=folder,
            env=self.env | env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "begun\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        self.process.communicate("end\n", timeout=120)
        return self.process.returncode

    def shown(self) -> list[str]:
        return [path.name for path in self.live.iterdir()] if self.live.exists() else []

    def top(self, command: str, *wanted: str) -> str:
        """Return the page as soon as it has all these words."""
        words = [command, "top", "--once", "--pid", str(self.process.pid)]
        end = time.monotonic() + 120
        while True:
            page = subprocess.run(
                words, env=self.env, capture_output=True, text=True, check=True, timeout=120
            ).stdout
            if all(word in page for word in wanted):
                return page
            assert time.monotonic() < end, page


def test_a_run_shows_its_layers_and_categories(plimsoll_command, tmp_path):
    with Run(["-m", "plimsoll", "run", "-o", "run.plim"], LOOP, tmp_path) as run:
        assert run.shown() == [str(run.process.pid)]
        page = run.top(plimsoll_command, "parameter", "optimizer_state", "Sequential.")
        assert f"Run {run.process.pid}" in page
        assert "counting shared pages once" in page
        assert run.end() == 0
        assert run.shown() == []


def test_monitors_show_what_they_watch(plimsoll_command, tmp_path):
    with Run([], WATCHED, tmp_path) as run:
        run.top(plimsoll_command, "4.0 MiB")
        assert run.end() == 0
        assert run.shown() == []


def test_it_can_be_switched_off(tmp_path):
    words = ["-m", "plimsoll", "run", "-o", "run.plim"]
    with Run(words, LOOP, tmp_path, PLIMSOLL_LIVE="0") as run:
        threads = Path(f"/proc/{run.process.pid}/task").glob("*/comm")
        assert "plimsoll-live\n" not in [thread.read_text() for thread in threads]
        assert run.end() == 0
    assert run.shown() == []


def test_a_killed_run_leaves_nothing_that_is_taken_for_a_run(plimsoll_command, tmp_path):
    with Run(["-m", "plimsoll", "run", "-o", "run.plim"], LOOP, tmp_path) as run:
        run.process.kill()
        run.process.wait()
        assert run.shown() == [str(run.process.pid)]
        subprocess.run([plimsoll_command, "top", "--once"], env=run.env, check=True)
        assert run.shown() == []
