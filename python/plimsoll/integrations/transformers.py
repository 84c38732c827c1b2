"""Hugging Face Transformers: a callback of `Trainer`.

Example:
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[MemoryCallback()])
"""

from __future__ import annotations

from typing import Any

from plimsoll._process.packages import needed
from plimsoll.config import Source
from plimsoll.integrations._loop import Loop

_TrainerCallback: Any = needed("transformers", pip="transformers").TrainerCallback


class MemoryCallback(_TrainerCallback):
    """Monitors `Trainer.train` on each rank: lines of an epoch, samples, alerts.

    The trainer passes the loss to callbacks only at its logging steps (`logging_steps`), so other
    steps have no loss.

    Args:
        source: The source of the options: see `plimsoll.load_options`.
        options: Individual options by name.
    """

    def __init__(self, source: Source = None, **options: object) -> None:
        self._loop = Loop(source, **options)
        self._in_epoch = 0
        self._ended: int | None = None  # a step that has ended but was not reported yet

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._loop.start()
        # The trainer's own batch size for all GPUs of this process, if it has searched for one that
        # fits; else the configured one.
        items = getattr(state, "train_batch_size", None) or args.train_batch_size
        self._loop.batch_has(items // max(1, args.n_gpu))

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._in_epoch = 0
        self._loop.epoch_start()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._ended = state.global_step

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        self._report((logs or {}).get("loss"))

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._report(None)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._report(None)
        self._loop.epoch_end()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._report(None)
        self._loop.stop()

    def _report(self, loss: object) -> None:
        if self._ended is None:
            return
        self._loop.batch_end(self._in_epoch, loss)
        self._loop.iteration_end(self._ended, loss)
        self._in_epoch += 1
        self._ended = None
