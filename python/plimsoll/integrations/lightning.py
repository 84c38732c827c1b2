"""Lightning: a callback, for `lightning` and for `pytorch_lightning`, whichever is in use.

Example:
    trainer = Trainer(callbacks=[MemoryCallback("config.yaml")])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plimsoll._process.packages import needed
from plimsoll.config import Source
from plimsoll.integrations._loop import Loop

_Callback: Any = needed("lightning.pytorch", "pytorch_lightning", pip="lightning").Callback


class MemoryCallback(_Callback):
    """Monitors `Trainer.fit` on each rank: lines of an epoch, samples, alerts.

    Args:
        source: The source of the options: see `plimsoll.load_options`.
        options: Individual options by name.
    """

    def __init__(self, source: Source = None, **options: object) -> None:
        super().__init__()
        self._loop = Loop(source, **options)

    @property
    def is_running(self) -> bool:
        """Return whether the monitors run."""
        return self._loop.is_running

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self._loop.start()

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._loop.epoch_start()

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        self._loop.batch_has(getattr(trainer.train_dataloader, "batch_size", None))

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        self._loop.batch_end(batch_idx, loss)
        self._loop.iteration_end(trainer.fit_loop.total_batch_idx, loss)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._loop.epoch_end()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._loop.stop()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._loop.failed(exception)
