"""Adds recordings to a fleet, and joins the small files of a run."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plimsoll._process.packages import needed
from plimsoll.errors import InvalidArgumentError, NotFoundError
from plimsoll.fleet.folder import (
    JOINED,
    SITES,
    TABLES,
    Folder,
    damaged,
    is_remote,
    run_folder,
)
from plimsoll.fleet.partial import AXES, Part, RunOptions, parquet_bytes
from plimsoll.fleet.runners import Runner, processes

MOST_JOINED = 64 << 20  # bytes of the files that are joined into one for each table

MOST_NAME = 240  # bytes of a run's folder: file systems allow 255

Progress = Callable[[int, int], object]
"""Called with the number of recordings that are done, and of all."""


@dataclass
class Added:
    """Result of `add`."""

    run: str
    ranks: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # one sentence each, with the path


def add(
    folder: str | os.PathLike[str],
    recordings: Iterable[str | os.PathLike[str]],
    *,
    run: str | None = None,
    commit: str = "",
    tags: Mapping[str, str] | None = None,
    mesh: str = "",
    replace: bool = False,
    are_temporary: bool = False,
    runner: Runner = processes,
    progress: Progress | None = None,
) -> Added:
    """Add recordings, one for each rank, to a run of a fleet.

    A recording that was added before replaces its earlier state; so `add` may be repeated, in any
    order, also by several processes or machines at a time. Recordings that cannot be read are
    listed in the result; the others are added.

    Args:
        folder: The fleet: a folder, or an address such as ``s3://bucket/runs``. It is created.
        recordings: Paths or addresses of recordings, snapshots or traces.
        run: The name of the run; by default, that of the folder that contains the recordings.
        commit: The commit of the program.
        tags: Other facts about the run, by name.
        mesh: The axes of the device mesh, outermost first, such as ``pp=4,dp=8,tp=2``. Ranks that
            differ only in dp and cp are compared.
        replace: Let a recording replace another one of the same rank.
        are_temporary: The recordings will be deleted, so that their paths are of no use.
        runner: Where recordings are read.
        progress: Called after each recording.

    Raises:
        InvalidArgumentError: An argument is invalid.
        OSError: The fleet cannot be written.
    """
    paths = list(dict.fromkeys(os.fspath(each) for each in recordings))
    name = run or default_run(paths)
    if len(run_folder(name)) > MOST_NAME or not name.isprintable():
        raise InvalidArgumentError(
            "invalid_argument",
            f"the name {name[:40]!r} of the run should have at most {MOST_NAME // 3} characters,"
            " all printable",
        )
    options = RunOptions(name, commit, dict(tags or {}), mesh_of(mesh), not are_temporary)
    target = Folder(folder)
    store = _Store(target, options.run, replace)
    added = Added(options.run)
    try:
        for count, part in enumerate(runner(paths, options), start=1):
            problem = part.problem or store.put(part)
            if problem:
                added.problems.append(problem)
            else:
                added.ranks.append(part.rank)
            if progress is not None:
                progress(count, len(paths))
    finally:  # what was read before an error or Ctrl-C is not lost
        store.flush()
    added.ranks.sort()
    added.problems.sort()
    return added


def default_run(paths: Sequence[str]) -> str:
    """Return the name of the folder that contains all recordings.

    Raises:
        InvalidArgumentError: They are in several folders, or there are none.
    """
    folders = {
        os.path.dirname(each if is_remote(each) else os.path.abspath(each)) for each in paths
    }
    if len(folders) != 1:
        raise InvalidArgumentError(
            "invalid_argument",
            "the recordings are in several folders; name the run with --run"
            if folders
            else "name at least one recording",
        )
    return os.path.basename(folders.pop()) or "run"


def mesh_of(text: str) -> tuple[tuple[str, int], ...]:
    """Parse the axes of a device mesh, such as ``pp=4,dp=8,tp=2``.

    Raises:
        InvalidArgumentError: The text is not of this form.
    """
    if not text:
        return ()
    axes: list[tuple[str, int]] = []
    for word in text.split(","):
        match = re.fullmatch(rf"\s*({'|'.join(AXES)})\s*=\s*(\d{{1,6}})\s*", word)
        if match is None or int(match[2]) == 0:
            raise InvalidArgumentError(
                "invalid_argument",
                f"{text!r} is not a mesh: {word!r} should be an axis ({', '.join(AXES)}) and its"
                " size; write the outermost axis first, as in pp=4,dp=8,tp=2",
            )
        if match[1] in dict(axes):
            raise InvalidArgumentError("invalid_argument", f"{text!r} has {match[1]} twice")
        axes.append((match[1], int(match[2])))
    return tuple(axes)


class _Store:
    """Writes the parts of a run, many as one file; tracks the recordings that it already has."""

    MOST_WAITING = 1_024

    def __init__(self, folder: Folder, run: str, replace: bool) -> None:
        self.folder = folder
        self.run = run
        self.replace = replace
        self.identities: dict[int, set[str]] = {}  # by rank
        self.paths: dict[int, str] = {}  # of what was added just now
        self.sites: set[str] = set()
        self.waiting: dict[int, Part] = {}  # by rank
        self.replaced: dict[int, set[str]] = {}  # identities, by rank
        for name in folder.names(f"ranks/{run_folder(run)}") + folder.names(f"ranks/{JOINED}"):
            for rank, identity in _ranks_in(folder, name, run):
                self.identities.setdefault(rank, set()).add(identity)

    def put(self, part: Part) -> str:
        """Queue the part for writing. Return the reason for a refusal, or an empty text."""
        before = self.identities.setdefault(part.rank, set())
        other = self.paths.get(part.rank)
        if before - {part.identity} and (other or not self.replace):
            if other:
                return f"{part.path} and {other} are both rank {part.rank} of run {self.run}"
            return (
                f"{part.path}: run {self.run} already has another recording of rank {part.rank};"
                " use --run NAME for a new run, or --replace"
            )
        self.replaced[part.rank] = before - {part.identity}
        before.add(part.identity)
        self.paths[part.rank] = part.path
        self.waiting[part.rank] = part
        if len(self.waiting) == self.MOST_WAITING:
            self.flush()
        return ""

    def flush(self) -> None:
        """Write the queue."""
        parts = [part for _, part in sorted(self.waiting.items())]
        self.waiting = {}
        if not parts:
            return
        for part in parts:
            if part.sites not in self.sites:
                self.folder.write(f"{SITES}/{part.sites}", part.files[SITES])
                self.sites.add(part.sites)
        name = parts[0].name if len(parts) == 1 else joined_name(part.name for part in parts)
        for table in TABLES:
            files = [self._file(part, table) for part in parts]
            content = files[0] if len(files) == 1 else parquet_bytes(_joined(map(_table, files)))
            self.folder.write(f"{table}/{run_folder(self.run)}/{name}", content)

    def _file(self, part: Part, table: str) -> bytes:
        replaced = self.replaced[part.rank]
        if table != "ranks" or not replaced:
            return part.files[table]
        pa: Any = needed("pyarrow")
        rows = _table(part.files[table])
        column = pa.array([" ".join(sorted(replaced))])
        return parquet_bytes(
            rows.set_column(rows.column_names.index("replaces"), "replaces", column)
        )


def _ranks_in(folder: Folder, name: str, run: str) -> list[tuple[int, str]]:
    match = re.search(r"/rank(\d+)-([0-9a-f]{16})$", name)
    if match is not None:
        return [(int(match[1]), match[2])]
    rows = _read(folder, name, ["run", "rank", "identity"]).to_pylist()
    return [(row["rank"], row["identity"]) for row in rows if row["run"] == run]


def finish(folder: str | os.PathLike[str], run: str | None = None) -> int:
    """Join small files, of each table, into files of up to 64 MiB.

    A fleet answers the same before and after, and at any time between: other processes may read it
    and add to it. Thousands of small files are slow to read, above all in an object store.

    Args:
        folder: The fleet.
        run: Only this run; else a file contains several runs.

    Returns:
        The number of files that were joined, of each table.

    Raises:
        NotFoundError: There is no fleet, or no such run.
        OSError: The fleet cannot be written.
    """
    target = Folder(folder)
    names = target.names("ranks" if run is None else f"ranks/{run_folder(run)}")
    if not names and not (run and run in _joined_runs(target)):
        what = "is not a fleet" if run is None else f"has no run {run}"
        raise NotFoundError("not_found", f"{target.text} {what}")
    joined = 0
    batch: list[str] = []
    size = 0
    for name in names:
        own = sum(target.size(f"{table}{name.removeprefix('ranks')}") for table in TABLES)
        if own >= MOST_JOINED:
            continue
        if size + own > MOST_JOINED:
            joined += _join(target, run, batch)
            batch, size = [], 0
        batch.append(name.removeprefix("ranks/"))
        size += own
    return joined + _join(target, run, batch)


def _joined_runs(folder: Folder) -> set[str]:
    """Return the runs of the files that have several."""
    found: set[str] = set()
    for name in folder.names(f"ranks/{JOINED}"):
        found.update(_read(folder, name, ["run"])["run"].to_pylist())
    return found


def _join(folder: Folder, run: str | None, parts: list[str]) -> int:
    if len(parts) < 2:
        return 0
    pa: Any = needed("pyarrow")
    kept, of_ranks = _newest(folder, parts)
    where = JOINED if run is None else run_folder(run)
    for table in TABLES:
        pieces = []
        for part in parts:
            rows = _read(folder, f"{table}/{part}")
            keys = zip(rows["run"].to_pylist(), rows["rank"].to_pylist(), strict=True)
            if table == "ranks":
                added = zip(keys, rows["added_ns"].to_pylist(), strict=True)
                is_kept = [(*key, added_ns, part) in of_ranks for key, added_ns in added]
            else:
                is_kept = [kept.get(key) == part for key in keys]
            pieces.append(rows.filter(pa.array(is_kept, pa.bool_())))
        content = parquet_bytes(_joined(pieces))
        folder.write(f"{table}/{where}/{joined_name(parts)}", content)
    for part in parts:
        folder.delete([f"{table}/{part}" for table in reversed(TABLES)])
    return len(parts)


def _newest(
    folder: Folder, parts: list[str]
) -> tuple[dict[tuple[str, int], str], set[tuple[str, int, int, str]]]:
    """Return for each run and rank the part that counts: the one that was added last.

    Also return what the table `ranks` keeps, as run, rank, time and part: this one, and others that
    were added simultaneously, of which the answer names the paths.
    """
    newest: dict[tuple[str, int], dict[str, tuple[int, str, str]]] = {}  # then by identity
    for part in parts:
        rows = _read(folder, f"ranks/{part}")
        replaces = rows["replaces"].to_pylist() if "replaces" in rows.column_names else []
        columns = ["run", "rank", "added_ns", "identity"]
        for i, row in enumerate(rows.select(columns).to_pylist()):
            of_rank = newest.setdefault((row["run"], row["rank"]), {})
            candidate = (row["added_ns"], part, (replaces[i] if replaces else None) or "")
            of_rank[row["identity"]] = max(of_rank.get(row["identity"], candidate), candidate)
    kept = {}
    of_ranks = set()
    for key, of_rank in newest.items():
        last, (_, kept[key], replaced) = max(of_rank.items(), key=lambda each: each[1])
        for identity, (added_ns, part, _) in of_rank.items():
            if identity == last or identity not in replaced:
                of_ranks.add((*key, added_ns, part))
    return kept, of_ranks


def joined_name(parts: Iterable[str]) -> str:
    """Return the name of a file with the content of these parts."""
    return "all-" + hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


def _table(content: bytes, columns: list[str] | None = None) -> Any:
    pa, pq = needed("pyarrow"), needed("pyarrow.parquet")
    return pq.read_table(pa.BufferReader(content), columns=columns)


def _read(folder: Folder, name: str, columns: list[str] | None = None) -> Any:
    """Return the table of a file, or what is wrong with it."""
    pa: Any = needed("pyarrow")
    try:
        table = _table(folder.read(name), columns)
        if not set(columns or ("run", "rank")) <= set(table.column_names):
            raise damaged(folder, name)
        return table
    except pa.ArrowException as error:
        raise damaged(folder, name) from error


def _joined(pieces: Iterable[Any]) -> Any:
    """Join tables by name, sorted by their keys; a column that one lacks is null there."""
    whole = needed("pyarrow").concat_tables(pieces, promote_options="permissive")
    keys = [
        each for each in ("run", "rank", "device", "point", "step") if each in whole.column_names
    ]
    return whole.sort_by([(key, "ascending") for key in keys])
