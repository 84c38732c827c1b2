"""Records a pytest session, and extracts the part that belongs to one test.

A reader can decode each block of a trace file on its own, given the file's definitions
(docs/format.md). So the trace of a test consists of all definitions and the blocks written while
the test ran. The events of earlier tests do not slow down reading it. Its sums begin at 0: frees of
older memory have no effect.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from plimsoll import _record
from plimsoll._torch import attachment
from plimsoll._torch.hooks import Uses
from plimsoll._torch.libtorch_attachment import LibtorchAttachment
from plimsoll.recording import Recording, record

_HEAD_BYTES = 16  # size of the file header
_BLOCK = struct.Struct("<4sB3xIIII")
DEFINITIONS, EVENTS, END = 1, 2, 3  # block kinds


class NotRecordedError(Exception):
    """The memory of a test is not recorded. The message states the reason."""


class SessionRecording:
    """A recording that can be read while it runs."""

    def __init__(self, path: Path, uses: Uses = "auto") -> None:
        # The trace of each test ends with the end block of an empty recording: end blocks differ
        # only in counts that apply to a whole file.
        empty = _record.Recording(b"", False, 0, False, False, True, {}).take()[1]
        self._end = next(block for kind, block in blocks_of(empty, _HEAD_BYTES) if kind == END)
        self._recording: Recording = record(path, overwrite=True, uses=uses)
        self._recording.start()
        self._pid = os.getpid()
        # Keep the file open: tests may change the current folder or remove files.
        self._file = os.open(self._recording.path, os.O_RDONLY | os.O_CLOEXEC)
        self._head = os.pread(self._file, _HEAD_BYTES, 0)
        self._definitions = bytearray()
        self._absorbed = _HEAD_BYTES

    @property
    def path(self) -> str:
        """The trace file of the whole session."""
        return self._recording.path

    def dropped(self) -> int:
        """Return the number of events lost so far."""
        return self._native().state()["dropped"]

    def begin_part(self) -> int:
        """Return the file offset at which all later events begin."""
        self._flush()
        while len(head := os.pread(self._file, _BLOCK.size, self._absorbed)) == _BLOCK.size:
            _, kind, payload_bytes, *_ = _BLOCK.unpack(head)
            block_bytes = _BLOCK.size + payload_bytes
            if kind == DEFINITIONS:
                self._definitions += os.pread(self._file, block_bytes, self._absorbed)
            self._absorbed += block_bytes
        return self._absorbed

    def part_since(self, begin: int) -> bytes:
        """Return a trace of the events since `begin_part` returned this offset."""
        self._flush()
        return self._read_since(begin)

    def stop(self) -> None:
        """End the recording."""
        self._recording.stop()
        os.close(self._file)

    def _read_since(self, begin: int) -> bytes:
        with open(self._file, "rb", closefd=False) as file:
            file.seek(begin)
            data = file.read()
        wanted = [block for kind, block in blocks_of(data) if kind <= EVENTS]
        return b"".join((self._head, self._definitions, *wanted, self._end))

    def _flush(self) -> None:
        native = self._native()
        hooks = attachment.attached()
        if hooks is not None:
            hooks.survey("new")  # records what hooks do not report, such as new models
        self._recording.flush()
        self._check(native.state()["error"])

    def _check(self, error: int) -> None:
        if error:
            raise NotRecordedError(f"{self.path} cannot be written: {os.strerror(error)}")

    def _native(self) -> _record.Recording:
        native = self._recording._recording
        if os.getpid() != self._pid:
            raise NotRecordedError("the test runs in a forked process, which is not recorded")
        if native is None:
            raise NotRecordedError("the recording of the session was ended by a test")
        return native


class UsesRecording(SessionRecording):
    """Records one test with all uses of memory, alongside the session.

    The last uses of memory that outlives the test are known only when a recording ends.
    """

    def __init__(self, session: SessionRecording) -> None:
        super().__init__(Path(f"{session.path}.uses"), uses="always")
        self._begin = self.begin_part()
        attached = attachment.attached()
        if isinstance(attached, LibtorchAttachment):
            attached.begin_uses("always")  # marks it in this part as well

    def end(self) -> bytes:
        """End the recording, remove its file, and return the trace of the test."""
        try:
            self._native()  # raises if a test has ended it
            self._recording.stop()
            self._check(self._recording.state["error"])
            return self._read_since(self._begin)
        finally:
            self.stop()
            Path(self.path).unlink(missing_ok=True)


def blocks_of(data: bytes, at: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and the bytes of each complete block, starting at offset `at`."""
    while at + _BLOCK.size <= len(data):
        _, kind, payload_bytes, *_ = _BLOCK.unpack_from(data, at)
        end = at + _BLOCK.size + payload_bytes
        if end > len(data):
            return
        yield kind, data[at:end]
        at = end
