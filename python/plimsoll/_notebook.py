"""How notebooks show traces and recordings."""

from __future__ import annotations

import html
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from plimsoll._process.arguments import whole_number
from plimsoll.errors import Error, InvalidArgumentError

if TYPE_CHECKING:
    from plimsoll import _core
    from plimsoll.trace import Trace


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as HTML. The first column is left-aligned, the others are right-aligned."""

    def row(cell: str, texts: Sequence[str]) -> str:
        sides = ["left"] + ["right"] * (len(texts) - 1)
        cells = zip(sides, texts, strict=True)
        return "".join(
            f'<{cell} style="text-align:{side}">{html.escape(text)}</{cell}>'
            for side, text in cells
        )

    lines = [f"<thead><tr>{row('th', columns)}</tr></thead>", "<tbody>"]
    lines += [f"<tr>{row('td', each)}</tr>" for each in rows]
    caption = f'<caption style="text-align:left">{html.escape(title)}</caption>'
    return "\n".join([f"<table>{caption}", *lines, "</tbody></table>"])


class Page:
    """A page in a separate frame.

    Its script runs, but the frame's origin is unique: it cannot reach the notebook, its cookies or
    its kernel.
    """

    def __init__(self, page: str, height: int) -> None:
        self._page = page
        self._height = height

    def _repr_html_(self) -> str:
        return (
            f'<iframe title="Plimsoll report" sandbox="allow-scripts" width="100%" '
            f'height="{self._height}" frameborder="0" srcdoc="{html.escape(self._page)}"></iframe>'
        )

    def __repr__(self) -> str:
        return "<plimsoll page; notebooks show it>"


class TraceInNotebook:
    """The methods of `Trace` for notebooks."""

    _session: _core.Session
    _question: tuple[str, str, int]

    def _exported(self, format_name: str) -> str:
        pieces: list[bytes] = []
        self._session.export_to(format_name, pieces.append, *self._question)
        return b"".join(pieces).decode()

    def _repr_html_(self) -> str:
        """Return the findings, memory over time and what fills the peak, as HTML.

        It contains no script, so that GitHub and untrusted notebooks show it.
        """
        return self._exported("notebook")

    def show(self, *, height: int = 720) -> None:
        """Show the whole report below the cell of a notebook, in a frame.

        Args:
            height: Height of the frame in pixels.

        Raises:
            InvalidArgumentError: The program does not run in a notebook, or `height` is invalid.

        Example:
            >>> plimsoll.open("train.plim").show()  # doctest: +SKIP
        """
        height = whole_number("height", height, 100, 10_000)
        find_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
        if find_shell is None or find_shell() is None:
            message = 'show() needs a notebook; export("report.html") writes the page'
            raise InvalidArgumentError("invalid_argument", message)
        display: Any = sys.modules["IPython"].display.display
        display(Page(self._exported("html"), height))


class _Recorded(Protocol):
    state: dict[str, int]

    def report(self) -> Trace: ...


class RecordingInNotebook:
    """The methods of `Recording` for notebooks."""

    def _repr_html_(self: _Recorded) -> str | None:
        """Return the HTML of the trace; None before the recording has ended."""
        if not self.state:
            return None
        try:
            return self.report()._repr_html_()
        except (Error, ImportError):  # the file was removed, or only the recorder is installed
            return None
