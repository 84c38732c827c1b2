"""How `MemoryTracer` names layers: as ``named_modules()`` of the models that it was given."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, NamedTuple

from plimsoll import _attachment

if TYPE_CHECKING:
    import torch

NO_LAYER = "[no layer]"
"""The key of `MemoryTracer.get_layer_stats` for memory that belongs to no layer."""


class Layer(NamedTuple):
    """A layer, whatever path it has in the recording of a block.

    Attributes:
        model: Which of the traced models has it; None: another one has, or it is no layer.
        path: Its name in that model, empty for the model itself. Else its path in the recording.
    """

    model: int | None
    path: str


class ModelsOfBlock:
    """The models that one block traces, and the paths of their layers in its recording."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}  # by the path of the model

    def add(self, path: str, number: int) -> None:
        self._numbers[path] = number

    def number_of(self, path: str) -> int | None:
        return self._numbers.get(path)

    def numbers(self) -> set[int]:
        return set(self._numbers.values())

    def layer_of(self, path: str) -> Layer:
        """The layer behind a path of the recording: of the innermost traced model around it."""
        root, rest = path, ""
        while root:
            number = self._numbers.get(root)
            if number is not None:
                return Layer(number, rest)
            root, _, last = root.rpartition(".")
            rest = f"{last}.{rest}" if rest else last
        return Layer(None, path)


class TracedModels:
    """All models that were traced. Those with the same names of layers count as one model."""

    def __init__(self) -> None:
        self._names: list[frozenset[str]] = []  # of the layers of each
        self._titles: list[str] = []  # "Net", "Net#2"
        self._last: tuple[weakref.ref[torch.nn.Module], int] | None = None

    def add(self, model: torch.nn.Module, block: ModelsOfBlock) -> None:
        """Adds a model to a block that is being recorded."""
        attached = _attachment.attached()
        path = attached.layer_of(model) if attached is not None else ""
        path = path or type(model).__name__
        if block.number_of(path) is None:
            is_part = "." in path
            title = type(model).__name__ if is_part else path.partition("#")[0]  # of a wrapper too
            block.add(path, self._number_of(model, title, block.numbers()))

    def name_of(self, layer: Layer) -> str:
        if layer.model is None:
            return self._name_of_other(layer.path) if layer.path else NO_LAYER
        title = self._titles[layer.model]
        if len(self._titles) == 1:
            return layer.path or title
        return f"{title}.{layer.path}" if layer.path else title

    def _name_of_other(self, path: str) -> str:
        root, point, rest = path.partition(".")
        return f"{root}#1{point}{rest}" if root in self._titles else path

    def _number_of(self, model: torch.nn.Module, title: str, taken: set[int]) -> int:
        if self._last is not None and self._last[0]() is model and self._last[1] not in taken:
            return self._last[1]  # walking through a large model takes milliseconds
        number = self._number_by_names(model, title, taken)
        self._last = weakref.ref(model), number
        return number

    def _number_by_names(self, model: torch.nn.Module, title: str, taken: set[int]) -> int:
        names = frozenset(name for name, _ in model.named_modules()) | {title}
        for number, known in enumerate(self._names):
            if known == names and number not in taken:
                return number
        same = sum(known.partition("#")[0] == title for known in self._titles)
        self._titles.append(f"{title}#{same + 1}" if same else title)
        self._names.append(names)
        return len(self._names) - 1
