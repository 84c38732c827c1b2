"""A module around another one, for tests.causes.mutations.wrapping."""

from __future__ import annotations

from typing import Any

from torch import nn


class Wrapped(nn.Module):
    """Runs the module inside, and has its attributes."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *words: Any, **named: Any) -> Any:
        return self.inner(*words, **named)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def __getitem__(self, index: Any) -> Any:
        return self.inner[index]

    def __len__(self) -> int:
        return len(self.inner)

    def __iter__(self) -> Any:
        return iter(self.inner)

    def __iadd__(self, more: Any) -> Wrapped:
        self.inner += more
        return self
