"""The fixture ``memory``, which measures the running test."""

from __future__ import annotations

import pytest

import plimsoll
from plimsoll._testing.measured import MeasuredTest
from plimsoll._testing.session_recording import NotRecordedError


class Memory:
    """The memory of one test's tensors.

    Example:
        >>> def test_step(memory):
        ...     train_step()
        ...     assert memory.peak_bytes <= 48 * 2**20
        ...     memory.matches_baseline()
    """

    def __init__(self, test: MeasuredTest, updates: bool) -> None:
        self._test = test
        self._updates = updates

    def step(self) -> None:
        """End a step, for ``limit_growth``. Equivalent to `plimsoll.step`."""
        plimsoll.step()

    @property
    def peak_bytes(self) -> int:
        """The peak so far of the test's tensors, in bytes, on the device with the highest peak."""
        __tracebackhide__ = True
        try:
            peaks = self._test.tensors().peaks()
        except NotRecordedError as error:
            pytest.fail(f"plimsoll: memory.peak_bytes is unknown: {error}")
        return max((each.size_bytes for each in peaks), default=0)

    def matches_baseline(self) -> None:
        """Fail if the test has used more memory so far than its baseline allows.

        With ``--plimsoll-update``, write the baseline instead. Call this once per test.
        """
        __tracebackhide__ = True
        problem: str | None = None
        try:
            if self._updates:
                self._test.write_baseline()
            else:
                problem = self._test.growth_since_baseline()
        except NotRecordedError as error:
            problem = f"plimsoll: the baseline cannot be compared: {error}"
        if problem is not None:
            pytest.fail(problem)
