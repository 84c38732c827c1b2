"""The recording of a pytest session, and the part of it that belongs to one test.

A block of a trace file can be decoded on its own, given the definitions of the file
(docs/format.md). So the trace of a test consists of all definitions and the blocks that were
written while the test ran. Reading it takes no longer if earlier tests allocated much.
Its sums begin at 0: frees of older memory have no effect.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from plimsoll import _record
from plimsoll._torch import attachment
from plimsoll.recording import Recording, record

_HEAD_BYTES = 16  # of the file
_BLOCK = struct.Struct("<4sB3xIIII")
DEFINITIONS, EVENTS, END = 1, 2, 3  # kinds of blocks


class NotRecordedError(Exception):
    """The memory of a test is unknown, for the reason that the text states."""


class SessionRecording:
    """A recording that is read while it runs."""

    def __init__(self, path: Path) -> None:
        # Every recording ends with a block of the same content, except for counts that only a
        # whole file has: that of an empty recording ends the trace of each test.
        empty = _record.Recording(b"", False, 0, False, False, True, {}).take()[1]
        self._end = next(block for kind, block in blocks_of(empty, _HEAD_BYTES) if kind == END)
        self._recording: Recording = record(path, overwrite=True)
        self._recording.start()
        self._pid = os.getpid()
        # Open until the end: tests may change the current folder, or remove files.
        self._file = os.open(self._recording.path, os.O_RDONLY | os.O_CLOEXEC)
        self._head = os.pread(self._file, _HEAD_BYTES, 0)
        self._definitions = bytearray()
        self._absorbed = _HEAD_BYTES

    @property
    def path(self) -> str:
        """The trace file of the whole session."""
        return self._recording.path

    def dropped(self) -> int:
        """Return the number of events that were lost so far."""
        return self._native().state()["dropped"]

    def begin_part(self) -> int:
        """Return the place in the file where all later events are."""
        self._flush()
        while len(head := os.pread(self._file, _BLOCK.size, self._absorbed)) == _BLOCK.size:
            _, kind, payload_bytes, *_ = _BLOCK.unpack(head)
            block_bytes = _BLOCK.size + payload_bytes
            if kind == DEFINITIONS:
                self._definitions += os.pread(self._file, block_bytes, self._absorbed)
            self._absorbed += block_bytes
        return self._absorbed

    def part_since(self, begin: int) -> bytes:
        """Return a trace of what happened since `begin_part` returned this place."""
        self._flush()
        with open(self._file, "rb", closefd=False) as file:
            file.seek(begin)
            data = file.read()
        wanted = [block for kind, block in blocks_of(data) if kind <= EVENTS]
        return b"".join((self._head, self._definitions, *wanted, self._end))

    def stop(self) -> None:
        """End the recording."""
        self._recording.stop()
        os.close(self._file)

    def _flush(self) -> None:
        native = self._native()
        hooks = attachment.attached()
        if hooks is not None:
            hooks.survey("new")  # describes what no hook has reported, such as new models
        self._recording.flush()
        error = native.state()["error"]
        if error:
            raise NotRecordedError(f"{self.path} cannot be written: {os.strerror(error)}")

    def _native(self) -> _record.Recording:
        native = self._recording._recording
        if os.getpid() != self._pid:
            raise NotRecordedError("the test runs in a forked process, which is not recorded")
        if native is None:
            raise NotRecordedError("the recording of the session was ended by a test")
        return native


def blocks_of(data: bytes, at: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and the bytes of each complete block from a place on."""
    while at + _BLOCK.size <= len(data):
        _, kind, payload_bytes, *_ = _BLOCK.unpack_from(data, at)
        end = at + _BLOCK.size + payload_bytes
        if end > len(data):
            return
        yield kind, data[at:end]
        at = end
