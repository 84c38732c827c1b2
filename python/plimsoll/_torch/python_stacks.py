"""Python stacks of the fallback, each reported to the recorder once."""

from __future__ import annotations

from types import FrameType
from typing import Any

from plimsoll import _record
from plimsoll._process import notebook
from plimsoll._process.program_errors import without_memory

_DEPTH = 64


class PythonStacks:
    """The recorder's ids of the stacks seen so far."""

    def __init__(self) -> None:
        self._stacks: dict[tuple[tuple[Any, int], ...], int] = {}

    @without_memory(0)
    def id_of(self, caller: FrameType) -> int:
        """Return the id of the stack that ends in this frame; 0 without memory."""
        chain: list[tuple[Any, int]] = []
        frame: FrameType | None = caller
        while frame is not None and len(chain) < _DEPTH:
            chain.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        key = tuple(chain)
        if key not in self._stacks:
            cells = notebook.cells()
            reported = []
            for code, line in key:
                file = notebook.file_name(code.co_filename, cells)
                _record.function(file, code.co_name, code.co_firstlineno)
                reported.append((file, code.co_name, line))
            self._stacks[key] = _record.stack(reported)
        return self._stacks[key]
