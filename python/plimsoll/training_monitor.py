"""`TrainingMonitor`: samples in a training loop, for the text log, TensorBoard and alerts."""

from __future__ import annotations

import atexit
import operator
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

from plimsoll import _record
from plimsoll._monitoring.holders import answer, holder_of
from plimsoll._monitoring.profiler_ranges import profiled_mark
from plimsoll._monitoring.snapshots import Snapshots
from plimsoll._monitoring.wandb_log import WandbLog
from plimsoll._monitoring.watch import watch
from plimsoll._process import recordings
from plimsoll._process.arguments import bad_argument, whole_number
from plimsoll._process.messages import print_notice
from plimsoll._process.names import name_of, text_of
from plimsoll._process.paths import of_rank
from plimsoll._process.program_errors import Suppressed, leave_to_program
from plimsoll._record import MemoryAlert, MonitorOptions
from plimsoll._torch import attachment
from plimsoll._torch.hooks import Mode
from plimsoll.config import Source, load_options
from plimsoll.errors import Error
from plimsoll.recording import Recording, record


class TrainingMonitor:
    """Monitor a training loop.

    Each sample has tensor memory by category, layer and dtype, the peak since the previous sample,
    and the memory of host and devices. Samples go to the text log
    ``OUTPUT_DIR/profiles/tensor_profile_TIMESTAMP.log`` (read it with ``plimsoll analyze latest``)
    and, with `tensorboard`, to TensorBoard. A line on stderr states where. Alerts go to stderr or
    to `on_alert`. After the monitor has been created, its failures never stop the training.

    Args:
        config: A YAML file, dict, Hydra object or parsed flags; see `load_options`.
        on_alert: Called with each `MemoryAlert`, instead of a message on stderr.
        **options: Options by name, as in docs/monitoring-reference.md.

    Raises:
        Error: The configuration is invalid; the message states the place.

    Example:
        >>> with plimsoll.TrainingMonitor(interval=100) as monitor:  # doctest: +SKIP
        ...     for batch in loader:
        ...         loss = train(batch)
        ...         monitor.step(loss=loss)
    """

    def __init__(
        self,
        config: Source = None,
        *,
        on_alert: Callable[[MemoryAlert], None] | None = None,
        **options: object,
    ) -> None:
        if on_alert is not None and not callable(on_alert):
            raise bad_argument("on_alert", on_alert, "it must be callable")
        self.options: MonitorOptions = load_options(config, **options)
        self._is_open = self.options.enabled
        self._pid = os.getpid()
        self._next = 0  # iteration
        self._has_reported_iteration = self._has_reported_batch_size = False
        self._recording: Recording | None = None
        if self.options.enabled:
            self._begin()
        snapshots = Snapshots(_adapter(self.options))
        self._monitor = _record.TrainingMonitor(self.options, snapshots.begin, snapshots.end)
        self._monitor.find_holders(holder_of)
        if on_alert is not None:
            self._monitor.on_alert(on_alert)
        if self.options.enabled and self.options.wandb:
            self._monitor.on_sample(WandbLog(self.options).add)
        self._print_places()

    def _begin(self) -> None:
        options = self.options
        if options.interval == 0 and not options.phases:
            message = "interval is 0 and there are no phases: no iteration is sampled"
            print_notice(message)
        if options.fail_on_alert:
            atexit.register(self._exit_with_failure)
        if options.record:
            self._attempt(self._begin_recording)
        mode: Mode = "full" if options.nvtx else "watch"
        uses: Any = options.uses
        self._attempt(lambda: watch(mode, _adapter(options), uses=uses))
        self._prepare_for(0)

    def _begin_recording(self) -> None:
        path = of_rank(self.options.record)
        self._recording = record(path, adapter=_adapter(self.options))
        self._recording.start()

    def _print_places(self) -> None:
        """Print where the samples will be, unless there are none or this rank prints no lines."""
        if self.options.interval == 0 and not self.options.phases:
            return
        places = [self.text_log_path, os.path.dirname(self.event_file_path)]
        written = [place for place in places if place and os.path.exists(place)]
        if written and _record.printed_by_rank("") is not None:
            print_notice(f"samples are written to {' and '.join(written)}")

    @staticmethod
    def _attempt(action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:
            leave_to_program(error)
            kind = "" if isinstance(error, Error | OSError) else f"{type(error).__name__}: "
            print_notice((kind + text_of(error)).rstrip(": "))

    def step(
        self, iteration: int | None = None, loss: Any = None, *, batch_size: int | None = None
    ) -> None:
        """End an iteration; take a sample if one is due.

        Args:
            iteration: Number of the iteration. Default: iterations are counted from 0.
            loss: A number or a tensor, which is read only if a sample is due.
            batch_size: Number of items in this batch and the following ones, if it differs from
                the option `batch_size`.
        """
        if batch_size is not None:
            self._take_batch_size(batch_size)
        if iteration is not None:
            iteration, loss = self._read_iteration(iteration, loss)
        number = self._next if iteration is None else iteration
        self._next = number + 1
        if self._is_open and self._pid == os.getpid() and self.options.is_due(number):
            attachment.describe()
        with Suppressed(MemoryError):  # skip the sample; the training continues
            self._monitor.step(iteration, loss)
        profiled_mark("step" if iteration is None else f"step {iteration}")
        if self._is_open:
            self._attempt(answer)
            attachment.switch_if_ready(print_notice)
        self._prepare_for(number + 1)

    def _take_batch_size(self, items: Any) -> None:
        """Report a value that is not a whole number once; an error must not stop the training."""
        try:
            self.set_batch_size(items)
        except Error as error:
            if not self._has_reported_batch_size:
                self._has_reported_batch_size = True
                message = f"TrainingMonitor.step(): {error}"
                print_notice(message)

    def _read_iteration(self, iteration: Any, loss: Any) -> tuple[int | None, Any]:
        """Use a value that is not a whole number as the loss; never stop the training."""
        try:
            number: int = operator.index(iteration)
            return number if abs(number) < 2**62 else None, loss  # too large for a log
        except (TypeError, ValueError, RuntimeError) as error:
            leave_to_program(error)
        if not self._has_reported_iteration:
            self._has_reported_iteration = True
            message = (
                f"TrainingMonitor.step() got a {type(iteration).__name__} as the"
                " iteration. It is used as the loss, and iterations are counted: pass it as loss=…"
            )
            print_notice(message)
        return None, iteration if loss is None else loss

    def _prepare_for(self, iteration: int) -> None:
        """Observe operators in this iteration if it ends in a sample.

        Uses are observed two iterations earlier, so that no use of the last two steps is missed.
        """
        if self._is_open and self.options.profile_tensors:
            attachment.observe(self.options.is_due(iteration))
        if self._is_open and self.options.uses in ("auto", "sampled"):
            is_near = any(self.options.is_due(iteration + ahead) for ahead in range(3))
            attachment.observe_uses(self, is_near)

    def set_batch_size(self, items: int) -> None:
        """Set the number of items in a batch from now on; 0: unknown."""
        self._monitor.set_batch_size(whole_number("batch_size", items, 0))

    def ran_out(self, iteration: int | None = None, *, error: BaseException | None = None) -> None:
        """Report that the current iteration ran out of memory.

        Takes a last sample. If the batch size is known, the alert states the batch that would fit.
        A ``with`` block of the monitor calls this automatically.

        Args:
            iteration: Number of the iteration. Default: the one after the last `step`.
            error: The exception, whose text may name the device that ran out of memory. Without it
                the fullest device is assumed.
        """
        if iteration is not None:
            iteration = whole_number("iteration", iteration)
        reported = "" if error is None else f"{type(error).__name__}: {text_of(error)}"
        if self._is_open:
            attachment.describe()
        with Suppressed(MemoryError):
            self._monitor.ran_out(iteration, name_of(reported))

    def close(self) -> None:
        """Stop sampling. The hooks stay until `stop_monitoring` or the end of the process."""
        if not self._is_open:
            return
        if self.options.profile_tensors:
            attachment.observe(False)
        attachment.observe_uses(self, False)
        self._is_open = False
        with Suppressed(MemoryError):
            self._monitor.close()
        if self._recording is not None:
            self._recording.stop()

    @property
    def text_log_path(self) -> str:
        """The path of the text log; empty if there is none."""
        return self._monitor.text_log_path

    @property
    def event_file_path(self) -> str:
        """The path of the TensorBoard event file; empty if there is none."""
        return self._monitor.event_file_path

    @property
    def samples(self) -> int:
        """The number of samples taken."""
        return self._monitor.samples

    @property
    def alerts(self) -> int:
        """The number of alerts raised."""
        return self._monitor.alerts

    def _exit_with_failure(self) -> None:
        """Change the exit code at exit. Python offers no other way."""
        if self._pid != os.getpid() or not self._monitor.should_fail:
            return
        self.close()
        recordings.stop_all()
        count = f"{self.alerts} memory alert{'' if self.alerts == 1 else 's'}"
        print_notice(f"exit code 1: {count}")
        if "logging" in sys.modules:  # a normal exit flushes its files
            sys.modules["logging"].shutdown()
        for stream in (sys.stdout, sys.stderr):
            with Suppressed(Exception):
                stream.flush()
        os._exit(1)

    def __enter__(self) -> TrainingMonitor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if is_out_of_memory(error):
            self._attempt(lambda: self.ran_out(error=error))
        self._attempt(self.close)  # an error here must not replace the program's


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether this is an out-of-memory error of Python or torch."""
    if isinstance(error, MemoryError):
        return True
    # torch.OutOfMemoryError is a RuntimeError, and the CPU's allocator raises nothing more
    # specific.
    reported = text_of(error) if isinstance(error, RuntimeError) else ""
    return "out of memory" in reported or "can't allocate memory" in reported


def _adapter(options: MonitorOptions) -> Any:
    return options.adapter
