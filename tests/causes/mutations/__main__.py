"""How many variants of the planted programs have the first finding of the unchanged program.

    python -m tests.causes.mutations [--jobs N] [--sample N --seed S] [PROGRAM|GROUP|TOPIC...]
    python -m tests.causes.mutations --rejudge FOLDER

Prints two tables, and writes the differences to FOLDER/differences.tsv. --keep FOLDER keeps the
recordings; a later run with the same folder records only what it lacks. --rejudge judges them again
without torch; with --plimsoll COMMAND, that command judges.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

from tests.causes.mutations.judging import (
    judged,
    print_by_mutation,
    print_by_topic,
    write_differences,
)
from tests.causes.mutations.recording import MUTATIONS, planted, record, rows_of


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("programs", nargs="*", help="default: all planted programs")
    parser.add_argument("--mutation", action="append", choices=MUTATIONS, help="default: all")
    parser.add_argument("--jobs", type=int, default=1, help="mutations recorded at the same time")
    parser.add_argument(
        "--sample", type=int, metavar="N", help="only N of the programs; larger samples include it"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--keep", type=Path, help="the folder of the recordings")
    parser.add_argument("--rejudge", type=Path, help="judge the recordings of a folder")
    parser.add_argument("--plimsoll", help="the command that judges, instead of the package")
    parser.add_argument("--differences", type=Path, help="default: differences.tsv in the folder")
    chosen = parser.parse_args()
    names = planted(set(chosen.programs))
    if chosen.sample:
        mixed = random.Random(chosen.seed).sample(names, len(names))
        names = [name for name in names if name in mixed[: chosen.sample]]
    with tempfile.TemporaryDirectory() as temporary:
        folder = (chosen.rejudge or chosen.keep or Path(temporary)).resolve()
        if chosen.rejudge:
            recorded = {program for program, _ in rows_of(folder)}
            names = [name for name in names if name in recorded]
        else:
            record(names, chosen.mutation or list(MUTATIONS), folder, chosen.jobs)
        variants = judged(folder, names, chosen.plimsoll)
        print_by_mutation(variants)
        print()
        print_by_topic(variants)
        kept = folder if folder != Path(temporary).resolve() else Path()
        write_differences(variants, chosen.differences or kept / "differences.tsv")


if __name__ == "__main__":
    main()
