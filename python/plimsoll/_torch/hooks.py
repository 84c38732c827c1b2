"""What hooks in torch are asked for, and what they can do."""

from __future__ import annotations

from typing import Any, Literal, Protocol

Adapter = Literal["auto", "libtorch", "python", "none"]
# What the hooks see, from most to least: full; lite, without operators; watch, which describes
# tensors when a sample is taken, and not at each step.
Mode = Literal["full", "lite", "watch"]
# What is searched for tensors, modules and optimizers: all of Python's heap (about 7 ms for 170,000
# objects), or what is new in it since the last search.
Survey = Literal["all", "new"]


class Attached(Protocol):
    """Hooks that are installed."""

    kind: Adapter

    def install(self) -> None:
        """Install the hooks. If this is interrupted, `detach` removes what was installed."""

    def survey(self, what: Survey = "all") -> None:
        """Records the modules, optimizers and tensors that can be found."""

    def layer_of(self, module: Any) -> str:
        """The path under which the module's layers are recorded; empty where it has none."""

    def user_marks_steps(self) -> None:
        """From now on no optimizer marks steps."""

    def is_on(self) -> bool:
        """False in the child of a fork that records nothing: its hooks are there and do nothing."""

    def detach(self) -> None:
        """Takes all hooks out."""
