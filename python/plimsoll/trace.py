"""An opened recording: its report as plain data, its findings, its exports."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from plimsoll import _core
from plimsoll._core import Table
from plimsoll._notebook import TraceInNotebook
from plimsoll._process.arguments import flag, text, whole_number
from plimsoll._process.paths import path_text
from plimsoll._process.replaced_file import is_same_file, write_replacing
from plimsoll.errors import Error, InvalidArgumentError

Progress = Callable[[str, int, int], object]
"""Called with (stage, done, total) while a file is read; total is 0 if unknown."""


class ExportFormat(NamedTuple):
    """A format that `Trace.export` writes."""

    name: str
    description: str
    suffix: str


def export_formats() -> list[ExportFormat]:
    """Return the formats that `Trace.export` writes.

    Example:
        >>> [format.name for format in plimsoll.export_formats() if format.suffix == ".folded"]
        ['collapsed']
    """
    return [ExportFormat(*each) for each in _core.export_formats()]


class Trace(TraceInNotebook):
    """One recording and one question about it. Returned by `plimsoll.open`; immutable.

    The file is read once. Analyses run when their answers are first needed; tables such as `events`
    need no analysis. `ask` asks another question about the same recording.

    Example:
        >>> trace = plimsoll.open(path)
        >>> trace.report["source"]["format"]
        'torch_snapshot'
        >>> for finding in trace.findings:  # also "title", "evidence", "steps"
        ...     print(finding["severity"], finding["id"])
        critical out_of_memory
        warning memory_growth
    """

    def __init__(
        self,
        session: _core.Session,
        question: tuple[str, str, int] = ("", "", 20),
        progress: Progress | None = None,
        tables: dict[str, Table] | None = None,
        path: str | None = None,
    ) -> None:
        self._session = session
        self._path = path  # of the recording; None if it is not a file
        self._question = question
        self._progress = progress
        self._tables = {} if tables is None else tables
        self._answer: _core.Report | None = None
        self._report: dict[str, Any] | None = None
        if question[0] or question[1]:  # may be invalid: raise now
            self._answered()

    def _answered(self) -> _core.Report:
        if self._answer is None:
            self._answer = self._session.ask(*self._question, self._progress)
        return self._answer

    def ask(
        self,
        *,
        device: str | int | None = None,
        at: str | int | None = None,
        top: int = 20,
        progress: Progress | None = None,
    ) -> Trace:
        """Ask another question about the same recording. Nothing is read again.

        Only analyses that depend on the options that differ run again.

        Args:
            device: As in `plimsoll.open`, like the other arguments.
            at: The point in time of the tables.
            top: Number of rows to keep in each table.
            progress: Called regularly with (stage, done, total). Raise an exception from it to
                stop.

        Raises:
            InvalidArgumentError: The recording has no such device or point in time.

        Example:
            >>> peak = plimsoll.open(path)
            >>> end = peak.ask(at="end", top=5)
            >>> end.tables["points_in_time"][0]["name"]
            'end'
        """
        question = _question(device, at, top)
        return Trace(self._session, question, progress, self._tables, self._path)

    @property
    def report(self) -> dict[str, Any]:
        """The whole report: the object that ``plimsoll report --json`` prints.

        Sizes are bytes, times are nanoseconds; docs/report.schema.json describes every key.
        """
        if self._report is None:
            self._report = json.loads(self._answered().json())
        return self._report

    @property
    def devices(self) -> list[dict[str, Any]]:
        """Totals of each device in the recording: baseline, peak and end, in bytes."""
        devices: list[dict[str, Any]] = self.report["devices"]
        return devices

    @property
    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """The composition of the memory: rows by line, stack, size and so on, largest first."""
        tables: dict[str, list[dict[str, Any]]] = self.report["tables"]
        return tables

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Findings, most severe first, with title, evidence, next step and saved bytes."""
        findings: list[dict[str, Any]] = self.report["findings"]
        return findings

    @property
    def events(self) -> Table:
        """The events: one row each, device by device, in the order of the recording.

        Example:
            >>> import pyarrow
            >>> events = pyarrow.table(trace.events)
            >>> events.column_names[:5]
            ['device', 'event', 'action', 'address', 'size_bytes']
            >>> events.num_rows == trace.report["source"]["events"]
            True
        """
        return self._table("events")

    @property
    def lifetimes(self) -> Table:
        """The allocations from alloc to free, as event numbers on their device.

        One batch per device; ``size_bytes`` is the requested size. An event is null if the
        allocation is older than the recording or outlives it.
        """
        return self._table("lifetimes")

    @property
    def segments(self) -> Table:
        """The segments that the allocator had reserved at the end; sizes in bytes."""
        return self._table("segments")

    @property
    def blocks(self) -> Table:
        """The blocks of the segments at the end, in the order of their addresses; in bytes."""
        return self._table("blocks")

    @property
    def stacks(self) -> Table:
        """The distinct stacks: rows of `frames`, innermost first, and the line in reports."""
        return self._table("stacks")

    @property
    def marks(self) -> Table:
        """The begin and end of steps, regions and backward passes, among each device's events."""
        return self._table("marks")

    @property
    def timeline(self) -> Table:
        """Allocations, frees and calls of layers in order, each with the device's totals after it.

        Only the blocks of a `MemoryTracer` have calls of layers.
        """
        return self._table("timeline")

    @property
    def frames(self) -> Table:
        """The distinct frames: ``file``, ``function``, ``line``."""
        return self._table("frames")

    @property
    def sites(self) -> Table:
        """The sites of events, to which `events` refer: stack, layer, operators, phase, stream."""
        return self._table("sites")

    @property
    def tensors(self) -> Table:
        """The known tensors: ``name``, ``dtype``, ``shape``."""
        return self._table("tensors")

    @property
    def steps(self) -> Table:
        """The ends of the steps, on each device."""
        return self._table("steps")

    @property
    def settings(self) -> Table:
        """The settings of the CUDA allocator, as far as the file has them."""
        return self._table("settings")

    @property
    def readings(self) -> Table:
        """The driver's figures for each device while the program ran; sizes in bytes."""
        return self._table("readings")

    def _table(self, name: str) -> Table:
        if name not in self._tables:
            self._tables[name] = _core.table(self._session, name)
        return self._tables[name]

    def summary(
        self, *, by: Sequence[str] = (), top: int = 10, width: int = 100, color: bool = False
    ) -> str:
        """Return the report as ``plimsoll report --full`` prints it, findings first.

        Args:
            by: The tables to print: ``"line"``, ``"stack"``, ``"size"``, ``"layer"``…
                Default: line; for native recordings category, layer and line.
            top: Rows of each table; at most the number that `plimsoll.open` kept.
            width: Columns of the text, 60 at least.
            color: Whether to add escape sequences for a terminal.

        Raises:
            InvalidArgumentError: `by` names no table, or `top` is not positive.
        """
        if isinstance(by, str):
            by = [by]
        tables = [text("by", each) for each in by]
        columns, rows = whole_number("width", width, 0), whole_number("top", top, 1)
        return self._answered().text(columns, rows, tables, flag("color", color))

    def print_summary(self, *, by: Sequence[str] = (), top: int = 10) -> None:
        """Print `summary`, in color if standard output is a terminal."""
        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        width = shutil.get_terminal_size((100, 24)).columns if color else 100
        print(self.summary(by=by, top=top, width=max(width, 60), color=color), end="")

    def export(self, path: str | os.PathLike[str], format: str | None = None) -> None:
        """Write the recording in another format.

        The file appears when it is complete; an existing file is kept until then.

        Args:
            path: The file to write.
            format: A name of `plimsoll.export_formats`. Default: the format of `path`'s suffix.

        Raises:
            InvalidArgumentError: There is no such format, `path` has no known suffix, or it is the
                recording itself.
            OSError: The file cannot be written.
        """
        target = path_text(path)
        name = text("format", format) if format is not None else _format_of(target)
        if self._path is not None and is_same_file(target, self._path):
            raise InvalidArgumentError(
                "invalid_argument", f"{target} is the recording itself; give another path"
            )
        write_replacing(target, lambda write: self._session.export_to(name, write, *self._question))

    def to_parquet(self, folder: str | os.PathLike[str]) -> list[str]:
        """Write all tables, such as `events`, as Parquet files, compressed with zstd.

        A table of the folder is replaced when the new one is complete. Rows are in the order of the
        tables' keys: device, then event, step or row number. Needs pyarrow.

        Args:
            folder: It gets ``events.parquet``, ``lifetimes.parquet`` and so on.

        Returns:
            The paths of the files.

        Raises:
            ImportError: pyarrow is not installed.
            OSError: The files cannot be written.
        """
        from plimsoll._parquet import write_tables

        target = path_text(folder)
        return write_tables({name: self._table(name) for name in _core.table_names()}, target)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        source = self.report["source"]
        devices = ", ".join(map(device_name, self.devices)) or "no device"
        verdict = self.findings[0]["title"] if self.findings else "nothing found wrong"
        facts = f"{source['events']:,} events on {devices}"
        return f"<plimsoll.Trace {source['path']!r}: {facts}; {verdict}>"


