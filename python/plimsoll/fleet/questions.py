"""Questions to a fleet. DuckDB answers them; the SQL is in the folder sql."""

from __future__ import annotations

import os
import tempfile
import weakref
from importlib.resources import files as package_files
from typing import Any

from plimsoll._process.packages import needed
from plimsoll.errors import Error, InvalidArgumentError, NotFoundError
from plimsoll.fleet.answer import Answer, History
from plimsoll.fleet.causes import causes_of
from plimsoll.fleet.folder import SITES, TABLES, VERSION, Folder, damaged, run_of
from plimsoll.fleet.rank_map import MOST_CELLS, RankMap, map_of
from plimsoll.fleet.verdicts import verdicts_of

KEYS = {
    "line": "coalesce(nullif(text, ''), nullif(function, ''), operator) || '|' || layer",
    "layer": "layer",
    "category": "category",
}
LAST_RUNS = 10  # of a history, that the next one is compared with


def open(folder: str | os.PathLike[str]) -> Fleet:
    """Open a fleet to ask it questions. It does not include parts that are added later.

    Raises:
        NotFoundError: There is no fleet.
    """
    return Fleet(Folder(folder))


class Fleet:
    """An opened fleet. `sql` sees the tables runs, ranks, steps, peaks, sites and findings.

    Attributes:
        runs: The names of all runs, sorted.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._scratch = tempfile.TemporaryDirectory(prefix="plimsoll-fleet-")
        self._parts: dict[str | None, list[str]] = {}  # by run; None: joined ones of several
        for name in folder.names("ranks"):
            self._parts.setdefault(run_of(name), []).append(name.removeprefix("ranks/"))
        if not self._parts:
            raise _nothing_in(folder)
        self._database: Any = needed("duckdb").connect(
            config={"autoinstall_known_extensions": "false", "temp_directory": self._scratch.name}
        )
        self._database.execute("set enable_progress_bar = false")
        self._shown: tuple[frozenset[str], tuple[str, ...]] = (frozenset(), ())
        weakref.finalize(self, self._scratch.cleanup)
        known = {run for run in self._parts if run is not None}
        if None in self._parts:
            files = _literal(self._paths("ranks", []))
            known |= {
                row["run"] for row in self._all(f"select distinct run from read_parquet({files})")
            }
        self.runs = sorted(known)

    def sql(self, query: str) -> Any:
        """Return DuckDB's relation for a query of the tables; all runs are in them.

        Example:
            >>> fleet.sql("select run, max(peak_bytes) from ranks group by run").arrow()
            ... # doctest: +SKIP
        """
        self._load(self.runs, TABLES)
        return self._database.sql(query)

    def rows(self, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the names of the columns, and the rows, of the last statement of a query."""
        self._load(self.runs, TABLES)
        cursor = self._database.execute(query)
        return [column[0] for column in cursor.description or ()], cursor.fetchall()

    def show(
        self,
        run: str | None = None,
        *,
        against: str | None = None,
        by: str = "line",
    ) -> Answer:
        """Return what matters about a run: the rank that failed or differs first, and in what.

        Args:
            run: Its name; by default the one that began last.
            against: An earlier run to compare it with.
            by: How bytes are grouped: ``line``, ``layer`` or ``category``; or ``rank``, to list
                every rank.

        Raises:
            InvalidArgumentError: There is no such run.
        """
        if by not in (*KEYS, "rank"):
            raise InvalidArgumentError(
                "invalid_argument", f"by is {by!r}; it may be {', '.join(KEYS)}, rank"
            )
        for name in (run, against):
            if name is not None and name not in self.runs:
                raise self._no_run(name)
        if run is None:
            run = self._latest()
        if run == against:
            raise InvalidArgumentError(
                "invalid_argument", f"run {run} would be compared with itself; name another run"
            )
        shown = [run] if against is None else [run, against]
        self._load(shown, TABLES)
        key = KEYS.get(by, KEYS["line"])
        answer = Answer(
            by=by,
            run=self._one("select * from runs where run = $run", run=run),
            ranks=self._rows("ranks", run=run),
            findings=self._rows("findings", run=run),
        )
        odd = answer.differing
        if odd is not None:
            members = [row["rank"] for row in answer.ranks if row["group"] == odd["group"]]
            answer.differences = self._rows(
                "causes",
                {"key": key},
                run=run,
                rank=odd["rank"],
                members=members,
            )
            before = self._peak(run, answer.alike(odd)["rank"])
            after = self._peak(run, odd["rank"])
            answer.causes = causes_of(before, after, odd["steps"], answer.run["command"])
        if against is not None:
            answer.against = self._one("select * from runs where run = $run", run=against)
            answer.changes = self._rows("against", {"key": key}, run=run, against=against)
        answer.verdicts = verdicts_of(answer)
        return answer

    def history(self, *, last: int = LAST_RUNS) -> History:
        """Return the peak of each run by start time, and each change within its workload.

        Args:
            last: Number of runs whose range the next one is compared with.
        """
        self._load(self.runs, ("ranks",))
        return History(self._rows("history", {"last": int(last)}))

    def map(self, answer: Answer) -> RankMap:
        """Return the peak of each rank and step of an answer's run.

        If there are too many, a column stands for several steps, by the highest.
        """
        run = answer.run["run"]
        self._load([run], TABLES)
        found = self._rows("map", {"cells": MOST_CELLS}, run=run)
        return map_of(answer, found)

    def _peak(self, run: str, rank: int) -> list[dict[str, Any]]:
        return self._all(
            "select * from peaks join sites using (site) join ranks using (run, rank, device)"
            " where point = 'peak' and run = $run and rank = $rank order by site",
            run=run,
            rank=rank,
        )

    def _latest(self) -> str:
        if len(self.runs) == 1:
            return self.runs[0]
        self._load(self.runs, ("ranks",))
        latest = self._one("select run from runs order by started_ns desc nulls last, run limit 1")
        return str(latest["run"])

    def _load(self, runs: list[str], tables: tuple[str, ...]) -> None:
        """Make the views of these runs."""
        wanted = (frozenset(runs), tables)
        if wanted == self._shown:
            return
        duckdb: Any = needed("duckdb")
        try:
            self._make_views(runs, tables)
        except duckdb.Error as error:
            self._shown = (frozenset(), ())
            raise self._why(runs, tables) from error
        self._shown = wanted

    def _make_views(self, runs: list[str], tables: tuple[str, ...]) -> None:
        self._database.execute(_sql("views", {"files": _literal(self._paths("ranks", runs))}))
        for table in tables:
            if table != "ranks":
                files = _literal(self._paths(table, runs))
                self._database.execute(_sql("part", {"table": table, "files": files}))
        if tables == TABLES:
            names = self._folder.on_this_machine(self._folder.names(SITES), self._scratch.name)
            self._database.execute(_sql("sites", {"files": _literal(names)}))

    def _why(self, runs: list[str], tables: tuple[str, ...]) -> Error:
        """Return which file cannot be read; or that files have changed meanwhile."""
        for table in tables:
            for part in self._parts_of(runs):
                name = f"{table}/{part}"
                try:
                    columns = self._folder.columns(name)
                except (OSError, ValueError):
                    columns = []
                if not {"run", "rank"} <= set(columns):
                    return damaged(self._folder, name)
        return Error("changed", f"{self._folder.text} has changed or is incomplete; ask again")

    def _paths(self, table: str, runs: list[str]) -> list[str]:
        """Return the files that have the runs."""
        names = [f"{table}/{part}" for part in self._parts_of(runs)]
        return self._folder.on_this_machine(names, self._scratch.name)

    def _parts_of(self, runs: list[str]) -> list[str]:
        """Return the parts that have the runs; joined ones also have others."""
        of_runs = [part for run in runs for part in self._parts.get(run, [])]
        return of_runs + self._parts.get(None, [])

    def _rows(
        self, name: str, words: dict[str, Any] | None = None, **values: Any
    ) -> list[dict[str, Any]]:
        return self._all(_sql(name, words), **values)

    def _all(self, query: str, **values: Any) -> list[dict[str, Any]]:
        duckdb: Any = needed("duckdb")
        try:
            cursor = self._database.execute(query, values)
        except duckdb.Error as error:
            raise self._why(self.runs, TABLES) from error
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _one(self, query: str, **values: Any) -> dict[str, Any]:
        return self._all(query, **values)[0]

    def _no_run(self, name: str) -> InvalidArgumentError:
        known = self.runs
        some = ", ".join(known[:10]) + (f" and {len(known) - 10} more" if len(known) > 10 else "")
        return InvalidArgumentError(
            "invalid_argument", f"{self._folder.text} has no run {name}; it has {some}"
        )


def _nothing_in(folder: Folder) -> Exception:
    newer = [each for each in folder.versions() if each > VERSION]
    if newer:
        return InvalidArgumentError(
            "unsupported",
            f"{folder.text} was written by a newer Plimsoll (layout {newer[-1]}); update this one",
        )
    return NotFoundError(
        "not_found",
        f"{folder.text} is not a fleet; plimsoll fleet add {folder.text} FILE… makes one",
    )


def _sql(name: str, words: dict[str, Any] | None = None) -> str:
    text = package_files("plimsoll.fleet").joinpath(f"sql/{name}.sql").read_text(encoding="utf-8")
    for word, value in (words or {}).items():
        text = text.replace("{" + word + "}", str(value))
    return text


def _literal(paths: list[str]) -> str:
    return "[" + ", ".join("'" + path.replace("'", "''") + "'" for path in paths) + "]"
