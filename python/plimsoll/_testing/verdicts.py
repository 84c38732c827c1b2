"""Builds the message of a failed limit: the verdict, the evidence and the next step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plimsoll._process.sizes import size_text
from plimsoll._testing.limits import GrowthLimit, LeakLimit, MemoryLimit, UnusedLimit
from plimsoll._testing.tensors import AllocatedTensors, Site, by_line
from plimsoll.trace import device_name

_MOST_LINES = 5


@dataclass(frozen=True)
class Verdict:
    """The message of a test that fails.

    Attributes:
        sizes: What was measured and the limit, if it could be checked: ``"peak 2.0 MiB > limit …"``
        title: The verdict.
        evidence: Facts with numbers and places.
        next_step: What to do.
    """

    sizes: str
    title: str
    evidence: list[str]
    next_step: str

    def text(self) -> str:
        """Return the message, formatted like a finding of a report.

        The sizes come first, because pytest's summary shows only the first words.
        """
        name = f"{self.sizes} (plimsoll)" if self.sizes else "plimsoll"
        facts = [f"  - {each}" for each in self.evidence]
        return "\n".join([f"{name}: {self.title}", *facts, f"  → {self.next_step}"])


def verdict_on(
    limit: MemoryLimit | LeakLimit | GrowthLimit, tensors: AllocatedTensors, steps: int
) -> Verdict | None:
    """Check one limit. Return None if the test stays within it.

    Args:
        limit: The limit.
        tensors: The tensors that the test allocated.
        steps: The number of steps that the test marked.
    """
    if isinstance(limit, MemoryLimit):
        return _memory_verdict(limit, tensors)
    if isinstance(limit, LeakLimit):
        return _leak_verdict(limit, tensors)
    return _growth_verdict(limit, tensors, steps)


def _memory_verdict(limit: MemoryLimit, tensors: AllocatedTensors) -> Verdict | None:
    if limit.by == "reserved":
        peaks = tensors.reserved_peaks()
    else:
        peaks = tensors.peaks(limit.phase, limit.category)
    peaks = [each for each in peaks if limit.applies_to(each.device)]
    peak = max(peaks, key=lambda each: each.size_bytes, default=None)
    if peak is None or peak.size_bytes <= limit.limit_bytes:
        return None
    excess = peak.size_bytes - limit.limit_bytes
    what = " ".join(word for word in (limit.phase, limit.category) if word) or limit.by
    sizes = _sizes("peak", peak.size_bytes, limit.limit_bytes)
    title = (
        f"{limit.shown} is exceeded by {_exact(excess)}: the peak of {what} memory on "
        f"{peak.device} is {_exact(peak.size_bytes)}"
    )
    if peak.event is None:
        return Verdict(
            sizes,
            title,
            ["The allocator obtained this much from the driver while the test ran."],
            "Allocate less, in fewer different sizes, or raise the limit.",
        )
    sites = tensors.sites(peak.device, peak.event, limit.phase, limit.category)
    largest = by_line(sites)[0]
    return Verdict(
        sizes,
        title,
        _lines(sites),
        f"Reduce what is live at the peak by {size_text(excess)}. {largest.line} has the most, "
        f"{size_text(largest.size_bytes)}.",
    )


def _leak_verdict(limit: LeakLimit, tensors: AllocatedTensors) -> Verdict | None:
    leaks = [
        site
        for site in tensors.sites(device=None)
        if site.size_bytes > limit.limit_bytes
        and (limit.filter_fn is None or limit.filter_fn(site))
    ]
    if not leaks:
        return None
    leaked_bytes = sum(each.size_bytes for each in leaks)
    holder = max(leaks, key=lambda each: each.size_bytes if each.holder else 0).holder
    return Verdict(
        _sizes("leaks", leaked_bytes, limit.limit_bytes),
        f"{limit.shown} is exceeded: {_exact(leaked_bytes)} of tensors outlive the test",
        _lines(leaks),
        tensors.edit_of(holder)
        or f"Release what retains the tensors of {by_line(leaks)[0].line}: a global, a cache, a "
        "fixture or an attribute."
        + ("" if limit.warmup else " If a cache fills only once, pass warmup=1."),
    )


def _growth_verdict(limit: GrowthLimit, tensors: AllocatedTensors, steps: int) -> Verdict | None:
    if steps < limit.steps:
        made = f"{steps} step" if steps == 1 else f"{steps} steps"
        return Verdict(
            "",
            f"{limit.shown} cannot be checked: the test marked {made}, not {limit.steps}",
            [],
            "Call memory.step() at the end of each iteration, and run more iterations.",
        )
    rows = tensors.growth()
    growth = sum(row["bytes_per_step"] for row in rows)
    if growth <= limit.limit_bytes:
        return None
    evidence = [
        f"{_exact(row['bytes_per_step'])} per step since step {row['first_step']}: {row['key']}, "
        f"{_tensors(row['survivors'])} still live"
        for row in rows[:_MOST_LINES]
    ]
    return Verdict(
        _sizes("growth", growth, limit.limit_bytes),
        f"{limit.shown} is exceeded: memory grows by {_exact(growth)} per step",
        evidence,
        f"Free what {rows[0]['key']} retains from step to step.",
    )


def unused_verdict(limit: UnusedLimit, tensors: AllocatedTensors) -> Verdict | None:
    """Check a limit on what no operator uses again. Return None if the test stays within it.

    Args:
        limit: The limit.
        tensors: The tensors that the test allocated, recorded with their uses.
    """
    uses = {device_name(each): each["last_use"] for each in tensors.trace.devices}
    uses = {device: uses[device] for device in tensors.by_device()}
    unknown = [device for device, found in uses.items() if found is None]
    if unknown:
        return Verdict(
            "",
            f"{limit.shown} cannot be checked: no uses of memory were recorded on "
            + ", ".join(unknown),
            [],
            "Install a C++ compiler: only the compiled adapter records uses.",
        )
    if not uses:
        return None
    device = max(uses, key=lambda each: uses[each]["unused_bytes"])
    found = uses[device]
    excess = found["unused_bytes"] - limit.limit_bytes
    if excess <= 0:
        return _unknown_verdict(limit, uses)
    rows = found["rows"][:_MOST_LINES]
    evidence = [
        f"{_exact(row['bytes'])} in {_tensors(row['count'])}: {row['line']}, {row['kind']}"
        for row in rows
    ]
    rest = found["unused_bytes"] - sum(row["bytes"] for row in rows)
    if rest:
        evidence.append(f"{_exact(rest)}: everything else")
    peak, reachable = found["live_bytes"], found["reachable_peak_bytes"]
    if reachable < peak:
        evidence.append(
            f"If all memory were freed when it was last used, the peak would be "
            f"{size_text(reachable)} instead of {size_text(peak)}"
        )
    return Verdict(
        _sizes("not used again", found["unused_bytes"], limit.limit_bytes),
        f"{limit.shown} is exceeded by {_exact(excess)}: no operator uses "
        f"{_exact(found['unused_bytes'])} of the peak on {device} again",
        evidence,
        f"After its last use, free what {rows[0]['line'] if rows else 'the test'} allocates.",
    )


def _unknown_verdict(limit: UnusedLimit, uses: dict[str, Any]) -> Verdict | None:
    """Fail if the larger part of a peak is unknown, and the limit may be exceeded with it."""
    for device, found in uses.items():
        unknown, peak = found["unknown_bytes"], found["live_bytes"]
        if unknown > peak / 2 and found["unused_bytes"] + unknown > limit.limit_bytes:
            return Verdict(
                "",
                f"{limit.shown} cannot be checked: it is unknown whether operators use "
                f"{_exact(unknown)} of the peak of {_exact(peak)} on {device} again",
                [],
                "Keep tensors within PyTorch: what NumPy or data_ptr() gets is unknown.",
            )
    return None


def _lines(sites: list[Site]) -> list[str]:
    lines = by_line(sites)
    shown = [f"{_total([each])}: {each.line}{_facts(each)}" for each in lines[:_MOST_LINES]]
    rest = lines[_MOST_LINES:]
    return [*shown, f"{_total(rest)}: everything else"] if rest else shown


def _total(sites: list[Site]) -> str:
    count = sum(each.count for each in sites)
    return f"{_exact(sum(each.size_bytes for each in sites))} in {_tensors(count)}"


def _facts(site: Site) -> str:
    facts = [
        site.operator,
        site.category,
        site.layer and f"layer {site.layer}",
        site.holder and f"held by {site.holder}",
    ]
    return "".join(f", {fact}" for fact in facts if fact)


def _tensors(count: int) -> str:
    return "1 tensor" if count == 1 else f"{count:,} tensors"


def _sizes(what: str, size_bytes: int, limit_bytes: int) -> str:
    """Return both sizes, in bytes if they would look equal otherwise."""
    size, limit = size_text(size_bytes), size_text(limit_bytes)
    if size == limit:
        size, limit = f"{size_bytes:,} B", f"{limit_bytes:,} B"
    return f"{what} {size} > limit {limit}"


def _exact(size_bytes: int) -> str:
    """Return the size in a readable unit, followed by the exact bytes from 1 KiB on."""
    exact = f"{size_bytes:,} B"
    return exact if size_bytes < 1024 else f"{size_text(size_bytes)} ({exact})"
