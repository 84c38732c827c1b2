"""Compares the recorder's sums with torch's, in a recording."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from checks import check

import plimsoll
from plimsoll import _record
from plimsoll._cuda import cuda_hooks


class Sums:
    """Compares all devices with torch at each call."""

    def __init__(self) -> None:
        self.compared = 0
        self.wrong: list[str] = []

    def compare(self) -> None:
        sample = _record.take_sample()
        rows = {each.name: each for each in sample.devices}
        for device, state in enumerate(cuda_hooks.state()):
            row = rows.get(f"cuda:{device}")
            allocated = torch.cuda.memory_allocated(device)
            live = row.live_bytes if row is not None else 0
            categories = sum(each.size_bytes for each in row.categories) if row is not None else 0
            figures = {
                "allocated": (live, allocated),
                "categories": (categories, allocated),
                "shadow": (state["allocated_bytes"], allocated),
                "reserved": (state["reserved_bytes"], torch.cuda.memory_reserved(device)),
            }
            self.compared += 1
            for name, (ours, torchs) in figures.items():
                if ours != torchs:
                    self.wrong.append(f"{name} of cuda:{device}: {ours} for {torchs}")

    def report(self) -> None:
        found = self.wrong[0] if self.wrong else f"{self.compared} times"
        check("sums are torch's", self.compared > 0 and not self.wrong, found)
        rows = cuda_hooks.state()
        proofs, disproved = (sum(row[key] for row in rows) for key in ("proofs", "disproved"))
        corrected = sum(row["corrected"] for row in rows)
        found = f"{proofs} confirmed, {corrected} corrected, {disproved} refuted"
        check(
            "statistics confirm the sizes", proofs > 0 and corrected == 0 and disproved == 0, found
        )


@contextlib.contextmanager
def recorded(sums: Sums, path: str = "run.plim") -> Iterator[plimsoll.Recording]:
    """Record, and compare the sums at each optimizer step and at the end."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    with plimsoll.record(path, adapter="libtorch") as recording:
        handle = register_optimizer_step_post_hook(lambda *_: sums.compare())
        try:
            yield recording
            torch.cuda.synchronize()
            sums.compare()
            sums.report()
        finally:
            handle.remove()
    check("no event is lost", recording.state["dropped"] == 0, f"{recording.state['dropped']}")
    unmatched = recording.state["unmatched"] + recording.state["replaced"]
    check("each free has its block", unmatched == 0, f"{unmatched} have none")
