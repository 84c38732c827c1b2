"""The analysis engine. Private: use the package."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any


def version() -> str: ...

class Report:
    """The answer to a question about a recording; immutable."""

    def json(self) -> str:
        """Return the report as JSON text."""

    def text(self, width: int, top: int, tables: Sequence[str], color: bool) -> str:
        """Return the report as text."""

class Session:
    """An opened recording."""

    def ask(self, device: str, at: str, top: int, progress: Callable[[str, int, int], object] | None) -> Report:
        """
        Run the analyses that no earlier question ran. Empty strings select the default.
        """

    def export_to(self, format: str, write: Callable[[bytes], object], device: str, at: str, top: int) -> None:
        """
        Write the recording in another format, passing it to `write` in pieces.
        """

def open(path: bytes, progress: Callable[[str, int, int], object] | None) -> Session:
    """Read a file."""

def open_bytes(data: bytes, name: str, progress: Callable[[str, int, int], object] | None) -> Session:
    """Read a recording in memory."""

class Difference:
    """The difference of two recordings; immutable."""

    def json(self) -> str:
        """Return the difference as JSON text."""

    def text(self, width: int, color: bool) -> str:
        """Return the difference as text."""

    def growth_bytes(self) -> int:
        """Return the largest growth of any point, in bytes."""

def diff(before: bytes, after: bytes, at: str, top: int, progress: Callable[[str, int, int], object] | None) -> Difference:
    """Compare two files."""

def export_formats() -> list[tuple[str, str, str]]:
    """Return the name, description and suffix of each export format."""

def parse_bytes(text: str) -> int | None:
    """Return a size such as ``48 MB`` in bytes, or None if it is not one."""

def is_too_large(text: str) -> bool:
    """Return whether the text is a size that does not fit into 63 bits."""

class Table:
    """
    Columns of a recording, for any reader of the Arrow PyCapsule interface:
    ``pyarrow.table(table)``, ``polars.DataFrame(table)``, ``duckdb.sql(...)``.

    The columns are not copied. They keep the recording in memory while they are in use.
    """

    @property
    def name(self) -> str:
        """Name of the table, such as ``events``."""

    @property
    def columns(self) -> dict[str, str]:
        """Description of each column, by name."""

    def __len__(self) -> int: ...

    def __repr__(self) -> str: ...

    def __arrow_c_schema__(self) -> object: ...

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

    def to_pydict(self, begin: int = 0, end: int | None = None) -> dict[str, list[Any]]:
        """
        Return each column as a list of Python objects; for small tables, or without Arrow.

        Returns rows `begin` to `end` - 1. Neither may be negative.
        """

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield each row as a dict; for small tables, or without Arrow."""

    def to_pandas(self) -> Any:
        """
        Return a ``pandas.DataFrame``. The values pass through Python: for millions of rows
        ``pyarrow.table(table).to_pandas()`` is faster. Raises ImportError without pandas.
        """

def fleet_tables(session: Session) -> list[Table]:
    """
    Return what a fleet keeps: the tables ranks, steps, peaks, sites and findings.
    """

def table_names() -> list[str]:
    """Return the names of the tables."""

def table(session: Session, name: str) -> Table:
    """Return one of the tables of the recording."""

class TracedEvents:
    """Events of a tracer's device; immutable."""

    def __len__(self) -> int: ...

    def fields_of(self, row: int) -> tuple[Any, ...]:
        """Return the fields of `MemoryEvent`, in its order."""

class TracedBlocks:
    """Sums the layers and keeps the newest events of a tracer's blocks."""

    def __init__(self, device: str, max_events: int) -> None: ...

    def add(self, block: Session, report: Report) -> None:
        """Add a block, given a report that was asked for all of its rows."""

    def events(self) -> TracedEvents:
        """Return the newest events."""

    def layers(self) -> list[tuple[Any, ...]]:
        """
        Return the fields of `LayerMemoryStats` for each layer, in their order.
        """
