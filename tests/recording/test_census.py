"""At every step boundary the trace equals a census, to the byte."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from tests.recording import random_models
from tests.recording.boundaries import Boundary, boundaries
from tests.recording.census import Census, roles, storages
from tests.recording.programs_in_company import PROGRAMS

import plimsoll

BY_PRECEDENCE = ("parameter", "gradient", "optimizer_state", "buffer")


@dataclass
class Counted:
    """The results of the census at the boundaries of a run, and the roles of each storage."""

    live: list[dict[int, int]] = field(default_factory=list)
    held: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def totals(self) -> list[dict[str, int]]:
        """Bytes at each boundary by role; a storage with several roles counts for the first one."""
        role_of: dict[int, str] = {}
        for role in reversed(BY_PRECEDENCE):
            role_of |= dict.fromkeys(self.held[role], role)
        found = []
        for live in self.live:
            totals = Counter({"": 0})
            for handle, size_bytes in live.items():
                totals[role_of.get(handle, "")] += size_bytes
            found.append(totals)
        return found


def count(program, path: Path) -> tuple[list[dict[str, int]], list[Boundary]]:
    """Run a program under the recorder and the census; return both results at the boundaries."""
    gc.collect()
    torch.manual_seed(0)
    counted = Counted()
    path.unlink(missing_ok=True)  # left by the previous program
    with plimsoll.record(path), Census() as census:
        for modules, optimizers in program():
            gc.collect()
            for role, tensors in roles(modules, optimizers).items():
                census.note(tensors)  # including storages that another thread created
                counted.held[role].update(s._cdata for s in storages(tensors))
            counted.live.append(census.live())
            plimsoll.step()
    return counted.totals(), boundaries(plimsoll.open(path))


def check(program, path: Path) -> None:
    reference, recorded = count(program, path)
    # Drop the steps that an optimizer marked before the first plimsoll.step().
    recorded = recorded[len(recorded) - len(reference) :]
    assert len(recorded) == len(reference)
    for totals, boundary in zip(reference, recorded, strict=True):
        assert boundary.live_bytes - boundary.unseen_bytes == sum(totals.values()), boundary
        for category in BY_PRECEDENCE:
            assert boundary.categories[category] == totals[category], (category, boundary, totals)
        assert boundary.categories["none"] == 0


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_byte_at_every_step(name, tmp_path):
    check(PROGRAMS[name], tmp_path / "run.plim")


@settings(
    max_examples=int(os.environ.get("PLIMSOLL_EXAMPLES", "60")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(random_models.plans)
def test_random_models(tmp_path, plan):
    check(lambda: random_models.run(plan), tmp_path / "random.plim")


if __name__ == "__main__":
    for each in sys.argv[1:] or sorted(PROGRAMS):
        print(each, *count(PROGRAMS[each], Path("/tmp/census.plim")), sep="\n  ")
