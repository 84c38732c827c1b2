"""Hugging Face Accelerate: a tracker that samples memory when the program logs.

Example:
    accelerator = Accelerator(log_with=[AccelerateTracker()])
    accelerator.init_trackers("my_run")
    ...
    accelerator.log({"loss": loss}, step=step)
    accelerator.end_training()
"""

from __future__ import annotations

from typing import Any

from plimsoll._process.packages import needed
from plimsoll.config import Source
from plimsoll.integrations._loop import Loop

_GeneralTracker: Any = needed("accelerate.tracking", pip="accelerate").GeneralTracker
_state: Any = needed("accelerate.state", pip="accelerate")


class AccelerateTracker(_GeneralTracker):
    """Ends an iteration at each `Accelerator.log` of the main process.

    Accelerate calls trackers only on the main process; other ranks need a `TrainingMonitor`.

    Args:
        source: The source of the options: see `plimsoll.load_options`.
        loss: The name under which the program logs its loss.
        options: Individual options by name.
    """

    name = "plimsoll"
    requires_logging_directory = False

    def __init__(self, source: Source = None, *, loss: str = "loss", **options: object) -> None:
        super().__init__()
        self._loop = Loop(source, **options)
        self._loss = loss
        self._iterations = 0

    @property
    def tracker(self) -> Loop:
        return self._loop

    def start(self) -> None:
        self._loop.start()

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """Do nothing: the settings of the run are not needed."""

    def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
        self._loop.batch_has(_batch_size())
        iteration = self._iterations if step is None else step
        self._iterations = iteration + 1
        self._loop.iteration_end(iteration, values.get(self._loss))

    def finish(self) -> None:
        self._loop.stop()


def _batch_size() -> object:
    """Return the batch size of the data loader that this process iterates; None without one."""
    loader = _state.GradientState().active_dataloader
    total = getattr(loader, "total_batch_size", None)
    if not isinstance(total, int):
        return None
    each, left = divmod(total, _state.PartialState().num_processes)
    return each if left == 0 else None
