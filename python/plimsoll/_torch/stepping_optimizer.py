"""Which of several optimizers ends the steps of the training loop."""

from __future__ import annotations

from typing import Any


class SteppingOptimizer:
    """The rule of the compiled adapter, in stepping_optimizer.h."""

    def __init__(self) -> None:
        self._round: set[int] = set()  # the ids of those that have stepped since a step ended
        self._round_before: set[int] = set()

    def ends_step(self, optimizer: Any) -> bool:
        """Return whether the step that `optimizer` has just made ends a step of the loop."""
        number = id(optimizer)
        is_next_round = number in self._round
        is_new = bool(self._round_before) and number not in self._round_before
        if self._round and not is_next_round and not is_new:
            self._round.add(number)
            return False
        self._round_before = self._round if is_next_round else set()
        self._round = {number}
        return True
