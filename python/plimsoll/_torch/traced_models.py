"""Names layers for `MemoryTracer` like ``named_modules()`` of the traced model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plimsoll._torch import attachment

if TYPE_CHECKING:
    import torch

NO_LAYER = "[no layer]"
"""The key of `MemoryTracer.get_layer_stats` for memory that belongs to no layer."""


class TracedModels:
    """The traced models, by their paths in recordings: ``Net``, ``Net#2``, ``Net.up``.

    A live model has the same path in all recordings. A new model may get the path of a freed one.
    """

    def __init__(self) -> None:
        self._titles: dict[str, str] = {}  # the traced models, by their paths

    def add(self, model: torch.nn.Module) -> None:
        """Add a model while a recording runs."""
        attached = attachment.attached()
        path = attached.layer_of(model) if attached is not None else ""
        path = path or type(model).__name__
        is_part = "." in path
        self._titles[path] = type(model).__name__ if is_part else path.partition("#")[0]

    def name_of(self, path: str) -> str:
        """Return the name of a layer, given its path in a recording."""
        if not path:
            return NO_LAYER
        if len(self._titles) != 1:
            return path
        ((traced, title),) = self._titles.items()
        if path == traced:
            return title
        if path.startswith(f"{traced}."):
            return path.removeprefix(f"{traced}.")
        root, point, rest = path.partition(".")
        return f"{root}#1{point}{rest}" if root == title else path  # first of its class
