"""``wandb: true``: logs the samples of a monitor to the active W&B run."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any

from plimsoll import _record
from plimsoll._process.messages import print_notice
from plimsoll._process.program_errors import leave_to_program
from plimsoll._record import MemorySample, MonitorOptions


class WandbLog:
    """Logs each sample of a monitor. If it cannot, prints the reason once; training continues."""

    def __init__(self, options: MonitorOptions) -> None:
        self._series = _record.ScalarSeries(options.tensorboard_section, options.top_layers)
        self._run: Any = None
        self._writer: Any = None
        self._has_complained = False

    def add(self, sample: MemorySample) -> None:
        try:
            if not self._follow_active_run():
                return
            for tag, value in self._series.next(sample):
                self._writer.add_scalar(tag, value, sample.iteration)
        except Exception as error:  # W&B may raise anything
            leave_to_program(error)
            self._complain(f"{type(error).__name__}: {error}")

    def _follow_active_run(self) -> bool:
        """Return the active run, which may begin after the monitor and be followed by another."""
        wandb: Any = sys.modules.get("wandb")
        run = getattr(wandb, "run", None)
        if run is None:
            if importlib.util.find_spec("wandb") is None:
                self._complain("the package is not installed: pip install wandb")
            elif _record.process_rank() in (None, 0):  # other ranks usually have no run
                self._complain("no run is active: call wandb.init() before the first sample")
            return False
        if run is not self._run:
            integration = importlib.import_module("plimsoll.integrations.wandb")
            self._run, self._writer = run, integration.Writer(run)
        return True

    def _complain(self, trouble: str) -> None:
        if self._has_complained:
            return
        self._has_complained = True
        print_notice(f"wandb: {trouble}; memory is not logged there")
