"""Ranges and memory for Nsight Systems, as an NVTX tool receives them from real training.

The tool is a fake (tests/support/fake_nvtx_tool.cc). A process connects to it only once, so each
program runs in a separate process.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

TRAIN = """
import torch
from torch import nn
import plimsoll

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 8)
        self.fc2 = nn.Linear(8, 1)
    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))

torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(8, 8), batch_size=4)
def train():
    for batch in loader:
        with plimsoll.region("step"):
            loss = net(batch).square().mean()
            loss.backward()
            optimizer.step()
"""


@dataclass
class Node:
    """A range of a thread, with the ranges inside it."""

    name: str
    inside: list[Node]

    def tree(self) -> str:
        inner = " ".join(node.tree() for node in self.inside)
        return f"{self.name}({inner})" if inner else self.name


@dataclass
class Reported:
    """The tool's log: the ranges of each thread as a tree, and all lines in order."""

    threads: list[list[Node]]
    lines: list[str]
    errors: str

    def marks(self, what: str) -> list[int]:
        found = re.findall(rf"^mark memory {what} = (\d+)$", "\n".join(self.lines), re.MULTILINE)
        return [int(value) for value in found]

    def steps(self) -> list[str]:
        return [line.split(" ", 3)[3] for line in self.lines if line.startswith("start ")]


def trees(lines: list[str]) -> Reported:
    open_ranges: dict[str, list[Node]] = defaultdict(lambda: [Node("", [])])
    plain = []
    for line in lines:
        thread, what = line.split(" ", 1)
        plain.append(what)
        stack = open_ranges[thread]
        if what.startswith("push "):
            node = Node(what.removeprefix("push ").split(" ", 1)[1], [])
            stack[-1].inside.append(node)
            stack.append(node)
        elif what == "pop":
            stack.pop()
    assert all(len(stack) == 1 for stack in open_ranges.values()), "ranges that nobody ended"
    roots = [stack[0].inside for stack in open_ranges.values() if stack[0].inside]
    return Reported(roots, plain, "")


Run = Callable[..., Reported]


