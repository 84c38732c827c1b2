"""Parses the markers ``limit_memory``, ``limit_leaks``, ``limit_growth``, ``limit_unused_at_peak``.

Markers and sizes follow pytest-memray: KB, MB and GB are powers of 1024, like KiB, MiB and GiB.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from plimsoll import _core

PHASES = ("forward", "backward", "optimizer", "data", "other")
CATEGORIES = (
    *("parameter", "gradient", "optimizer_state", "buffer", "input", "workspace", "activation"),
    *("activation_gradient", "temporary", "communication", "optimizer_scratch", "other"),
    *("unknown", "pinned_host"),
)
FEWEST_STEPS = 12  # fewer steps cannot prove growth: docs/findings.md

_PREFIX = "plimsoll_"
_DEVICE = re.compile(r"cpu|pinned_host|cuda(:\d+)?|xpu(:\d+)?|mps")


class LimitError(Exception):
    """A marker has invalid arguments."""


@dataclass(frozen=True)
class MemoryLimit:
    """The maximum peak of a test's tensors, on each device separately."""

    shown: str  # the marker as written in the test
    limit_bytes: int
    by: str
    device: str | None
    phase: str | None
    category: str | None

    def applies_to(self, device: str) -> bool:
        """Return whether the limit covers a device, such as ``cuda:1``."""
        return self.device is None or device == self.device or device.startswith(f"{self.device}:")

    @property
    def subject(self) -> tuple[object, ...]:
        """What the marker limits. Of two markers with the same subject, the closer one applies."""
        return (type(self), self.by, self.device, self.phase, self.category)


@dataclass(frozen=True)
class LeakLimit:
    """The maximum that the tensors of one site may occupy after the test."""

    shown: str
    limit_bytes: int
    warmup: int
    filter_fn: Callable[[Any], object] | None
    subject: tuple[object, ...] = ("leaks",)


@dataclass(frozen=True)
class GrowthLimit:
    """The maximum growth of a test's memory per step."""

    shown: str
    limit_bytes: int
    steps: int
    subject: tuple[object, ...] = ("growth",)


@dataclass(frozen=True)
class UnusedLimit:
    """The maximum at a test's peak that no operator uses again, on each device separately."""

    shown: str
    limit_bytes: int
    subject: tuple[object, ...] = ("unused",)


Limit: TypeAlias = MemoryLimit | LeakLimit | GrowthLimit | UnusedLimit


def limits_of(item: pytest.Item) -> list[Limit]:
    """Return the limits of a test, from the test itself, its class and its module.

    Raises:
        LimitError: A marker has invalid arguments.
    """
    limits: dict[tuple[object, ...], Limit] = {}
    for mark in item.iter_markers():
        make = _MAKERS.get(mark.name.removeprefix(_PREFIX))
        # current_thread_only exists in pytest-memray only, so the marker is for pytest-memray.
        if make is None or (mark.name in _MAKERS and "current_thread_only" in mark.kwargs):
            continue
        shown = _shown(mark)
        try:
            limit = make(shown, *mark.args, **mark.kwargs)
        except TypeError:
            raise LimitError(f"{item.nodeid}: {shown}: write {_FORMS[make]}") from None
        except ValueError as error:
            raise LimitError(f"{item.nodeid}: {shown}: {error}") from None
        limits.setdefault(limit.subject, limit)
    return list(limits.values())


def size_of(text: object) -> int:
    """Return a size such as ``"48 MB"`` in bytes, rounded down.

    Raises:
        ValueError: `text` is not a size.
    """
    size_bytes = None
    # A number without a unit is a size in a budget file, but in a marker it may lack an "MB".
    if isinstance(text, str) and text.rstrip().endswith(("B", "b")):
        size_bytes = _core.parse_bytes(text)
        if size_bytes is None and _core.is_too_large(text):
            raise ValueError(f"the limit {text!r} is too large: write less than 8 EiB")
    if size_bytes is None:
        raise ValueError(
            f"the limit {text!r} is not a size: write a number and a unit in quotes, such as "
            '"48 MB", "1.5 GiB" or "0 B" (1 MB is 1 MiB, as in pytest-memray)'
        )
    return size_bytes


def _memory_limit(
    shown: str,
    limit: object,
    *,
    by: str = "allocated",
    device: object = None,
    phase: str | None = None,
    category: str | None = None,
) -> MemoryLimit:
    limit_bytes = size_of(limit)
    _check_one_of("by", by, ("allocated", "reserved"))
    if phase is not None:
        _check_one_of("phase", phase, PHASES)
    if category is not None:
        _check_one_of("category", category, CATEGORIES)
    if by == "reserved" and (phase or category):
        raise ValueError(
            "reserved memory has no phase and no category: remove them or by='reserved'"
        )
    name = None if device is None else str(device)  # also accepts a torch.device
    if name is not None and not _DEVICE.fullmatch(name):
        raise ValueError(f"there is no device {name!r}: write 'cpu', 'cuda' or 'cuda:1'")
    return MemoryLimit(shown, limit_bytes, by, name, phase, category)


def _leak_limit(
    shown: str,
    limit: object,
    *,
    warmup: int = 0,
    filter_fn: Callable[[Any], object] | None = None,
) -> LeakLimit:
    limit_bytes = size_of(limit)
    _check_count("warmup", warmup, 0)
    if filter_fn is not None and not callable(filter_fn):
        raise ValueError(f"filter_fn is {filter_fn!r}: pass a function that takes a site")
    return LeakLimit(shown, limit_bytes, warmup, filter_fn)


def _growth_limit(shown: str, limit: object, *, steps: int = 16) -> GrowthLimit:
    limit_bytes = size_of(limit)
    _check_count("steps", steps, FEWEST_STEPS)
    return GrowthLimit(shown, limit_bytes, steps)


def _unused_limit(shown: str, limit: object) -> UnusedLimit:
    return UnusedLimit(shown, size_of(limit))


def _check_one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} {value!r} is not one of {', '.join(known)}")


def _check_count(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {value!r}: write a whole number, {least} or more")


def _shown(mark: pytest.Mark) -> str:
    words = [_literal(each) for each in mark.args]
    words += [f"{name}={_literal(value)}" for name, value in mark.kwargs.items()]
    return f"{mark.name}({', '.join(words)})"


def _literal(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return str(getattr(value, "__name__", repr(value)))


_MAKERS: dict[str, Callable[..., Limit]] = {
    "limit_memory": _memory_limit,
    "limit_leaks": _leak_limit,
    "limit_growth": _growth_limit,
    "limit_unused_at_peak": _unused_limit,
}

_FORMS: dict[Callable[..., Limit], str] = {
    _memory_limit: 'limit_memory("48 MB", by=, device=, phase=, category=)',
    _leak_limit: 'limit_leaks("0 B", warmup=, filter_fn=)',
    _growth_limit: 'limit_growth("0 B", steps=)',
    _unused_limit: 'limit_unused_at_peak("48 MB")',
}
