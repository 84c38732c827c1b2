"""Weights & Biases: the scalars of memory next to those of the run.

Example:
    writer = Writer(wandb.init())
    for iteration in range(iterations):
        ...
        plimsoll.log_tensor_memory_breakdown(writer, iteration)
"""

from __future__ import annotations

from typing import Any

from plimsoll.integrations._packages import needed

_wandb: Any = needed("wandb", pip="wandb")

ITERATION = "plimsoll/iteration"


class Writer:
    """What a `SummaryWriter` is for TensorBoard, as far as scalars go.

    The values join the row that the program's next `run.log` completes, or make one of their own.
    Since W&B counts its steps otherwise than a monitor its iterations, these curves have an axis of
    their own, `plimsoll/iteration`.

    Args:
        run: As `wandb.init` returns it; default: the one that runs.
    """

    def __init__(self, run: Any = None) -> None:
        self._run = _wandb.run if run is None else run
        if self._run is None:
            raise RuntimeError("no W&B run is active: call wandb.init() first")
        self._known: set[str] = set()
        self._iteration: int | None = None
        self._step = -1  # W&B's, of the row that has this iteration
        self._run.define_metric(ITERATION, hidden=True)

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None) -> None:
        """As a `SummaryWriter` does."""
        if tag not in self._known:
            self._run.define_metric(tag, step_metric=ITERATION)
            self._known.add(tag)
        values = {tag: float(scalar_value)}
        if global_step is not None and global_step != self._iteration:
            if self._run.step == self._step:
                self._run.log({})  # ends the row of the iteration before
            self._iteration, self._step = global_step, self._run.step
            values[ITERATION] = global_step
        self._run.log(values, commit=False)

    def flush(self) -> None:
        """W&B sends what it has by itself."""

    def close(self) -> None:
        """The run is the program's to finish."""
