"""The layer whose forward created an autograd node, by the node's sequence number.

Nodes are numbered by the thread that makes them. Here are those of the thread that runs the model;
a node whose number another thread may have given is nobody's.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from typing import Any

import torch

_MOST = 1 << 18  # changes of the layer that are remembered
_NO_NUMBER = 1 << 63  # of a node that accumulates a gradient, and from there on

_next_number: Any = getattr(torch.autograd, "_get_sequence_nr", None)
_running_node: Any = getattr(torch._C, "_current_autograd_node", None)


class ForwardLayers:
    """Of the thread that created it. Torch before 2.1 has none."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._numbers: list[int] = []
        self._layers: list[str] = []

    def changed(self, layer: str) -> None:
        """From here on this layer's forward runs, or none ("")."""
        if _next_number is None or threading.get_ident() != self._thread:
            return
        if len(self._numbers) == _MOST:
            del self._numbers[: _MOST // 2], self._layers[: _MOST // 2]
        self._numbers.append(_next_number())
        self._layers.append(layer)

    def of_running_node(self) -> str:
        """The layer of the node that this thread runs; "" if unknown."""
        node = _running_node() if _running_node is not None else None
        if node is None or _next_number is None:
            return ""
        number = node._sequence_nr()
        is_of_another = threading.get_ident() != self._thread and number < _next_number()
        at = bisect_right(self._numbers, number) - 1
        return "" if number >= _NO_NUMBER or is_of_another or at < 0 else self._layers[at]
