"""What the fallback knows about autograd when an operator returns."""

from __future__ import annotations

from types import CodeType, FrameType

import torch

AUTOGRAD_UNKNOWN, AUTOGRAD_OFF = 0, 1  # plimsoll_autograd


def _code_of_apply() -> CodeType | None:
    apply = getattr(torch.autograd.Function.apply, "__func__", None)
    return getattr(apply, "__code__", None)


_APPLY = _code_of_apply()


def autograd_state(caller: FrameType) -> int:
    """Return "off" if no operator that `caller` runs can be part of a graph.

    The forward of an autograd.Function runs without autograd as well, but its results are of the
    Function's node. With autograd on, the mode does not see whether an operator builds a node.
    """
    in_backward = torch._C._current_graph_task_id() >= 0
    if torch.is_grad_enabled() or in_backward or _APPLY is None:
        return AUTOGRAD_UNKNOWN
    frame: FrameType | None = caller
    while frame is not None and frame.f_code is not _APPLY:
        frame = frame.f_back
    return AUTOGRAD_OFF if frame is None else AUTOGRAD_UNKNOWN
