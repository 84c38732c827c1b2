"""Weights & Biases: memory scalars next to the scalars of the run.

Example:
    writer = Writer(wandb.init())
    for iteration in range(iterations):
        ...
        plimsoll.log_tensor_memory_breakdown(writer, iteration)
"""

from __future__ import annotations

from typing import Any

from plimsoll._process.packages import needed

_wandb: Any = needed("wandb", pip="wandb")

ITERATION = "plimsoll/iteration"


class Writer:
    """Writes scalars to W&B as a `SummaryWriter` writes them to TensorBoard.

    The values join the row that the program's next `run.log` completes, or get a separate row.
    W&B's steps differ from a monitor's iterations, so these curves have a separate axis,
    `plimsoll/iteration`.

    Args:
        run: The result of `wandb.init`; default: the active run.
    """

    def __init__(self, run: Any = None) -> None:
        self._run = _wandb.run if run is None else run
        if self._run is None:
            raise RuntimeError("no W&B run is active: call wandb.init() first")
        self._known: set[str] = set()
        self._iteration: int | None = None
        self._step = -1  # W&B's step of the row with this iteration
        self._run.define_metric(ITERATION, hidden=True)

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None) -> None:
        """Log a scalar, like `SummaryWriter.add_scalar`."""
        if tag not in self._known:
            self._run.define_metric(tag, step_metric=ITERATION)
            self._known.add(tag)
        values = {tag: float(scalar_value)}
        if global_step is not None and global_step != self._iteration:
            if self._run.step == self._step:
                self._run.log({})  # ends the row of the previous iteration
            self._iteration, self._step = global_step, self._run.step
            values[ITERATION] = global_step
        self._run.log(values, commit=False)

    def flush(self) -> None:
        """Do nothing: W&B sends its data by itself."""

    def close(self) -> None:
        """Do nothing: the program finishes the run."""
