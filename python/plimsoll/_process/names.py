"""Names as the engine takes them, whatever the program passes: a name must not stop a training."""

from __future__ import annotations


def name_of(value: object) -> str:
    r"""The value as text in UTF-8; half characters become their escapes.

    Example:
        >>> name_of("\ud800"), name_of(7)
        ('\\ud800', '7')
    """
    return str(value).encode("utf-8", "backslashreplace").decode()
