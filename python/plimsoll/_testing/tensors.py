"""The tensors that a test allocated, and the sites in the program that allocated them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import plimsoll
from plimsoll.trace import Trace, device_name

_FACTS = ("layer", "operator", "category", "phase")  # columns of the table `events`


@dataclass(frozen=True)
class Tensor:
    """One tensor. `born` and `freed` are indices of events of its device."""

    device: str
    size_bytes: int
    born: int
    freed: int | None
    stack: int
    holder: str

    def is_live_at(self, event: int | None) -> bool:
        """Return whether the tensor is live after an event, or at the end if `event` is None."""
        if event is None:
            return self.freed is None
        return self.born <= event and (self.freed is None or self.freed > event)


@dataclass(frozen=True)
class Peak:
    """The peak of one device."""

    device: str
    size_bytes: int
    event: int | None  # the event that reached the peak; None for reserved memory


@dataclass
class Site:
    """A place in the program, and what it allocated. ``limit_leaks`` passes it to `filter_fn`.

    Attributes:
        line: The line, as reports show it: ``"tests/test_model.py:12 (test_step)"``.
        stack: The Python frames, innermost first: ``"/home/me/tests/test_model.py:12 test_step"``.
        layer: The path of the module whose forward ran; empty if none.
        operator: The outermost operator, such as ``"aten::linear"``.
        category: ``"parameter"``, ``"activation"``…
        phase: ``"forward"``, ``"backward"``…
        device: ``"cpu"``, ``"cuda:0"``…
        size_bytes: The total size of the site's tensors.
        count: The number of the site's tensors.
        holder: What holds most of their bytes, such as ``"trainer.history"``; empty if unknown.
    """

    line: str
    stack: tuple[str, ...]
    layer: str
    operator: str
    category: str
    phase: str
    device: str
    size_bytes: int = field(default=0, init=False)
    count: int = field(default=0, init=False)
    holder: str = field(default="", init=False)


# pytest keeps the fixtures of a test in an attribute of its item, which a frame of pytest has.
_FIXTURE = re.compile(r"item\.funcargs\['(\w+)'\](.*) in \w+ \([^()]*\)")


def _with_fixture(holder: str) -> str:
    """Return a holder as the test calls it: "the fixture trainer.history"."""
    found = _FIXTURE.fullmatch(holder)
    return f"the fixture {found[1]}{found[2]}" if found else holder


class AllocatedTensors:
    """The tensors in the trace of a test."""

    def __init__(self, data: bytes, name: str) -> None:
        self.trace: Trace = plimsoll.open_bytes(data, name=name)

    @cached_property
    def _tensors(self) -> list[Tensor]:
        rows = self.trace.lifetimes.to_pydict()
        holders = rows.get(
            "holder", [None] * len(rows["stack"])
        )  # absent if nobody looked for them
        sizes = zip(rows["allocated_bytes"], rows["size_bytes"], strict=True)
        return [
            Tensor(
                device,
                requested if block is None else block,
                born,
                freed,
                stack,
                _with_fixture(holder or ""),
            )
            for device, (block, requested), born, freed, stack, holder in zip(
                rows["device"],
                sizes,
                rows["alloc_event"],
                rows["free_requested_event"],
                rows["stack"],
                holders,
                strict=True,
            )
            if born is not None
        ]

    @cached_property
    def _events(self) -> dict[str, list[Any]]:
        return self.trace.events.to_pydict()

    @cached_property
    def _first_rows(self) -> dict[str, int]:
        """Return the first row of each device in the table `events`."""
        devices = self._events["device"]
        return {device: devices.index(device) for device in set(devices)}

    def are_live(self) -> bool:
        """Return whether any tensor is live at the end."""
        return any(each.freed is None for each in self._tensors)

    def peaks(self, phase: str | None = None, category: str | None = None) -> list[Peak]:
        """Return the peak of each device, for all tensors or for one phase or category."""
        by_device = self.by_device(phase, category)
        return [_peak(device, tensors) for device, tensors in by_device.items()]

    def by_device(
        self, phase: str | None = None, category: str | None = None
    ) -> dict[str, list[Tensor]]:
        """Return the tensors of each device, optionally of one phase or category."""
        by_device: dict[str, list[Tensor]] = defaultdict(list)
        for tensor in self._tensors:
            if self._is_wanted(tensor, phase, category):
                by_device[tensor.device].append(tensor)
        return by_device

    def reserved_peaks(self) -> list[Peak]:
        """Return the peak of the memory that each device's allocator obtained from the driver."""
        return [
            Peak(device_name(device), device["reserved"]["peak_bytes"], None)
            for device in self.trace.devices
        ]

    def sites(
        self,
        device: str | None,
        event: int | None = None,
        phase: str | None = None,
        category: str | None = None,
    ) -> list[Site]:
        """Return the sites of the tensors that are live after an event, or at the end if None."""
        sites: dict[tuple[object, ...], Site] = {}
        held: dict[tuple[object, ...], Counter[str]] = defaultdict(Counter)
        for tensor in self._tensors:
            if device not in (None, tensor.device) or not tensor.is_live_at(event):
                continue
            if not self._is_wanted(tensor, phase, category):
                continue
            facts = {name: self._fact(tensor, name) for name in _FACTS}
            key = (tensor.device, tensor.stack, *facts.values())
            if key not in sites:
                line, frames = self._stacks[tensor.stack]
                sites[key] = Site(line, frames, device=tensor.device, **facts)
            sites[key].size_bytes += tensor.size_bytes
            sites[key].count += 1
            held[key][tensor.holder] += tensor.size_bytes
        for key, site in sites.items():
            site.holder = held[key].most_common(1)[0][0]
        return sorted(sites.values(), key=lambda each: -each.size_bytes)

    def growth(self) -> list[dict[str, Any]]:
        """Return the report's rows of what grows from step to step, largest first.

        Each row is a line. If no single line grows, each row is a layer or a category.
        """
        tables = self.trace.ask(top=1_000).tables
        for name in ("growth", "growth_by_layer", "growth_by_category"):
            if tables[name]:
                return tables[name]
        return []

    def edit_of(self, holder: str) -> str:
        """Return the edit of the program that ends what a holder holds; empty if unknown."""
        rows = self.trace.ask(at="end").tables["holders"] if holder else []
        row = next((row for row in rows if _with_fixture(row["path"]) == holder), None)
        return str(row["edit"]).replace(row["path"], holder) if row else ""

    @cached_property
    def _stacks(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return the line and the frames of each stack."""
        frames = [f"{row['file']}:{row['line']} {row['function']}" for row in self.trace.frames]
        return [
            (row["line"], tuple(frames[each] for each in row["frames"] or ()))
            for row in self.trace.stacks
        ]

    def _is_wanted(self, tensor: Tensor, phase: str | None, category: str | None) -> bool:
        return (phase is None or self._fact(tensor, "phase") == phase) and (
            category is None or self._fact(tensor, "category") == category
        )

    def _fact(self, tensor: Tensor, name: str) -> str:
        column = self._events.get(name)  # absent if no event has a value for it
        if column is None:
            return ""
        return column[self._first_rows[tensor.device] + tensor.born] or ""


def _peak(device: str, tensors: list[Tensor]) -> Peak:
    ends = (each.born if each.freed is None else each.freed for each in tensors)
    changes = [0] * (max(ends) + 1)
    for each in tensors:
        changes[each.born] += each.size_bytes
        if each.freed is not None:
            changes[each.freed] -= each.size_bytes
    size_bytes = list(accumulate(changes))
    highest = max(size_bytes)
    return Peak(device, highest, size_bytes.index(highest))


def by_line(sites: Iterable[Site]) -> list[Site]:
    """Return the sites merged by line and category, largest first.

    A merged site has an operator, layer or holder only if all of its parts have the same one.
    """
    lines: dict[tuple[str, str, str], Site] = {}
    for site in sites:
        key = (site.device, site.line, site.category)
        if key not in lines:
            lines[key] = replace(site)
            lines[key].holder = site.holder
        joined = lines[key]
        joined.size_bytes += site.size_bytes
        joined.count += site.count
        joined.operator = joined.operator if joined.operator == site.operator else ""
        joined.layer = joined.layer if joined.layer == site.layer else ""
        joined.holder = joined.holder if joined.holder == site.holder else ""
    return sorted(lines.values(), key=lambda each: -each.size_bytes)
