"""What one recording adds to a fleet, as Parquet files in memory."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

import plimsoll
from plimsoll import _core
from plimsoll._process.packages import needed
from plimsoll.errors import InvalidArgumentError
from plimsoll.fleet.folder import SITES, TABLES, fetched, is_remote

AXES = ("dp", "tp", "pp", "ep", "cp")


@dataclass(frozen=True)
class RunOptions:
    """What the user says about the recordings of one `add`."""

    run: str
    commit: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    mesh: tuple[tuple[str, int], ...] = ()  # outermost axis first
    keeps_path: bool = True  # False: the recordings are temporary

    def coordinates(self, rank: int) -> dict[str, int | None]:
        """Return the coordinates of a rank; ranks count along the last axis first.

        Raises:
            InvalidArgumentError: The mesh has fewer ranks.
        """
        found: dict[str, int | None] = dict.fromkeys(AXES)
        rest = rank
        for axis, size in reversed(self.mesh):
            rest, found[axis] = divmod(rest, size)
        if self.mesh and rest > 0:
            raise InvalidArgumentError(
                "invalid_argument",
                f"rank {rank} is not in the mesh, which has {self.world_size} ranks",
            )
        return found

    @property
    def world_size(self) -> int | None:
        """The number of ranks of the mesh."""
        return math.prod(size for _, size in self.mesh) if self.mesh else None


@dataclass(frozen=True)
class Part:
    """What a recording adds: a file for each table, or the reason why there is none."""

    path: str
    rank: int = 0
    identity: str = ""  # of the recording: adding it again replaces it
    sites: str = ""  # of the content of the table `sites`
    files: dict[str, bytes] = field(default_factory=dict)
    problem: str = ""

    @property
    def name(self) -> str:
        """The name of its files, without the table and the run."""
        return f"rank{self.rank:05d}-{self.identity}"


def partial(path: str, options: RunOptions) -> Part:
    """Read a recording, on a disk or an object store. Errors are in the part, not raised."""
    try:
        if not is_remote(path):
            return _partial(path, path, options)
        with tempfile.TemporaryDirectory(prefix="plimsoll-") as scratch:
            return _partial(fetched(path, scratch), path, options)
    except (plimsoll.Error, OSError) as error:
        text = str(error)
        return Part(path, problem=text if path in text else f"{path}: {text}")


def _partial(local: str, path: str, options: RunOptions) -> Part:
    pa: Any = needed("pyarrow")
    tables = _core.fleet_tables(_core.open(os.fsencode(local), None))
    return part_of(path, {each.name: pa.table(each) for each in tables}, options)


def part_of(path: str, tables: dict[str, Any], options: RunOptions) -> Part:
    """Make the files of a recording's tables."""
    pa: Any = needed("pyarrow")
    facts = tables["ranks"].to_pylist()[0]
    rank = 0 if facts["rank"] is None else facts["rank"]
    # A recording keeps its identity while it grows; a snapshot without a time is its content.
    about = [facts["host"], facts["started_ns"], facts["command"]]
    if facts["started_ns"] is None:
        about.append(_hash(*(_content(tables[name]) for name in TABLES)))
    identity = _hash(json.dumps(about).encode())
    own: dict[str, Any] = {
        "path": _lasting(path) if options.keeps_path else "",
        "world_size": options.world_size or facts.get("world_size"),
        "commit": options.commit,
        "tags": json.dumps(options.tags, sort_keys=True),
        **options.coordinates(rank),
        "identity": identity,
        "replaces": "",
        "added_ns": time.time_ns(),
    }
    ranks = tables["ranks"]
    ranks = ranks.drop_columns([name for name in ranks.column_names if name in ("rank", *own)])
    for name, value in own.items():
        kind = (
            pa.int64() if isinstance(value, int) or name in (*AXES, "world_size") else pa.string()
        )
        ranks = ranks.append_column(name, pa.array([value], kind))
    content = parquet_bytes(tables[SITES])
    files = {SITES: content}
    for name in TABLES:
        table = ranks if name == "ranks" else tables[name]
        rows = table.num_rows
        table = table.add_column(0, "rank", pa.repeat(pa.scalar(rank, pa.int64()), rows))
        table = table.add_column(0, "run", pa.repeat(pa.scalar(options.run), rows))
        files[name] = parquet_bytes(table)
    return Part(path, rank, identity, _hash(content), files)


def _lasting(path: str) -> str:
    return path if is_remote(path) else os.path.abspath(path)


def _hash(*contents: bytes) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for content in contents:
        digest.update(content)
    return digest.hexdigest()


def _content(table: Any) -> bytes:
    return json.dumps([row | {"path": ""} for row in table.to_pylist()]).encode()


def parquet_bytes(table: Any) -> bytes:
    """Return the table as a Parquet file, without statistics that only large files need."""
    pq: Any = needed("pyarrow.parquet")
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd", store_schema=False)
    return out.getvalue()
