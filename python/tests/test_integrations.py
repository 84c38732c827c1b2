"""Monitoring inside real packages: PhiFlow, Weights & Biases, and missing packages."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import plimsoll

torch.set_num_threads(1)
os.environ |= {"WANDB_MODE": "offline", "WANDB_ERROR_REPORTING": "false"}
pytestmark = pytest.mark.usefixtures("no_network", "unwatched")

PACKAGES = {"lightning", "pytorch_lightning", "transformers", "accelerate", "phi", "wandb"}


def lines(text: str, beginning: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip().startswith(beginning)]


# PhiFlow ------------------------------------------------------------------------------------------


def test_phiflow_counts_loss_evaluations_and_reports_the_first(capsys):
    from phi.torch import flow

    from plimsoll.integrations.phiflow import Counted

    def loss(x):
        return flow.math.l2_loss(x - 3)

    with Counted(loss, enabled=True, verbose_batches=2) as counted:
        solve = flow.Solve("L-BFGS-B", 0, 1e-6, x0=flow.tensor(0.0))
        found = flow.math.minimize(counted, solve)
    assert float(found) == pytest.approx(3, abs=1e-3)
    reported = capsys.readouterr().out
    assert counted.evaluations >= 3
    assert len(lines(reported, "Loss evaluation")) == 2
    assert lines(reported, "Loss evaluation 0:")


def test_phiflow_off_is_silent_and_losses_of_other_kinds_are_taken(capsys):
    from phi.torch.flow import batch, wrap

    from plimsoll.integrations.phiflow import Counted, native

    with Counted(lambda x: x, {}) as counted:
        assert counted(2.5) == 2.5
    assert capsys.readouterr().out == ""
    assert float(native(wrap([1.0, 2.0], batch("b")))) == 3
    assert native(2.5) == 2.5


# Weights & Biases ---------------------------------------------------------------------------------


def offline_history(folder: Path) -> list[dict[str, str]]:
    """The log of an offline run, read from its file: protobufs in LevelDB's log format."""
    from wandb.proto import wandb_internal_pb2

    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    data, position, record, rows = path.read_bytes(), 7, b"", []
    while position + 7 <= len(data):
        left = 32768 - position % 32768
        if left < 7:
            position += left
            continue
        _, size, kind = struct.unpack_from("<IHB", data, position)
        record += data[position + 7 : position + 7 + size]
        position += 7 + size
        if kind not in (1, 4):  # a whole record or the last part of one
            continue
        message = wandb_internal_pb2.Record()
        message.ParseFromString(record)
        record = b""
        if message.WhichOneof("record_type") == "history":
            items = message.history.item
            rows.append({".".join(item.nested_key) or item.key: item.value_json for item in items})
    return rows


def test_wandb_gets_the_scalars_on_a_separate_axis(tmp_path):
    import wandb

    from plimsoll.integrations.wandb import Writer

    run = wandb.init(
        mode="offline", dir=tmp_path, project="p", settings=wandb.Settings(silent=True)
    )
    writer = Writer(run)
    model = nn.Linear(64, 64)
    for iteration in range(9):
        loss = model(torch.randn(2, 64)).square().mean()
        plimsoll.log_tensor_memory_breakdown(writer, iteration, interval=2)
        if iteration < 5:
            run.log({"loss": loss.item()})
    run.finish()
    wandb.teardown()  # waits for the process that writes the file
    rows = offline_history(tmp_path)
    ours = [row for row in rows if "plimsoll/iteration" in row]
    assert [row["plimsoll/iteration"] for row in ours] == ["0", "2", "4", "6", "8"]
    assert ["loss" in row for row in rows] == [True] * 5 + [False] * 2
    for row in ours:
        assert float(row["Memory/Tensor_Category/parameters_MB"]) >= 64 * 64 * 4 / 2**20


def test_wandb_as_an_option_logs_each_sample_to_the_run_that_is_active(tmp_path, capsys):
    import wandb

    settings = wandb.Settings(silent=True)
    model = nn.Linear(64, 64)
    with plimsoll.TrainingMonitor(output_dir=tmp_path, interval=2, wandb=True) as monitor:
        monitor.step(0)
        monitor.step(2)
        run = wandb.init(mode="offline", dir=tmp_path, project="p", settings=settings)
        for iteration in range(4, 9):
            loss = model(torch.randn(2, 64)).square().mean()
            run.log({"loss": loss.item()})
            monitor.step(iteration, loss)
        run.finish()
        monitor.step(10)
    wandb.teardown()
    rows = offline_history(tmp_path)
    ours = [row for row in rows if "plimsoll/iteration" in row]
    assert [row["plimsoll/iteration"] for row in ours] == ["4", "6", "8"]
    for row in ours:
        assert float(row["Memory/Tensor_Category/parameters_MB"]) >= 64 * 64 * 4 / 2**20
        assert "Memory/loss" in row
    assert sum("loss" in row for row in rows) == 5
    reported = [
        line for line in capsys.readouterr().err.splitlines() if line.startswith("plimsoll")
    ]
    assert reported == [
        f"plimsoll: samples are written to {monitor.text_log_path}",
        "plimsoll: wandb: no run is active: call wandb.init() before the first sample; memory is "
        "not logged there",
    ]


def test_wandb_that_raises_does_not_stop_the_training(tmp_path, monkeypatch, capsys):
    import wandb

    class Broken:
        def define_metric(self, *names, **settings):
            raise OSError("no space left")

    monkeypatch.setattr(wandb, "run", Broken())
    with plimsoll.TrainingMonitor(output_dir=tmp_path, interval=1, wandb=True) as monitor:
        monitor.step()
        monitor.step()
    assert monitor.samples == 2
    assert capsys.readouterr().err == (
        f"plimsoll: samples are written to {monitor.text_log_path}\n"
        "plimsoll: wandb: OSError: no space left; memory is not logged there\n"
    )


def test_wandb_without_a_run_is_reported():
    from plimsoll.integrations.wandb import Writer

    with pytest.raises(RuntimeError, match=r"call wandb\.init\(\) first"):
        Writer()


# All of them --------------------------------------------------------------------------------------


def test_importing_plimsoll_imports_none_of_the_packages():
    code = "import sys, plimsoll, plimsoll.integrations; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert PACKAGES.isdisjoint(ran.stdout.split())


@pytest.mark.parametrize("name", ["lightning", "transformers", "accelerate", "phiflow", "wandb"])
def test_a_package_that_is_not_installed_is_named(name):
    code = f"""
import sys

class Hidden:
    def find_spec(self, name, *_):
        if name.split(".")[0] in {PACKAGES}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Hidden())
import plimsoll.integrations.{name}
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert f"pip install {name}" in ran.stderr.splitlines()[-1]
