"""Converts any value to a name for the engine: a name must never stop the training."""

from __future__ import annotations

from collections.abc import Callable

from plimsoll._process.program_errors import leave_to_program


def text_of(value: object, convert: Callable[[object], str] = str) -> str:
    """Return ``str(value)`` or another text; the name of the type if that raises.

    Example:
        >>> text_of("a", repr)
        "'a'"
    """
    try:
        return str.__str__(convert(value))  # a plain str, also of a subclass
    except Exception as error:
        leave_to_program(error)
        return f"<{type(value).__name__}>"


def name_of(value: object) -> str:
    r"""Return the value as text that UTF-8 can encode; lone surrogates become escapes.

    Example:
        >>> name_of("\ud800"), name_of(7)
        ('\\ud800', '7')
    """
    return text_of(value).encode("utf-8", "backslashreplace").decode()
