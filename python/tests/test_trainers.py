"""Monitors in the training loops of real packages, on models that train quickly."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from plimsoll import _record

torch.set_num_threads(1)
os.environ |= {"HF_HUB_OFFLINE": "1"}
pytestmark = pytest.mark.usefixtures("no_network", "unwatched")


@pytest.fixture
def options(tmp_path) -> dict:
    """Options of a monitor: a sample every second iteration, and the folder."""
    return {"output_dir": tmp_path, "interval": 2, "verbose_batches": 1, "profile_tensors": True}


def logged_iterations(folder: Path) -> list[int]:
    (log,) = (folder / "profiles").glob("tensor_profile_*.log")
    return [int(number) for number in re.findall(r"=== Iteration (\d+)", log.read_text())]


def logged_batches(folder: Path) -> list[str]:
    """The batch size in each snapshot."""
    (log,) = (folder / "profiles").glob("tensor_profile_*.log")
    return re.findall(r"=== Iteration .*\| batch (\d+)", log.read_text())


def lines(text: str, beginning: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip().startswith(beginning)]


class Seen:
    """Stores whether a recording was active while the model ran."""

    def __init__(self, model: nn.Module) -> None:
        self.recording = False
        model.register_forward_hook(self.look)

    def look(self, *_) -> None:
        self.recording |= _record.is_recording()


# Lightning ----------------------------------------------------------------------------------------


def lightning_run(callback, model=None) -> None:
    from lightning.pytorch import LightningModule, Trainer

    class Model(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.linear = model or nn.Linear(4, 1)

        def training_step(self, batch, _):
            return self.linear(batch).square().mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    trainer = Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback],
    )
    data = torch.utils.data.DataLoader(torch.randn(6, 4), batch_size=2)
    trainer.fit(Model(), data)


@pytest.fixture
def lightning():
    import plimsoll.integrations.lightning

    return plimsoll.integrations.lightning


def test_lightning_epochs_have_lines_and_iterations_samples(lightning, options, tmp_path, capsys):
    model = nn.Linear(4, 1)
    seen = Seen(model)
    lightning_run(lightning.MemoryCallback(**options), model)
    reported = capsys.readouterr().out
    assert len(lines(reported, "Batch 0:")) == len(lines(reported, "Epoch end:")) == 2
    assert "loss=" in lines(reported, "Batch 0:")[0]
    assert logged_iterations(tmp_path) == [0, 2, 4]
    assert logged_batches(tmp_path) == ["2"] * 3
    assert seen.recording


def test_lightning_off_leaves_no_trace(lightning, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = nn.Linear(4, 1)
    seen = Seen(model)
    lightning_run(lightning.MemoryCallback({"trainer_params": {"epochs": 2}}), model)
    assert "Batch" not in capsys.readouterr().out
    assert not seen.recording
    assert not (tmp_path / "profiles").exists()


def test_lightning_that_fails_ends_monitoring(lightning, options):
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, _):
            raise ArithmeticError("broken")

    callback = lightning.MemoryCallback(**options)
    with pytest.raises(ArithmeticError, match="broken"):
        lightning_run(callback, Broken())
    assert not callback.is_running


def test_lightning_reports_when_memory_ran_out(lightning, options, tmp_path, capsys):
    class Greedy(nn.Linear):
        def forward(self, batch):
            if batch.shape[0] == 2 and logged_iterations(tmp_path):
                raise MemoryError
            return super().forward(batch)

    with pytest.raises(MemoryError):
        lightning_run(lightning.MemoryCallback(**options), Greedy(4, 1))
    reported = capsys.readouterr().err
    assert "CRITICAL Memory of cpu ran out in iteration 1, whose batch has 2 items" in reported
    assert "Tensors used" in reported


# Transformers -------------------------------------------------------------------------------------


def transformers_run(callback, folder: Path) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    config = GPT2Config(
        n_layer=1, n_embd=16, n_head=2, vocab_size=32, n_positions=16, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    words = torch.randint(32, (8, 8), generator=torch.Generator().manual_seed(0))
    arguments = TrainingArguments(
        output_dir=str(folder / "transformers"),
        num_train_epochs=2,
        per_device_train_batch_size=2,
        logging_steps=2,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
    )
    data = [{"input_ids": row, "labels": row} for row in words]
    Trainer(model, arguments, train_dataset=data, callbacks=[callback]).train()
    return model


@pytest.fixture
def transformers():
    import plimsoll.integrations.transformers

    return plimsoll.integrations.transformers


@pytest.mark.slow
def test_transformers_epochs_have_lines_and_logged_steps_their_loss(
    transformers, options, tmp_path, capsys
):
    transformers_run(transformers.MemoryCallback(**options), tmp_path)
    reported = capsys.readouterr().out
    assert len(lines(reported, "Batch 0:")) == len(lines(reported, "Epoch end:")) == 2
    assert logged_iterations(tmp_path) == [2, 4, 6, 8]
    assert logged_batches(tmp_path) == ["2"] * 4
    (log,) = (tmp_path / "profiles").iterdir()
    assert len(re.findall(r"(?i)\bloss\b", log.read_text())) >= 4


@pytest.mark.slow
def test_transformers_off_leaves_no_trace(transformers, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    transformers_run(transformers.MemoryCallback({}), tmp_path)
    assert "Batch" not in capsys.readouterr().out
    assert not (tmp_path / "profiles").exists()


# Accelerate ---------------------------------------------------------------------------------------


def test_accelerate_logs_are_samples(options, tmp_path):
    import accelerate

    from plimsoll.integrations.accelerate import AccelerateTracker

    tracker = AccelerateTracker(**options)
    accelerator = accelerate.Accelerator(cpu=True, log_with=[tracker])
    accelerator.init_trackers("run", config={"lr": 0.1})
    assert accelerator.get_tracker("plimsoll") is tracker
    model = nn.Linear(4, 1)
    data = torch.utils.data.DataLoader(torch.randn(10, 4), batch_size=2)
    model, optimizer, data = accelerator.prepare(model, torch.optim.Adam(model.parameters()), data)
    for step, batch in enumerate(data):
        loss = model(batch).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        accelerator.log({"loss": loss.item()}, step=step)
    assert tracker.tracker.is_running
    accelerator.end_training()
    assert not tracker.tracker.is_running
    assert logged_iterations(tmp_path) == [0, 2, 4]
    assert logged_batches(tmp_path) == ["2"] * 3


@pytest.mark.slow
def test_the_older_name_of_lightning_is_used_if_imported(tmp_path):
    code = """
import pytorch_lightning as pl, torch, sys
from plimsoll.integrations.lightning import MemoryCallback
assert issubclass(MemoryCallback, pl.Callback)
assert "lightning.pytorch" not in sys.modules
class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
    def training_step(self, batch, _):
        return self.linear(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
trainer = pl.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
                     enable_progress_bar=False, enable_model_summary=False,
                     callbacks=[MemoryCallback(interval=1)])
trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(4, 4), batch_size=2))
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert len(lines(ran.stdout, "Epoch end:")) == 1
    assert logged_iterations(tmp_path) == [0, 1]
