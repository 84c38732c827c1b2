"""Finds the layer whose forward created an autograd node, by the node's sequence number.

Each thread numbers the nodes that it creates. This module knows only the nodes of the thread that
runs the model. A node that another thread may have numbered has no layer.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from typing import Any

import torch

_MOST = 1 << 18  # number of layer changes that are stored
_NO_NUMBER = 1 << 63  # sequence numbers from here on belong to nodes that accumulate gradients

_next_number: Any = getattr(torch.autograd, "_get_sequence_nr", None)
_running_node: Any = getattr(torch._C, "_current_autograd_node", None)


class ForwardLayers:
    """Maps the sequence numbers of one thread's autograd nodes to layers."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._numbers: list[int] = []
        self._layers: list[str] = []

    def changed(self, layer: str) -> None:
        """Note that the forward of this layer runs from now on; "" for no layer."""
        if _next_number is None or threading.get_ident() != self._thread:
            return
        if len(self._numbers) == _MOST:
            del self._numbers[: _MOST // 2], self._layers[: _MOST // 2]
        self._numbers.append(_next_number())
        self._layers.append(layer)

    def of_running_node(self) -> str:
        """Return the layer of the node that this thread is running; "" if unknown."""
        node = _running_node() if _running_node is not None else None
        if node is None or _next_number is None:
            return ""
        number = node._sequence_nr()
        is_of_another = threading.get_ident() != self._thread and number < _next_number()
        at = bisect_right(self._numbers, number) - 1
        return "" if number >= _NO_NUMBER or is_of_another or at < 0 else self._layers[at]
