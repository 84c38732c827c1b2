"""The fixture ``memory``: the memory of the test that is running."""

from __future__ import annotations

import pytest

import plimsoll
from plimsoll._testing.measured import MeasuredTest
from plimsoll._testing.session_recording import NotRecordedError


class Memory:
    """The memory of the tensors of one test.

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
        """End a step, for ``limit_growth``. The same as `plimsoll.step`."""
        plimsoll.step()

    @property
    def peak_bytes(self) -> int:
        """The peak so far of the tensors that the test has allocated, on its fullest device."""
        __tracebackhide__ = True
        try:
            peaks = self._test.tensors().peaks()
        except NotRecordedError as error:
            pytest.fail(f"plimsoll: memory.peak_bytes is unknown: {error}")
        return max((each.size_bytes for each in peaks), default=0)

    def matches_baseline(self) -> None:
        """Fail if the test has used more memory so far than its baseline says.

        With ``--plimsoll-update``, write the baseline. Call this once in a test.
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
