"""Names layers for `MemoryTracer` like ``named_modules()`` of the traced model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
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
        self._positions: dict[str, int] = {}  # of their layers in named_modules(), by path

    def add(self, model: torch.nn.Module) -> None:
        """Add a model while a recording runs."""
        attached = attachment.attached()
        path = attached.layer_of(model) if attached is not None else ""
        path = path or type(model).__name__
        if path not in self._titles:
            for name, _ in model.named_modules():
                layer = f"{path}.{name}" if name else path
                self._positions.setdefault(layer, len(self._positions))
        is_part = "." in path
        self._titles[path] = type(model).__name__ if is_part else path.partition("#")[0]

    def in_order(self, paths: Iterable[str]) -> list[str]:
        """Return the layers of traced models in the order of ``named_modules()``, then others."""
        last = len(self._positions)
        return sorted(
            paths, key=lambda path: (self._positions.get(path, last), path.count("."), path)
        )

    def namer(self) -> Callable[[str], str]:
        """Return the function that names a layer, given its path in a recording.

        Models that are traced later do not change its names.
        """
        return functools.partial(_name_of, dict(self._titles))


def _name_of(titles: dict[str, str], path: str) -> str:
    if not path:
        return NO_LAYER
    if len(titles) != 1:
        return path
    ((traced, title),) = titles.items()
    if path == traced:
        return title
    if path.startswith(f"{traced}."):
        return path.removeprefix(f"{traced}.")
    root, point, rest = path.partition(".")
    return f"{root}#1{point}{rest}" if root == title else path  # the first model of its class
