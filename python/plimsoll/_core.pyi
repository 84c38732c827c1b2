"""The compiled half of plimsoll. Private: use the package."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any


def version() -> str: ...

class Session:
    """An opened recording; immutable."""

    def report_json(self) -> str:
        """The report as JSON text."""

    def report_text(self, width: int, top: int, tables: Sequence[str], color: bool) -> str:
        """The report as a person reads it."""

    def export_to(self, format: str, write: Callable[[bytes], object]) -> None:
        """Hands the recording in another format to `write`, piece by piece."""

def open(path: bytes, device: str, at: str, top: int, progress: Callable[[str, int, int], object] | None) -> Session:
    """Reads and analyses a file. Empty strings ask for the default."""

def open_bytes(data: bytes, name: str, device: str, at: str, top: int, progress: Callable[[str, int, int], object] | None) -> Session:
    """The same for a recording in memory."""

def export_formats() -> list[tuple[str, str, str]]:
    """Name, description and suffix of each export format."""

class Table:
    """
    Columns of a recording, for anything that reads the Arrow PyCapsule interface:
    ``pyarrow.table(table)``, ``polars.DataFrame(table)``, ``duckdb.sql(...)``.

    The columns are not copied: they keep the recording in memory as long as anyone has them.
    """

    @property
    def name(self) -> str:
        """Such as ``events``."""

    @property
    def columns(self) -> dict[str, str]:
        """What each column says, by its name."""

    def __len__(self) -> int: ...

    def __repr__(self) -> str: ...

    def __arrow_c_schema__(self) -> object: ...

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

    def to_pydict(self, begin: int = 0, end: int | None = None) -> dict[str, list[Any]]:
        """
        Each column as a list of Python's own objects; for small tables, or without Arrow.

        Only rows from `begin` to before `end`, which are 0 or more.
        """

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Each row as a dict; for small tables, or without Arrow."""

    def to_pandas(self) -> Any:
        """
        A ``pandas.DataFrame``. Its values pass through Python: for millions of rows
        ``pyarrow.table(table).to_pandas()`` is faster. Raises ImportError without pandas.
        """

def table(session: Session, name: str) -> Table:
    """One of the recording's own tables."""
