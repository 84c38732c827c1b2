"""Trains in two children for each value of an environment variable: recorded and unrecorded.

Reads a list of [variable, value] from stdin. For each, prints a line of JSON: the output and status
of both children, and how long the recorded one took. A recorded child begins like a program with
PLIMSOLL=1, and uses a monitor.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch._dynamo  # the optimizers import it

import plimsoll
from plimsoll._command.environment import begin_as_environment_says
from plimsoll._torch import adapter

HANG_SECONDS = 120


def train(after_step: Callable[[torch.Tensor], object]) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for _ in range(2):
        loss = model(torch.randn(3, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        after_step(loss)
    print(losses)


def train_recorded() -> None:
    begin_as_environment_says()
    monitor = None
    try:
        monitor = plimsoll.TrainingMonitor(interval=1, output_dir="monitor", text_log=True)
    except plimsoll.Error as error:  # an error in the options, before training
        print(f"plimsoll: {error}", file=sys.stderr)

    def after_step(loss: torch.Tensor) -> None:
        plimsoll.step()
        with plimsoll.region("part"):
            if monitor is not None:
                monitor.step(loss=loss)

    train(after_step)


def in_child(folder: str, variable: str, value: str, is_recorded: bool) -> dict:
    out, err = f"{folder}/out", f"{folder}/err"
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        for number, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        os.mkdir(f"{folder}/work{is_recorded}")
        os.chdir(f"{folder}/work{is_recorded}")
        # main() has compiled the adapter; with another cache, it cannot be compiled here.
        os.environ.update(PLIMSOLL="1", CXX="false")
        if variable == "NVTX_INJECTION64_PATH":
            os.environ["PLIMSOLL_MONITOR_NVTX"] = "1"
        if variable == "CXX":
            os.environ["PLIMSOLL_CACHE"] = f"{folder}/cache"
        os.environ[variable] = value
        train_recorded() if is_recorded else train(lambda loss: None)
        sys.exit()
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() - began > HANG_SECONDS:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
    return {
        "status": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]),
        "out": Path(out).read_text(),
        "err": Path(err).read_text(errors="backslashreplace"),
        "seconds": time.monotonic() - began,
    }


def main() -> None:
    torch.set_num_threads(1)
    for name in [name for name in os.environ if name.startswith("PLIMSOLL")]:
        del os.environ[name]
    adapter.compiled(adapter.CPU, lambda _: None)
    plain = None
    for variable, value in json.load(sys.stdin):
        folder = tempfile.mkdtemp()  # no `with`: exiting children would delete the folder
        if plain is None:
            plain = in_child(folder, "PLIMSOLL_TEST", "", is_recorded=False)
        found = in_child(folder, variable, value, is_recorded=True)
        shutil.rmtree(folder)
        row = {"variable": variable, "value": value, "plain": plain, "recorded": found}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
