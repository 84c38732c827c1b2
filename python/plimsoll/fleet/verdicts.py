"""The verdicts about a run, phrased like those of `plimsoll report` for several ranks."""

from __future__ import annotations

import shlex
from typing import Any

from plimsoll._process.sizes import size_text
from plimsoll.fleet.answer import Answer
from plimsoll.fleet.words import count_text, named

MOST_EVIDENCE = 4


def verdicts_of(answer: Answer) -> list[dict[str, Any]]:
    """Return the verdicts: a failure, a rank that differs, a change, a finding of the ranks."""
    found = [_failure(answer), _difference(answer), _change(answer), _finding(answer)]
    return [each for each in found if each is not None]


def _finding(answer: Answer) -> dict[str, Any] | None:
    """The first finding of the ranks' own reports that is no mere fact and said nowhere else."""
    for row in answer.findings:
        if row["severity"] != "info" and row["id"] != "out_of_memory":
            ranks = f"rank {row['example_rank']}"
            if row["ranks"] > 1:
                ranks = f"{count_text(row['ranks'])} ranks, such as {ranks}"
            title = f"{row['title']} ({ranks})"
            return _verdict(row["id"], row["severity"], title, [], row["next_step"])
    return None


def _verdict(
    name: str, severity: str, title: str, evidence: list[str], step: str
) -> dict[str, Any]:
    return {
        "id": name,
        "severity": severity,
        "title": title,
        "evidence": evidence[:MOST_EVIDENCE],
        "next_step": step,
    }


def _failure(answer: Answer) -> dict[str, Any] | None:
    failed = [row for row in answer.ranks if row["ooms"]]
    if not failed:
        return None
    first = failed[0]
    title = f"Rank {first['rank']} ran out of memory"
    if len(failed) > 1:
        title += f" first; {count_text(len(failed))} ranks did"
    evidence = [first["oom_cause"] + "."] if first["oom_cause"] else []
    if first["oom_request_bytes"] and not first["oom_cause"]:
        evidence.append(f"It requested {size_text(first['oom_request_bytes'])}.")
    if first is answer.differing:
        evidence += _where(answer, first)
    for later in failed[1:]:
        if later["oom_time_ns"] is not None and first["oom_time_ns"] is not None:
            seconds = (later["oom_time_ns"] - first["oom_time_ns"]) / 1e9
            evidence.append(f"Rank {later['rank']} did {seconds:,.1f} s later, by its own clock.")
    step = f"Read its report: plimsoll report {_path(first)}"
    return _verdict("out_of_memory", "critical", title, evidence, step)


def _difference(answer: Answer) -> dict[str, Any] | None:
    odd = answer.differing
    if odd is None:
        return None
    differing = [row for row in answer.ranks if row["differs"]]
    side = "above" if odd["difference_bytes"] > 0 else "below"
    title = (
        f"Rank {odd['rank']} peaks at {size_text(odd['peak_bytes'])},"
        f" {size_text(abs(odd['difference_bytes']))} {side} {_usual(odd)}"
        f" ({size_text(odd['usual_bytes'])})"
    )
    evidence = _where(answer, odd)
    if len(differing) > 1:
        others = ", ".join(str(row["rank"]) for row in differing[1:6])
        more = ", …" if len(differing) > 6 else ""
        evidence.append(
            f"{count_text(len(differing))} of {count_text(len(answer.ranks))} ranks differ: also"
            f" {others}{more}."
        )
    alike = answer.alike(odd)
    evidence += [f"Compared with rank {alike['rank']}, {text}" for text in answer.causes]
    step = f"Compare it with rank {alike['rank']}: plimsoll diff {_path(alike)} {_path(odd)}"
    return _verdict("ranks_differ", "warning", title, evidence, step)


def _usual(row: dict[str, Any]) -> str:
    if row["members"] == 2:
        return "the other rank"
    place = ", ".join(f"{axis} {row[axis]}" for axis in ("tp", "pp", "ep") if row[axis] is not None)
    return f"the median of {count_text(row['members'])} ranks" + (f" at {place}" if place else "")


def _path(row: dict[str, Any]) -> str:
    return shlex.quote(row["path"]) if row["path"] else "RECORDING"


def _where(answer: Answer, rank: dict[str, Any]) -> list[str]:
    if not answer.differences:
        return []
    row = answer.differences[0]
    sign = "more" if row["difference_bytes"] > 0 else "less"
    usually = "on the other rank" if rank["members"] == 2 else "in the median"
    return [
        f"{size_text(abs(row['difference_bytes']))} {sign} is in {named(answer.by, row)}:"
        f" {size_text(row['bytes'])} at its peak, {size_text(row['usual_bytes'])} {usually}."
    ]


def _change(answer: Answer) -> dict[str, Any] | None:
    if answer.against is None:
        return None
    before, now = answer.against, answer.run
    # The median first: one odd rank would hide what has changed on all others.
    kinds = {"median": "median_peak_bytes", "highest": "peak_bytes"}
    changes = {what: now[key] - before[key] for what, key in kinds.items()}
    large = [
        what
        for what, key in kinds.items()
        if abs(changes[what]) >= max(1 << 20, 0.01 * before[key])
    ]
    if not large:
        return None
    what, change = large[0], changes[large[0]]
    title = (
        f"The {what} peak of run {now['run']} is {size_text(now[kinds[what]])},"
        f" {size_text(abs(change))} {'above' if change > 0 else 'below'} that of {before['run']}"
        f" ({size_text(before[kinds[what]])})"
    )
    evidence = [
        f"{'+' if row['difference_bytes'] > 0 else '-'}{size_text(abs(row['difference_bytes']))}:"
        f" {named(answer.by, row)}, {size_text(row['before_bytes'])} before."
        for row in answer.changes[:3]
    ]
    step = "Review what changed at these lines between the two runs"
    if now["commit"] and before["commit"]:
        step += f": git diff {before['commit']} {now['commit']}"
    return _verdict("peak_changed", "warning" if change > 0 else "info", title, evidence, step)
