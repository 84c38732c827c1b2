"""PhiFlow and PhiML: the memory of optimization loops, with lines for the first loss evaluations.

Example:
    with Counted(loss, "config.yaml") as counted:
        solution = math.minimize(counted, solve)
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

import plimsoll
from plimsoll._process.packages import needed
from plimsoll.config import Source, load_options

_math: Any = needed("phi.math", pip="phiflow")


class Counted:
    """A loss function that counts its evaluations and, inside `with`, reports their memory.

    Attributes:
        evaluations: Number of calls so far.
    """

    def __init__(self, loss: Callable[..., Any], source: Source = None, **options: object) -> None:
        chosen = load_options(source, **options)
        self.evaluations = 0
        self._loss = loss
        self._monitor = plimsoll.OptimizationMemoryMonitor(
            enabled=chosen.enabled, verbose_evaluations=chosen.verbose_batches
        )
        self.__name__ = getattr(loss, "__name__", "loss")  # as in PhiML's error messages

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate the loss, count it, and report its first value, which is minimized."""
        result = self._loss(*args, **kwargs)
        self.evaluations += 1
        first = result[0] if isinstance(result, tuple | list) else result
        self._monitor.on_loss_evaluation(native(first))
        return result

    def __enter__(self) -> Counted:
        self._monitor.on_start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._monitor.on_end()


def native(loss: Any) -> Any:
    """Return a PhiML tensor as a native tensor, summed; return other values unchanged."""
    return _math.stop_gradient(loss).sum if isinstance(loss, _math.Tensor) else loss
