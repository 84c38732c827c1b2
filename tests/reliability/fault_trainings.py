"""The training runs of `faults`, each with a different part of Plimsoll."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from collections.abc import Callable

STEPS = 3


class Training:
    """A training run in two threads, one of them new in each step."""

    def __init__(self, mode: str = "") -> None:
        import torch

        self.torch = torch
        self.device = "cuda" if mode == "cuda" else "cpu"
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
        ).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.losses: list[float] = []

    def validate(self, batch: object) -> None:
        with self.torch.no_grad():
            self.losses.append(float(self.model(batch).sum()))

    def run(self, after_step: Callable[[int, object], None]) -> list[float]:
        torch = self.torch
        for step in range(STEPS):
            batch = torch.randn(8, 16).to(self.device)
            loss = torch.nn.functional.mse_loss(self.model(batch), batch[:, :1])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            thread = threading.Thread(target=self.validate, args=(batch,))
            thread.start()
            thread.join()
            self.losses.append(float(loss.detach()))
            after_step(step, loss)
        return self.losses


def plain(mode: str) -> list[float]:
    return Training(mode).run(lambda step, loss: None)


def recorded(path: str, mode: str) -> list[float]:
    import plimsoll

    training = Training(mode)
    recording = None
    how = {"mode": "lite" if mode == "lite" else "full"}
    how["adapter"] = "python" if mode == "fallback" else "auto"
    try:
        recording = plimsoll.record(path, **how).start()
    except (plimsoll.Error, OSError, MemoryError) as error:
        print(f"plimsoll: no start: {error}", file=sys.stderr)

    def after_step(step: int, loss: object) -> None:
        plimsoll.step()
        with plimsoll.region(f"after {step}"):
            if recording is not None:
                recording.flush()

    losses = training.run(after_step)
    if recording is not None:
        recording.stop()
    return losses


def monitored(path: str) -> list[float]:
    import plimsoll

    training = Training()
    monitor = None
    folder = os.path.dirname(path)
    with contextlib.suppress(plimsoll.Error, OSError, MemoryError):
        monitor = plimsoll.TrainingMonitor(
            interval=1, output_dir=folder, tensorboard=True, record=path, nvtx=False
        )

    def after_step(step: int, loss: object) -> None:
        if monitor is not None:
            monitor.step(loss=loss)

    losses = training.run(after_step)
    if monitor is not None:
        monitor.close()
    plimsoll.stop_monitoring()
    return losses


def traced(path: str) -> list[float]:
    import plimsoll

    training = Training()
    tracer = plimsoll.MemoryTracer(device="cpu")
    blocks = contextlib.ExitStack()

    def begin() -> None:
        with contextlib.suppress(plimsoll.Error, OSError, MemoryError):
            blocks.enter_context(tracer.trace(training.model))

    def after_step(step: int, loss: object) -> None:
        blocks.close()
        begin()

    begin()
    losses = training.run(after_step)
    blocks.close()
    # Results are requested after the training, and may be unavailable.
    with contextlib.suppress(plimsoll.Error, OSError, MemoryError):
        tracer.get_layer_stats()
        tracer.export_timeline(f"{path}.json")
    return losses


def looped(path: str) -> list[float]:
    """A training run with the monitors that print lines."""
    import plimsoll

    training = Training()
    name = "longer than a string without memory of its own"
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            epochs, batches = plimsoll.EpochMemoryMonitor(), plimsoll.BatchMemoryProfiler()
            tracker = plimsoll.MemoryTracker()
        except (plimsoll.Error, OSError, MemoryError):
            return training.run(lambda step, loss: None)

        def after_step(step: int, loss: object) -> None:
            epochs.on_epoch_start()
            with plimsoll.track_memory(name):
                batches.checkpoint(name)
            tracker.record(name)
            epochs.on_batch_end(step, loss)
            epochs.on_epoch_end()
            batches.print_summary()
            plimsoll.log_tensor_memory_breakdown(None, step, 1, f"{path}.log")

        losses = training.run(after_step)
        tracker.print_summary()
        plimsoll.stop_monitoring()
    return losses


def trained(path: str, mode: str) -> list[float]:
    special = {"monitor": monitored, "tracer": traced, "loop": looped}
    return special[mode](path) if mode in special else recorded(path, mode)
