"""Many ranks and many runs, compared without their recordings.

A fleet is a folder of Parquet files, on a disk or an object store. `add` writes a few kilobytes for
each recording; `open` compares them with DuckDB. docs/fleets.md describes the tables.

Needs pyarrow, and for questions DuckDB: ``pip install pyarrow duckdb``.

Example:
    >>> from plimsoll import fleet
    >>> fleet.add("runs", ["rank0.plim", "rank1.plim"], run="monday")  # doctest: +SKIP
    >>> fleet.open("runs").show(run="monday").verdicts[0]["title"]  # doctest: +SKIP
    'Rank 1 peaks at 30.7 GiB, 2.4 GiB above the median of 2 ranks'
"""

from plimsoll.fleet.adding import Added, add, finish
from plimsoll.fleet.answer import Answer
from plimsoll.fleet.questions import Fleet, open

__all__ = ["Added", "Answer", "Fleet", "add", "finish", "open"]
