"""The interface of hooks in torch, and the options for them."""

from __future__ import annotations

from typing import Any, Literal, Protocol

Adapter = Literal["auto", "libtorch", "python", "none"]
# How much the hooks observe, from most to least: full; lite, without operators; watch, which
# describes tensors only when a sample is taken, not at each step.
Mode = Literal["full", "lite", "watch"]
# In which steps the last use of memory is recorded. Only in the mode `full`.
Uses = Literal["auto", "always", "sampled", "never"]
# How the operator of an allocation is found: from torch's observer, or from the native stack, with
# the observer only in steps whose uses are recorded.
Attribution = Literal["observer", "native"]
# Where to search for tensors, modules and optimizers: in Python's whole heap (about 4 ms for
# 168,000 objects), or among the objects that are new since the last search.
Survey = Literal["all", "new"]


class Attached(Protocol):
    """Installed hooks."""

    kind: Adapter

    def install(self) -> None:
        """Install the hooks. After an interruption, `detach` removes those already installed."""

    def survey(self, what: Survey = "all") -> None:
        """Search for modules, optimizers and tensors, and record them."""

    def find_holders(self, milliseconds: int, error: BaseException | None = None) -> bool:
        """Record what holds the live memory, in at most about this time, between two steps.

        Args:
            milliseconds: The limit.
            error: The exception that ends the program, if one does.

        Returns:
            False if the hooks or the recorder cannot do that.
        """

    def describe(self) -> None:
        """Record what is new since the last call, and what changed in models and optimizers.

        Called right before each sample.
        """

    def layer_of(self, module: Any) -> str:
        """Return the path of the module in recordings; empty if it has none."""

    def user_marks_steps(self) -> None:
        """Stop marking steps at optimizer steps."""

    def is_on(self) -> bool:
        """Return whether the hooks are active; False in a forked child that does not record."""

    def detach(self) -> None:
        """Remove all hooks."""
