"""Six demonstrations of the monitoring tools, on a small model; needs torch.

    python -m plimsoll.examples                # all six, in a few seconds
    python -m plimsoll.examples decorators     # one, by its name

They use a GPU if torch finds one; otherwise they show host memory.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import plimsoll

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


def simple_measurements() -> None:
    """Measure memory at one point of a program."""
    plimsoll.MemoryMonitor.print_memory_usage("Before model creation: ")
    model = _model()
    plimsoll.MemoryMonitor.print_memory_usage("After model creation: ")
    print(f"CPU memory in MB: {plimsoll.MemoryMonitor.get_cpu_memory_mb():.1f}")
    print(f"GPU memory in MB: {plimsoll.MemoryMonitor.get_gpu_memory_mb():.1f}")
    for name, value in plimsoll.MemoryMonitor.get_memory_summary().items():
        print(f"{name}: {'unknown' if value is None else f'{value:.1f}'}")
    del model


def multi_checkpoint_tracking() -> None:
    """Compare several points of a program."""
    tracker = plimsoll.MemoryTracker()
    tracker.record("initialization")
    model = _model()
    tracker.record("after_model_creation")
    for data in _batches(2):
        _train(model, data)
    tracker.record("after_training")
    del model
    tracker.record("after_deleting_the_model")
    tracker.print_summary()


def context_managers() -> None:
    """Measure a block: the change in memory, and the peak."""
    with plimsoll.track_memory("loading dataset"):
        data = list(_batches(8))
    with plimsoll.track_memory("training"):
        model = _model()
        for batch in data:
            _train(model, batch)


def decorators() -> None:
    """Measure each call of a function."""

    @plimsoll.monitor_memory("training epoch")
    def train_epoch(model: Module) -> None:
        for data in _batches(4):
            _train(model, data)

    @plimsoll.monitor_memory()
    def validate(model: Module) -> None:
        for data in _batches(1):
            model(data)

    model = _model()
    train_epoch(model)
    validate(model)


def epoch_monitoring() -> None:
    """Print the first batches of each epoch, and its peak."""
    monitor = plimsoll.EpochMemoryMonitor(enabled=True, verbose_batches=3)
    model = _model()
    for _ in range(2):
        monitor.on_epoch_start()
        for batch_idx, data in enumerate(_batches(5)):
            loss = _train(model, data)
            monitor.on_batch_end(batch_idx, loss)
        monitor.on_epoch_end()


def batch_profiling() -> None:
    """Show where memory goes within a batch."""
    import torch

    model = _model()
    optimizer = torch.optim.Adam(model.parameters())
    profiler = plimsoll.BatchMemoryProfiler(enabled=True)
    for batch_idx in range(3):
        if batch_idx >= 2:
            profiler.disable()  # prints nothing for the third batch
        profiler.checkpoint("start")
        data = next(_batches(1))
        profiler.checkpoint("data_to_device")
        loss = _loss(model, data)
        profiler.checkpoint("forward")
        loss.backward()
        profiler.checkpoint("backward")
        optimizer.step()
        optimizer.zero_grad()
        profiler.checkpoint("optimizer")
        profiler.print_summary()
        profiler.reset()


DEMONSTRATIONS: dict[str, Callable[[], None]] = {
    demonstration.__name__: demonstration
    for demonstration in (
        simple_measurements,
        multi_checkpoint_tracking,
        context_managers,
        decorators,
        epoch_monitoring,
        batch_profiling,
    )
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the named demonstrations, or all of them."""
    parser = argparse.ArgumentParser(
        prog="python -m plimsoll.examples",
        description="Demonstrations of the monitoring tools.",
        epilog="names: " + ", ".join(DEMONSTRATIONS),
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones (default: all)")
    names = parser.parse_args(argv).names or list(DEMONSTRATIONS)
    for name in names:
        if name not in DEMONSTRATIONS:
            parser.error(f"no demonstration {name!r}; choose from: {', '.join(DEMONSTRATIONS)}")
    try:
        import torch
    except ModuleNotFoundError:
        sys.exit("plimsoll.examples: torch is not installed (pip install torch)")
    torch.manual_seed(0)
    for number, name in enumerate(names, 1):
        title = name.replace("_", " ").capitalize()
        print(f"{'' if number == 1 else chr(10)}=== {number}. {title} ===")
        print(DEMONSTRATIONS[name].__doc__)
        DEMONSTRATIONS[name]()


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _model() -> Module:
    """A perceptron of 8 MB."""
    from torch import nn

    layers = nn.Sequential(nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 1024))
    return layers.to(_device())


def _batches(count: int) -> Iterator[Tensor]:
    """Yield `count` batches of 2 MB."""
    import torch

    for _ in range(count):
        yield torch.randn(512, 1024).to(_device())


def _loss(model: Module, data: Tensor) -> Tensor:
    from torch.nn import functional

    return functional.mse_loss(model(data), data)


def _train(model: Module, data: Tensor) -> float:
    """Take one step of gradient descent; return the loss."""
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.zero_grad()
    loss = _loss(model, data)
    loss.backward()
    optimizer.step()
    return loss.item()


if __name__ == "__main__":
    main()
