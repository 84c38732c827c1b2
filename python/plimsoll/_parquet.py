"""Writes tables as Parquet files, with pyarrow."""

from __future__ import annotations

import os
from typing import Any

from plimsoll._core import Table
from plimsoll._process.packages import needed
from plimsoll._process.replaced_file import write_replacing


class _Output:
    """What pyarrow writes to."""

    closed = False

    def __init__(self, write: Any) -> None:
        self.write = write

    def flush(self) -> None:
        """Do nothing: nothing is kept back."""


def write_tables(tables: dict[str, Table], folder: str) -> list[str]:
    """Write each table into the folder, batch by batch; returns the paths.

    Raises:
        ModuleNotFoundError: pyarrow is not installed.
        OSError: A file cannot be written.
    """
    pa, pq = needed("pyarrow"), needed("pyarrow.parquet")
    os.makedirs(folder, exist_ok=True)
    paths = []
    for name, table in tables.items():
        path = os.path.join(folder, f"{name}.parquet")
        reader = pa.RecordBatchReader.from_stream(table)

        def write(piece: Any, reader: Any = reader) -> None:
            output = pa.PythonFile(_Output(piece), mode="w")
            with pq.ParquetWriter(output, reader.schema, compression="zstd") as writer:
                for batch in reader:
                    writer.write_batch(batch)

        write_replacing(path, write)
        paths.append(path)
    return paths
