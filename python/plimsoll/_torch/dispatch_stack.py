"""Places a dispatch mode below those of the program, without changing their order.

A program enters and leaves its modes last in, first out. If Plimsoll's mode were above them, the
program could pop it in place of one of its own. Below all of them, it cannot.
"""

from __future__ import annotations

from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)


def push_beneath(mode: TorchDispatchMode) -> None:
    """Push the mode onto this thread's stack, below the modes of the program."""
    above = [_pop_mode() for _ in _programs()]
    _push_mode(mode)
    for each in reversed(above):
        _push_mode(each)


def take_out(mode: TorchDispatchMode) -> None:
    """Remove the mode from this thread's stack, at any position; do nothing if it is absent."""
    stack = _programs()
    if not any(each is mode for each in stack):
        return
    above = []
    while (top := _pop_mode()) is not mode:
        above.append(top)
    for each in reversed(above):
        _push_mode(each)


def _programs() -> list[TorchDispatchMode]:
    """Return the modes above torch's own (fake and functional tensors, tracing)."""
    stack = _get_current_dispatch_mode_stack()
    return [each for each in stack if getattr(each, "_mode_key", None) is None]
