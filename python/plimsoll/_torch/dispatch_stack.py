"""A dispatch mode under those of the program, whose own order stays as it is.

A program enters and leaves its modes last in, first out. One of ours that came in the middle and
stays, or goes while theirs are open, would be popped in the place of one of theirs; beneath them
all it is in nobody's way.
"""

from __future__ import annotations

from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)


def push_beneath(mode: TorchDispatchMode) -> None:
    """Onto this thread's stack, under the modes of the program."""
    above = [_pop_mode() for _ in _programs()]
    _push_mode(mode)
    for each in reversed(above):
        _push_mode(each)


def take_out(mode: TorchDispatchMode) -> None:
    """From wherever it is in this thread's stack; nothing if it is not there."""
    stack = _programs()
    if not any(each is mode for each in stack):
        return
    above = []
    while (top := _pop_mode()) is not mode:
        above.append(top)
    for each in reversed(above):
        _push_mode(each)


def _programs() -> list[TorchDispatchMode]:
    """Without torch's own (fake and functional tensors, tracing), which lie beneath all others."""
    stack = _get_current_dispatch_mode_stack()
    return [each for each in stack if getattr(each, "_mode_key", None) is None]
