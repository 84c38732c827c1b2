"""Connects the training loop of any trainer to the monitors."""

from __future__ import annotations

from typing import Any

import plimsoll
from plimsoll.config import Source, load_options
from plimsoll.training_monitor import is_out_of_memory


class Loop:
    """The monitors that the options enable (perhaps none), from `start` to `stop`."""

    def __init__(self, source: Source = None, **options: object) -> None:
        self.options = load_options(source, **options)
        self._epochs: plimsoll.EpochMemoryMonitor | None = None
        self._monitor: plimsoll.TrainingMonitor | None = None

    @property
    def is_running(self) -> bool:
        return self._monitor is not None

    def start(self) -> None:
        """Start the monitors; do nothing if they run already."""
        if not self.options.enabled or self.is_running:
            return
        self._epochs = plimsoll.EpochMemoryMonitor(verbose_batches=self.options.verbose_batches)
        self._monitor = plimsoll.TrainingMonitor(self.options)
        self._monitor.__enter__()

    def epoch_start(self) -> None:
        if self._epochs is not None:
            self._epochs.on_epoch_start()

    def batch_has(self, items: object) -> None:
        """Set the number of items in a batch from now on; values other than numbers are ignored."""
        if self._monitor is None or self.options.batch_size > 0:  # the option takes precedence
            return
        if isinstance(items, int) and not isinstance(items, bool) and items > 0:
            self._monitor.set_batch_size(items)

    def batch_end(self, batch: int, loss: Any = None) -> None:
        if self._epochs is not None:
            self._epochs.on_batch_end(batch, loss)

    def iteration_end(self, iteration: int, loss: Any = None) -> None:
        if self._monitor is not None:
            self._monitor.step(iteration, loss)

    def epoch_end(self) -> None:
        if self._epochs is not None:
            self._epochs.on_epoch_end()

    def failed(self, error: BaseException) -> None:
        """Handle an iteration that raised; then stop the monitors."""
        if self._monitor is not None and is_out_of_memory(error):
            self._monitor.ran_out(error=error)
        self.stop()

    def stop(self) -> None:
        """Stop the monitors; do nothing if they do not run."""
        monitor, self._monitor, self._epochs = self._monitor, None, None
        if monitor is not None:
            monitor.close()