@pytest.fixture
def run(tmp_path: Path, nvtx_tool: str) -> Run:
    def run_it(code: str, *, tool: str | None = nvtx_tool, **environment: str) -> Reported:
        log = tmp_path / "nvtx.log"
        log.unlink(missing_ok=True)
        env = os.environ | {"FAKE_NVTX_LOG": str(log), "OMP_NUM_THREADS": "1"} | environment
        env.pop("NVTX_INJECTION64_PATH", None)
        if tool is not None:
            env["NVTX_INJECTION64_PATH"] = tool
        ran = subprocess.run(
            [sys.executable, "-c", TRAIN + code],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert ran.returncode == 0, ran.stderr
        reported = trees(log.read_text().splitlines() if log.exists() else [])
        reported.errors = ran.stderr
        return reported

    return run_it


FORWARD = "forward(Net(Net.fc1 Net.fc2))"


@pytest.mark.slow
def test_a_run_nests_as_it_ran(run: Run) -> None:
    reported = run("with plimsoll.record('t.plim', nvtx=True):\n    train()\n")
    (roots,) = reported.threads
    assert [node.name for node in roots] == ["data", "step", "data", "step", "data"]
    step = roots[1]
    assert step.tree().startswith(f"step({FORWARD} backward(")
    assert [node.name for node in step.inside] == ["forward", "backward", "optimizer"]
    layers = [node.name for node in step.inside[1].inside]  # layers of the nodes that have one
    assert layers[0] == "Net.fc2"
    assert layers[-1] == "Net.fc1"
    assert set(layers) == {"Net", "Net.fc1", "Net.fc2"}
    assert reported.steps() == ["first step", "step 2", "step 3"]
    assert sum(line.startswith("end ") for line in reported.lines) == 3


@pytest.mark.slow
def test_bytes_are_reported_at_steps(run: Run) -> None:
    code = (
        "ballast = torch.zeros(1 << 20)\n"
        "with plimsoll.record('t.plim', nvtx=True):\n    train()\n    plimsoll.step()\n"
    )
    counted = run(code).marks("cpu allocated bytes")
    assert len(counted) >= 3
    assert all(4 << 20 <= value < (4 << 20) + 20_000 for value in counted)


@pytest.mark.slow
def test_an_exception_leaves_no_range_open(run: Run) -> None:
    code = """
class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.clone()
    @staticmethod
    def backward(ctx, g): raise RuntimeError("in backward")
class Wrong(Net):
    def forward(self, x):
        self.fc1(x)
        raise RuntimeError("in forward")
with plimsoll.record('t.plim', nvtx=True):
    for attempt in (lambda: Wrong()(torch.randn(4, 8)),
                    lambda: Fails.apply(net(torch.randn(4, 8))).sum().backward()):
        try:
            attempt()
        except RuntimeError as error:
            print(error)
    train()
"""
    (roots,) = run(code).threads
    assert roots[0].tree() == "forward(Wrong(Wrong.fc1))"
    assert [node.name for node in roots if node.name in ("backward", "step")] == [
        "backward",
        "step",
        "step",
    ]
    assert roots[-2].tree().startswith(f"step({FORWARD} backward(")


@pytest.mark.slow
def test_threads_have_separate_ranges(run: Run) -> None:
    code = """
import threading
def work():
    for _ in range(20):
        with plimsoll.region("work"):
            net(torch.randn(4, 8)).sum().backward()
with plimsoll.record('t.plim', nvtx=True):
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""
    reported = run(code)
    assert len(reported.threads) == 4
    for roots in reported.threads:
        assert len(roots) == 20
        assert all(node.tree().startswith(f"work({FORWARD} backward(") for node in roots)


@pytest.mark.slow
def test_the_monitor_has_the_same_by_its_option(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("plimsoll: {nvtx: true, text_log: false}\n")
    reported = run("with plimsoll.TrainingMonitor('c.yaml') as monitor:\n    train()\n")
    assert [node.name for node in reported.threads[0]] == ["data", "step", "data", "step", "data"]
    reported = run(
        "with plimsoll.TrainingMonitor(text_log=False) as monitor:\n    train()\n",
        PLIMSOLL_MONITOR_NVTX="1",
    )
    assert FORWARD in reported.threads[0][1].tree()


@pytest.mark.slow
def test_the_environment_asks_for_recordings(run: Run) -> None:
    reported = run("with plimsoll.record('t.plim'):\n    train()\n", PLIMSOLL_MONITOR_NVTX="1")
    assert FORWARD in reported.threads[0][1].tree()


@pytest.mark.slow
def test_off_loads_and_hooks_nothing(run: Run) -> None:
    code = (
        "with plimsoll.record('t.plim'), plimsoll.TrainingMonitor(text_log=False):\n    train()\n"
    )
    assert run(code).lines == []  # if loaded, the tool's library would have reported it
    code = "with plimsoll.record('t.plim', nvtx=False):\n    train()\n"
    assert run(code, PLIMSOLL_MONITOR_NVTX="1").lines == []


@pytest.mark.slow
def test_without_a_tool_one_line_is_printed(run: Run) -> None:
    reported = run("with plimsoll.record('t.plim', nvtx=True):\n    train()\n", tool=None)
    assert reported.lines == []
    (line,) = reported.errors.splitlines()
    assert line == ("plimsoll: NVTX: no tool reads NVTX here: start the program with plimsoll nsys")
    monitor = "plimsoll.TrainingMonitor(nvtx=True, text_log=False)\n"
    assert run(monitor, tool=None).errors.splitlines() == [line]
    both = f"with plimsoll.record('both.plim', nvtx=True):\n    {monitor}    {monitor}"
    assert run(both, tool=None).errors.splitlines() == [line]