def open(
    path: str | os.PathLike[str],
    *,
    device: str | int | None = None,
    at: str | int | None = None,
    top: int = 20,
    progress: Progress | None = None,
) -> Trace:
    """Open a native recording, a PyTorch snapshot or a torch.profiler trace.

    The format is detected from the content. No file can run code. The call reads the file; the
    analyses run when the report is first needed, or in this call if `device` or `at` is given.
    Other Python threads keep running, and Ctrl-C stops the call.

    Args:
        path: The file; may be compressed with gzip.
        device: Analyze only this one: ``"cuda:0"``, ``0``, ``"cpu"``. Default: all.
        at: The point in time of the tables: ``"peak"`` (default), ``"start"``, ``"end"``,
            ``"oom"`` (the last failure; ``"oom:1"`` is the first), ``"step:9"`` (the peak
            within that step), an event number, or a time since the first event, such as
            ``"1.5s"``.
        top: Number of rows to keep in each table.
        progress: Called regularly with (stage, done, total). Raise an exception from it to stop.

    Returns:
        The trace.

    Raises:
        NotFoundError: There is no such file. Also a ``FileNotFoundError``.
        NoPermissionError: The file may not be read. Also a ``PermissionError``.
        UnreadableError: It is not a recording, is damaged, or asks to run code.
        InvalidArgumentError: There is no such device or point in time. Also a ``ValueError``.

    Example:
        >>> trace = plimsoll.open(path, at="end", top=5)
        >>> trace.devices[0]["requested_allocated"]["peak_bytes"] > 0
        True
    """
    file = path_text(path)
    asked = _question(device, at, top)
    try:
        session = _core.open(os.fsencode(file), progress)
        return Trace(session, asked, progress, path=os.path.abspath(file))
    except Error as error:
        if isinstance(error, OSError):
            error.filename = file
        raise


