"""The compiled half of plimsoll. Private: use the package."""

from collections.abc import Callable


def version() -> str: ...

class Session:
    """An opened recording; immutable."""

    def report_json(self) -> str:
        """The report as JSON text."""

    def export_to(self, format: str, write: Callable[[bytes], object]) -> None:
        """Hands the recording in another format to `write`, piece by piece."""

def open(path: bytes, device: str, at: str, top: int, progress: Callable[[str, int, int], object] | None) -> Session:
    """Reads and analyses a file. Empty strings ask for the default."""

def export_formats() -> list[tuple[str, str, str]]:
    """Name, description and suffix of each export format."""
