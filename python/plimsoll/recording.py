"""`record` records the memory of a run; `step` and `region` mark parts of it."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from plimsoll import _record
from plimsoll._cuda import cuda_hooks
from plimsoll._monitoring import live
from plimsoll._monitoring.profiler_ranges import nvtx_is_asked_for, profiled_range
from plimsoll._notebook import RecordingInNotebook
from plimsoll._process import recordings
from plimsoll._process.arguments import check_observation, flag, whole_number
from plimsoll._process.command_text import command_text
from plimsoll._process.messages import print_notice
from plimsoll._process.names import name_of
from plimsoll._process.paths import absolute, default_path
from plimsoll._process.program_errors import Suppressed, is_of_program, leave_to_program
from plimsoll._torch import attachment
from plimsoll._torch.hooks import Adapter, Attribution, Mode, Survey, Uses
from plimsoll.errors import Error, InvalidArgumentError

if TYPE_CHECKING:
    from plimsoll.trace import Trace

_steps = 0

# Walks through Python's heap for what holds the live memory: 180,000 objects take 0.1 s, 3 million
# 1.1 s. One that takes longer is incomplete, and its report says so.
WALK_MS = 1500


def record(
    path: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    max_events: int | None = None,
    stacks: bool = True,
    mode: Mode = "full",
    in_children: bool = False,
    adapter: Adapter = "auto",
    nvtx: bool | None = None,
    source_text: bool = True,
    uses: Uses = "auto",
    attribution: Attribution = "observer",
) -> Recording:
    """Record every tensor allocation of this process, in a ``with`` block.

    The recording begins at ``with`` or at `Recording.start`, and includes the memory that is live
    then.

    Args:
        path: The trace file. Default: ``plimsoll-SCRIPT-PID.plim`` in the current folder, with the
            rank in the name under torchrun. An existing file of that name is kept. The recording
            then goes to the next free name, ``train.2.plim`` for ``train.plim``. A line on stderr
            names it, and `Recording.path` is its path.
        overwrite: Replace an earlier trace of that name. Any other file is kept, and so is a trace
            that is still being recorded.
        max_events: Keep about the newest N events; earlier ones remain as totals.
        stacks: Record the Python line of each allocation.
        mode: ``"full"``, or ``"lite"``: only allocations, layers and phases, at a cost of a few
            nanoseconds per allocation; no operators, no lines, no temporaries.
        in_children: Also record forked children, each into ``PATH.PID``.
        adapter: ``"libtorch"`` compiles against the installed torch and raises if that fails.
            ``"python"`` needs no compiler and records less. ``"auto"`` uses the first of these that
            works, and never raises. ``"none"`` installs no hooks; other code reports allocations.
        nvtx: Send phases, layers, regions and steps as NVTX ranges, and the bytes of each device,
            to Nsight Systems. Default: the environment variable PLIMSOLL_MONITOR_NVTX, which
            ``plimsoll nsys`` sets. Requires ``mode="full"``; ``"lite"`` shows layers only.
        source_text: Store the text of the recorded lines when the recording ends, so that
            ``plimsoll diff`` recognizes them after an edit. If false, only hashes of them.
        uses: In which steps to record the last use of memory: ``"always"``; ``"sampled"``, the
            first three and every 64th; ``"never"``; or ``"auto"``: all of them if that costs at
            most 1 % of a step, else sampled. ``"lite"`` records none.
        attribution: How to find the operator of an allocation: ``"observer"``, by torch's observer
            of operators; or ``"native"``, by the native stack, at a fraction of the cost. Steps in
            which uses are recorded need the observer anyway. Where the native stack cannot be read,
            and where hooks of another recording are installed, the observer is used.

    Raises:
        AdapterError: `adapter` is ``"libtorch"`` and it is unavailable.
        InvalidArgumentError: An argument is invalid.
        OSError: The file cannot be written.

    Example:
        >>> with plimsoll.record("train.plim") as recording:  # doctest: +SKIP
        ...     train()
        >>> recording.report().print_summary(by=["layer"])  # doctest: +SKIP
    """
    return Recording(
        path,
        overwrite=overwrite,
        max_events=max_events,
        stacks=stacks,
        mode=mode,
        in_children=in_children,
        adapter=adapter,
        nvtx=nvtx,
        source_text=source_text,
        uses=uses,
        attribution=attribution,
    )


class Recording(RecordingInNotebook):
    """One recording, created by `plimsoll.record`. It can be started once.

    Attributes:
        path: The trace file; its final name once the recording has begun.
        state: Counters of the recorder, available after the recording has ended: ``events``
            (allocations, frees, segments and failed requests, as a report counts them),
            ``dropped``, ``written_bytes``…
        peaks: Peak of live bytes on each device, available after the end: ``{"cpu": 1024}``.
        failures: Number of times that each CUDA device ran out of memory while recording: ``{0:
            2}``.
    """

    _finds_holders = True  # at the end

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        *,
        overwrite: bool = False,
        max_events: int | None,
        stacks: bool = True,
        mode: Mode,
        in_children: bool = False,
        adapter: Adapter = "auto",
        nvtx: bool | None = None,
        source_text: bool = True,
        uses: Uses = "auto",
        attribution: Attribution = "observer",
    ) -> None:
        check_observation(mode, uses, adapter, attribution)
        if max_events is not None:
            max_events = whole_number("max_events", max_events, 1)
        self.path = absolute(default_path() if path is None else path)
        self.state: dict[str, int] = {}
        self.peak_bytes = 0
        self.peaks: dict[str, int] = {}
        self.failures: Counter[int] = Counter()
        self._overwrite = flag("overwrite", overwrite)
        self._max_events = max_events or 0
        self._stacks = flag("stacks", stacks)
        self._mode = mode
        self._uses: Uses = uses if mode == "full" else "never"
        self._attribution: Attribution = attribution
        self._in_children = flag("in_children", in_children)
        self._adapter = adapter
        self._source_text = flag("source_text", source_text)
        self._nvtx = nvtx_is_asked_for() if nvtx is None else nvtx
        self._last_survey: Survey = "all"
        self._recording: _record.Recording | None = None
        self._stop_lock = threading.RLock()
        self._shows_nvtx = False
        self._is_measured = False
        self._ended_by: BaseException | None = None  # an exception, which ends the program
        self._pid = 0

    def __repr__(self) -> str:
        state = "running" if self._recording is not None else "not started"
        peaks = "".join(f", peak {peak:,} bytes on {name}" for name, peak in self.peaks.items())
        state = f"{self.state['events']:,} events{peaks}" if self.state else state
        return f"<plimsoll.Recording {self.path!r}: {state}>"

    def start(self) -> Recording:
        """Start recording; return the recording itself."""
        if self._recording is not None or self.state:
            raise InvalidArgumentError("invalid_argument", "a recording can be started only once")
        kind = attachment.prepare(self._adapter, print_notice)
        try:
            self._begin(kind)
        except BaseException:
            recording, self._recording = self._recording, None
            if recording is not None:
                recording.stop()
            self._let_go()
            raise
        return self

    def _begin(self, kind: Adapter) -> None:
        self._attribution = attachment.attribution_of(
            kind, self._mode, self._attribution, print_notice
        )
        try:
            self._recording = self._open(kind)
        except RuntimeError as error:
            leave_to_program(error)
            raise OSError(str(error).rstrip(".")) from error
        self._pid = os.getpid()
        attachment.attach(
            self, kind, self._mode, self._stacks, self._uses, attribution=self._attribution
        )
        self._note_path(self._recording)
        recordings.add(self)
        live.begin(self)
        if self._nvtx:
            self._begin_nvtx()
        atexit.register(self._stop_at_exit)

    def _let_go(self) -> None:
        """Undo `_begin`, except for the recording. Can be called again after an interruption."""
        atexit.unregister(self._stop_at_exit)
        if self._shows_nvtx:
            self._shows_nvtx = False
            _record.stop_nvtx()
        live.end(self)
        attachment.detach(self)
        recordings.remove(self)

    def _note_path(self, recording: _record.Recording) -> None:
        path = os.fsdecode(recording.path())
        if path != self.path:
            print_notice(f"{self.path} exists; this run is recorded into {path}")
            self.path = path

    def _begin_nvtx(self) -> None:
        try:
            _record.start_nvtx()
            self._shows_nvtx = True
        except Error as error:
            if _record.may_print_nvtx_failure():
                print_notice(f"NVTX: {error}")

    def stop(self) -> None:
        """End the recording; the file is then complete. Ending it twice is harmless."""
        if self._pid != os.getpid():  # a forked child may lack the thread that holds the lock
            return
        with self._stop_lock:
            if self._recording is None:
                return
            try:
                self._end(self._recording)
            except BaseException as error:
                self._end(self._recording)  # exceptions of signal handlers are raised after this
                if not isinstance(error, MemoryError) or is_of_program(error):
                    raise

    def _end(self, recording: _record.Recording | None) -> None:
        """End the recording. Can be called again after an interruption."""
        if recording is not None and not self._is_measured:
            with Suppressed(MemoryError):  # the file also has these figures
                self._measure(recording)
            self._is_measured = True
        if recording is not None:
            self.state = self._close(recording)
            self._recording = None
        self._let_go()

    def _measure(self, recording: _record.Recording) -> None:
        recording.read_process()  # before the search for holders, which needs some megabytes
        attached = attachment.attached()
        if attached is not None:
            attached.survey(self._last_survey)  # records what no hook has reported
            if self._mode == "full" and self._finds_holders:
                attached.find_holders(WALK_MS, self._ended_by)
        cuda_hooks.attach_history(recording)
        self.peak_bytes = recording.peak_bytes(False)
        self.peaks = recording.peaks()

    def flush(self) -> None:
        """Wait until every event so far is in the file."""
        if self._recording is not None:
            self._recording.flush()

    def attach_cuda_history(self) -> None:
        """Attach torch's own allocator history to the file, if it replaces the CUDA adapter."""
        if self._recording is not None:
            cuda_hooks.attach_history(self._recording)

    def pins(self, device: int) -> tuple[dict[str, int], list[dict[str, object]]]:
        """Return figures of the last failed request on a device, from the recorder alone."""
        device = whole_number("device", device, 0, 255)
        return self._recording.pins(device) if self._recording is not None else ({}, [])

    def since_step(self, device: int) -> tuple[int, dict[str, int]] | None:
        """Return the last step that ended, and the growth of live bytes since, by role."""
        device = whole_number("device", device, 0, 255)
        return self._recording.since_step(device) if self._recording is not None else None

    def holders(self) -> list[dict[str, Any]]:
        """Look now for what holds the live memory, by following references (docs/holders.md).

        Runs no code of the program. Takes 0.1 to 0.3 s, at most 1.5 s.

        Returns:
            For each device, a row for each of the 20 holders of most bytes and one for the rest:
            ``key``, such as ``"trainer.losses"``; ``device``, -1 for the CPU; ``bytes``, ``count``
            and ``largest_bytes`` of what it holds. Empty without the compiled adapter.

        Raises:
            InvalidArgumentError: The recording does not run.
        """
        if self._recording is None:
            message = "the recording does not run: call holders() in its with block"
            raise InvalidArgumentError("invalid_argument", message)
        attached = attachment.attached()
        if attached is not None:
            attached.survey(self._last_survey)
            attached.find_holders(WALK_MS)
        rows: list[dict[str, Any]] = self.report().ask(at="end").tables["by_holder"]
        return rows

    def report(self) -> Trace:
        """Return the recording so far, read and analyzed; best after the recording has ended.

        Raises:
            InvalidArgumentError: The recording has not been started.
        """
        from plimsoll.trace import open as open_trace

        if self._recording is None and not self.state:
            message = "the recording was not started: use it in a with block"
            raise InvalidArgumentError("invalid_argument", message)
        self.attach_cuda_history()
        self.flush()
        return open_trace(self.path)

    def __enter__(self) -> Recording:
        try:
            return self.start()
        except BaseException:
            self.stop()  # a signal handler raised an exception after the start
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended_by = error
        try:
            self.stop()
        finally:
            self._ended_by = None

    def _stop_at_exit(self) -> None:
        self._ended_by = getattr(sys, "last_value", None)  # set by the interpreter's last message
        with Suppressed(Exception):
            self.stop()

    def _open(self, kind: str) -> _record.Recording:
        return _record.Recording(
            os.fsencode(self.path),
            self._overwrite,
            self._max_events,
            self._in_children,
            False,
            self._source_text,
            self._meta(kind),
        )

    def _close(self, recording: _record.Recording) -> dict[str, int]:
        return recording.stop()

    def _meta(self, kind: str) -> dict[str, str]:
        """Return the metadata for the head of the file."""
        meta = {
            "adapter": kind,
            "mode": self._mode,
            "uses": self._uses if kind == "libtorch" else "never",
            "attribution": self._attribution if kind == "libtorch" else "observer",
            "command": command_text(sys.argv),
            "pid": str(os.getpid()),
            "python": sys.version.split()[0],
            "collections": "marked",
            "host": os.uname().nodename,
        }
        if "torch" in sys.modules:
            torch = sys.modules["torch"]
            meta["torch"] = str(torch.__version__)
            if hasattr(torch, "get_num_threads"):  # torch may still be importing
                meta["threads"] = str(torch.get_num_threads())
        return meta


