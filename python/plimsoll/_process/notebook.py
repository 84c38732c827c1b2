"""The cells of a notebook, which reports name by number: In[2]."""

from __future__ import annotations

import sys


def cells() -> dict[str, int] | None:
    """Return the number of each cell that has run, by file name; None outside notebooks.

    This is IPython's own table, which grows with the notebook.
    """
    find_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    compiler = getattr(find_shell() if find_shell else None, "compile", None)
    known = getattr(compiler, "_filename_map", None)
    return known if type(known) is dict else None


def file_name(file: str, known: dict[str, int] | None) -> str:
    """Return the name of a cell in reports."""
    number = known.get(file) if known else None
    return file if number is None else f"In[{number}]"