def open_bytes(
    data: bytes | bytearray | memoryview,
    *,
    name: str = "<bytes>",
    device: str | int | None = None,
    at: str | int | None = None,
    top: int = 20,
    progress: Progress | None = None,
) -> Trace:
    """Read and analyze a recording in memory.

    Args:
        data: The content of the file.
        name: Replaces the path in messages and in the report.
        device: As in `open`, like the other arguments.
        at: The point in time of the tables.
        top: Number of rows to keep in each table.
        progress: Called regularly with (stage, done, total). Raise an exception from it to stop.

    Raises:
        UnreadableError: It is not a recording, is damaged, or asks to run code.
        InvalidArgumentError: There is no such device or point in time. Also a ``ValueError``.

    Example:
        >>> data = pathlib.Path(path).read_bytes()
        >>> plimsoll.open_bytes(data).devices == plimsoll.open(path).devices
        True
    """
    asked = _question(device, at, top)
    session = _core.open_bytes(bytes(data), text("name", name), progress)
    return Trace(session, asked, progress)


def _question(device: str | int | None, at: str | int | None, top: int) -> tuple[str, str, int]:
    top = whole_number("top", top, 0)
    return "" if device is None else str(device), "" if at is None else str(at), top


def device_name(device: dict[str, Any]) -> str:
    """Return the name of a device, such as ``cuda:0`` or ``cpu``."""
    kind, ordinal = device["device_type"], device["device"]
    return f"{kind}:{ordinal}" if ordinal >= 0 and kind != "cpu" else str(kind)


def _format_of(path: str) -> str:
    """Return the export format for the suffix of a file name."""
    formats = export_formats()
    chosen = [format for format in formats if path.endswith(format.suffix)]
    chosen = sorted(chosen, key=lambda each: len(each.suffix))[-1:]  # ".layers.folded"
    if not chosen and (ending := os.path.splitext(path)[1]):
        chosen = [format for format in formats if format.suffix.endswith(ending)]
    if len(chosen) == 1:
        return chosen[0].name
    known = ", ".join(f"{format.name} ({format.suffix})" for format in chosen or formats)
    raise InvalidArgumentError(
        "invalid_argument",
        f"the name {path} has no known suffix; give format, one of {known}",
    )
