"""What differs between two recordings, and why."""

from __future__ import annotations

import json
import os
from typing import Any

from plimsoll import _core
from plimsoll._process.arguments import flag, text, whole_number
from plimsoll._process.paths import path_text
from plimsoll.trace import Progress


class Difference:
    """The difference between two recordings. Returned by `plimsoll.diff`; immutable.

    Example:
        >>> difference = plimsoll.diff(path, path)
        >>> difference.findings, difference.growth_bytes
        ([], 0)
    """

    def __init__(self, difference: _core.Difference) -> None:
        self._difference = difference
        self._report: dict[str, Any] | None = None

    @property
    def report(self) -> dict[str, Any]:
        """The object that ``plimsoll diff --json`` prints; ``plimsoll schema diff`` describes it.

        The causes of a point and its ``everything_else_bytes`` sum to its ``difference_bytes``.
        """
        if self._report is None:
            self._report = json.loads(self._difference.json())
        return self._report

    @property
    def findings(self) -> list[dict[str, Any]]:
        """What grew or shrank and why, the peak first; empty if nothing did by more than 0.1%."""
        findings: list[dict[str, Any]] = self.report["findings"]
        return findings

    @property
    def growth_bytes(self) -> int:
        """The largest growth of any point in time, in bytes; 0 if none grew."""
        return self._difference.growth_bytes()

    def summary(self, *, width: int = 100, color: bool = False) -> str:
        """Return the text that ``plimsoll diff`` prints.

        Args:
            width: Columns of the text, 60 at least.
            color: Whether to add escape sequences for a terminal.
        """
        return self._difference.text(whole_number("width", width, 0), flag("color", color))

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        verdict = self.findings[0]["title"] if self.findings else "no difference"
        return f"<plimsoll.Difference: {verdict}>"


def diff(
    before: str | os.PathLike[str],
    after: str | os.PathLike[str],
    *,
    at: str | None = None,
    top: int = 10,
    progress: Progress | None = None,
) -> Difference:
    """Compare two recordings of the same program, before and after a change.

    Args:
        before: A recording, a snapshot, or a digest (``trace.export("base.digest.json")``).
        after: The same, after the change.
        at: Compare only this point: ``"peak"``, ``"forward"``, ``"backward"``, ``"optimizer"``,
            ``"data"``, ``"step end"``, ``"oom"`` or ``"end"``. Default: all.
        top: Number of causes to list in a finding.
        progress: Called regularly with (stage, done, total). Raise an exception from it to stop.

    Returns:
        The difference.

    Raises:
        NotFoundError: A file does not exist. Also a ``FileNotFoundError``.
        UnreadableError: A file is neither a recording nor a digest, or is damaged.
        InvalidArgumentError: The files have no such point in common. Also a ``ValueError``.

    Example:
        >>> plimsoll.diff(path, path, at="end").report["points"][0]["difference_bytes"]
        0
    """
    paths = [os.fsencode(path_text(each)) for each in (before, after)]
    point = "" if at is None else text("at", at)
    rows = whole_number("top", top, 1)
    return Difference(_core.diff(paths[0], paths[1], point, rows, progress))
