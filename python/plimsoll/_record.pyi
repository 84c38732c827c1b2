"""The recorder. Private: use the package."""

from collections.abc import Mapping, Sequence


def version() -> str: ...

def api_address() -> int:
    """Where the C interface lies that an adapter is given."""

def is_recording() -> bool: ...

def mark_step(number: int) -> None:
    """A step ends here."""

def begin_region(name: str) -> None: ...

def end_region(name: str) -> None: ...

class Recording:
    """A running recording."""

    def __init__(self, path: bytes, max_events: int, in_children: bool, meta: Mapping[str, str]) -> None: ...

    def flush(self) -> None:
        """Returns when all events so far are in the file."""

    def stop(self) -> dict[str, int]:
        """Ends the file; what there was to count."""

    def state(self) -> dict[str, int]: ...

    def copy(self) -> bytes:
        """In memory: the trace as it would stand in a file."""

    def peak_bytes(self, reset: bool) -> int:
        """The most live bytes there were since the last reset."""

def stack(frames: Sequence[tuple[str, str, int]]) -> int:
    """(file, function, line), innermost first."""

def set_context(layer: str, op: str, stack: int, op_instance: int, phase: int) -> None:
    """What this thread is doing."""

def tensor(role: int, name: str, dtype: str, shape: str) -> int: ...

def device(type: str, ordinal: int) -> int: ...

def alloc(device: int, address: int, size_bytes: int) -> None: ...

def free(device: int, address: int) -> None: ...

def adopt(device: int, address: int, size_bytes: int, tensor: int) -> None: ...