class MemoryRecording(Recording):
    """A recording in memory that marks layer calls; for `MemoryTracer`.

    Attributes:
        trace: The content of the trace file, once the recording has ended.
    """

    _finds_holders = False  # its results are about layers

    def __init__(self, *, max_events: int, mode: Mode, uses: Uses) -> None:
        super().__init__("/MemoryTracer", max_events=max_events, mode=mode, uses=uses)
        self.path = "MemoryTracer"
        self.trace = b""
        self._last_survey = "new"

    def _note_path(self, recording: _record.Recording) -> None:
        """Return None: a recording in memory has no path."""

    def _note_process(self) -> None:
        """Return None: the model is traced, not the process."""

    def _open(self, kind: str) -> _record.Recording:
        return _record.Recording(b"", False, self._max_events, False, True, True, self._meta(kind))

    def _close(self, recording: _record.Recording) -> dict[str, int]:
        state, self.trace = recording.take()
        return state


def step() -> None:
    """End a step of the training loop. Without it, each step of the first optimizer ends one.

    Does nothing while nothing is recorded.
    """
    global _steps
    attached = attachment.attached()
    if attached is not None:
        attached.user_marks_steps()
        attachment.switch_if_ready(print_notice)
    if _record.is_recording():
        cuda_hooks.renew()
        _steps += 1
        _record.mark_step(_steps)


@contextlib.contextmanager
def region(name: str) -> Iterator[None]:
    """Name a part of the program, such as ``"validation"``, in a ``with`` block.

    Example:
        >>> with plimsoll.region("validation"):
        ...     pass
    """
    name = name_of(name)
    with Suppressed(MemoryError):  # if the begin fails, the end has no effect
        _record.begin_region(name)
    try:
        with profiled_range(name):
            yield
    finally:
        with Suppressed(MemoryError):
            _record.end_region(name)
