"""``plimsoll fleet``: the command line of `plimsoll.fleet`."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any


def main(words: list[str]) -> int:
    """Run one of add, show, sql and finish; returns the exit status."""
    options = _options(words)
    from plimsoll.errors import Error, InvalidArgumentError

    try:
        status = int(options.run_action(options))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except InvalidArgumentError as error:
        print(f"plimsoll: {error}", file=sys.stderr)
        return 2
    except (Error, OSError, ModuleNotFoundError) as error:
        print(f"plimsoll: {error}", file=sys.stderr)
        return 3
    except RuntimeError as error:
        if "interrupted" not in str(error):  # so DuckDB calls Ctrl-C
            raise
        return 130
    except KeyboardInterrupt:
        return 130


def _options(words: list[str]) -> Any:
    parser = argparse.ArgumentParser(prog="plimsoll fleet", allow_abbrev=False)
    actions = parser.add_subparsers(required=True)

    add = actions.add_parser("add", allow_abbrev=False)
    add.set_defaults(run_action=_add)
    add.add_argument("folder")
    add.add_argument("recordings", nargs="*")
    add.add_argument("--run")
    add.add_argument("--commit", default="")
    add.add_argument("--tag", action="append", default=[])
    add.add_argument("--mesh", default="")
    add.add_argument("--replace", action="store_true")
    add.add_argument("--ray", metavar="ADDRESS")
    add.add_argument("--temporary", action="store_true")  # for plimsoll check

    show = actions.add_parser("show", allow_abbrev=False)
    show.set_defaults(run_action=_show)
    show.add_argument("folder")
    show.add_argument("--run")
    show.add_argument("--against")
    show.add_argument("--by", default="line")
    show.add_argument("--history", action="store_true")
    show.add_argument("--json", action="store_true")
    show.add_argument("--html")

    ranks = actions.add_parser("ranks", allow_abbrev=False)  # for plimsoll plot
    ranks.set_defaults(run_action=_ranks)
    ranks.add_argument("folder")
    ranks.add_argument("--run")

    finish = actions.add_parser("finish", allow_abbrev=False)
    finish.set_defaults(run_action=_finish)
    finish.add_argument("folder")
    finish.add_argument("--run")

    sql = actions.add_parser("sql", allow_abbrev=False)
    sql.set_defaults(run_action=_sql)
    sql.add_argument("folder")
    sql.add_argument("query")
    return parser.parse_args(words)


def _add(options: Any) -> int:
    from plimsoll import fleet
    from plimsoll.errors import InvalidArgumentError
    from plimsoll.fleet import runners

    tags: dict[str, str] = {}
    for name, value in map(_tag, options.tag):
        if tags.setdefault(name, value) != value:
            raise InvalidArgumentError("invalid_argument", f"--tag {name} is given twice")
    added = fleet.add(
        options.folder,
        options.recordings,
        run=options.run,
        commit=options.commit,
        tags=tags,
        mesh=options.mesh,
        replace=options.replace,
        are_temporary=options.temporary,
        runner=runners.on_ray(options.ray) if options.ray else runners.processes,
        progress=_progress(),
    )
    for problem in added.problems:
        print(f"plimsoll: {problem}", file=sys.stderr)
    ranks = "rank" if len(added.ranks) == 1 else "ranks"
    some = ", ".join(map(str, added.ranks[:8])) + (", …" if len(added.ranks) > 8 else "")
    what = f"{len(added.ranks):,} {ranks} ({some})" if added.ranks else "nothing"
    print(f"{options.folder}: added {what} to run {added.run}")
    return 3 if added.problems else 0


def _finish(options: Any) -> int:
    from plimsoll import fleet

    joined = fleet.finish(options.folder, options.run)
    print(f"{options.folder}: joined {joined:,} files of each table")
    return 0


def _tag(text: str) -> tuple[str, str]:
    from plimsoll.errors import InvalidArgumentError

    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InvalidArgumentError(
            "invalid_argument", f"--tag is {text!r}; it should be NAME=VALUE"
        )
    return name, value


def _progress() -> Any:
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        end = "\n" if done == total else ""
        print(f"\r{done:,} of {total:,} recordings", end=end, file=sys.stderr, flush=True)

    return show


def _show(options: Any) -> int:
    from plimsoll import fleet
    from plimsoll._process.replaced_file import write_replacing
    from plimsoll._process.sizes import size_text
    from plimsoll.errors import InvalidArgumentError

    for one, others in (("history", ("run", "against", "html")), ("html", ("json",))):
        for other in others:
            if getattr(options, one) and getattr(options, other):
                raise InvalidArgumentError(
                    "invalid_argument", f"--{one} and --{other} exclude each other"
                )
    if options.html and os.path.exists(options.html):
        raise InvalidArgumentError("invalid_argument", f"{options.html} exists; remove it first")
    opened = fleet.open(options.folder)
    answer: Any
    if options.history:
        answer = opened.history()
    else:
        answer = opened.show(options.run, against=options.against, by=options.by)
    if options.html:
        from plimsoll.fleet.page import page

        write_replacing(options.html, lambda write: write(page(opened, answer).encode()))
        print(f"{options.html} ({size_text(os.path.getsize(options.html))})")
    else:
        print(answer.json() if options.json else answer)
    return 0


def _ranks(options: Any) -> int:
    from plimsoll import fleet

    opened = fleet.open(options.folder)
    answer = opened.show(options.run)
    print(answer.run["run"])
    for rank in opened.map(answer).ranks:
        peaks = " ".join(f"{step} {peak}" for step, peak in rank.peaks.items())
        print(rank.rank, rank.group, int(rank.has_failed), int(rank.has_rest), peaks)
    return 0


def _sql(options: Any) -> int:
    from plimsoll import fleet
    from plimsoll._process.packages import needed
    from plimsoll.errors import InvalidArgumentError

    query = sys.stdin.read() if options.query == "-" else options.query
    try:
        names, rows = fleet.open(options.folder).rows(query)
    except needed("duckdb").Error as error:
        raise InvalidArgumentError("invalid_argument", str(error)) from error
    cells = [names, *([("" if each is None else str(each)) for each in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print("  ".join(map(str.ljust, row, widths)).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
