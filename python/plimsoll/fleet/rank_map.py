"""The peak of each rank and step of a run, for pictures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from plimsoll.fleet.answer import Answer

MOST_CELLS = 500_000
ORDER = ("pp", "ep", "tp", "cp", "dp")  # so that ranks that are compared are neighbors


@dataclass
class MapRank:
    """A rank; `peaks` has its columns, by their first step."""

    rank: int
    group: int
    has_failed: bool
    has_rest: bool = False  # the last step has not ended
    peaks: dict[int, int] = field(default_factory=dict)


@dataclass
class RankMap:
    """The ranks by their coordinates. A column stands for `each` steps, by the highest."""

    ranks: list[MapRank]
    each: int = 1


def map_of(answer: Answer, rows: list[dict[str, Any]]) -> RankMap:
    """Return the map of the ranks of an answer."""

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        return (row["group"], *(row[axis] or 0 for axis in ORDER), row["rank"])

    ranks = {
        row["rank"]: MapRank(row["rank"], row["group"], row["ooms"] > 0)
        for row in sorted(answer.ranks, key=place)
    }
    for row in rows:
        rank = ranks[row["rank"]]
        rank.peaks[row["first_step"]] = row["peak_bytes"]
        rank.has_rest = row["has_rest"]
    return RankMap(list(ranks.values()), rows[0]["each"] if rows else 1)
