"""Record what the suites record, once, into a folder. The judge then runs on it without torch.

    python -m tests.judge.archive FOLDER [SUITE...]

What the folder has is not recorded again. FOLDER/manifest.jsonl lists each file with its suite and,
if the suite has one, the expected answer. The list is written anew each time. Files of the samples
stay where they are.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.causes import registry

ROOT = Path(__file__).parents[2]
SAMPLES = Path(os.environ.get("PLIMSOLL_SAMPLES", ROOT.parent / "shared" / "samples")).resolve()
COMMAND = ROOT / "build/gate/src/cli/plimsoll"
CLEAN = "clean"  # in place of ids: no finding but facts about what fills the peak
PROGRAMS_IN_ONE_PROCESS = 24  # starting one takes longer than most programs
NEW = "run.plim"
RUN = ("-m", "plimsoll", "run", "-o", NEW)
SNAPSHOT = "import sys; from tests.snapshot_roles import write_as_snapshot as w; w(*sys.argv[1:])"

# Tests that make their files. A command in front of the real one keeps each file that is reported.
TESTS = (
    *("tests/golden", "tests/compat", "tests/test_findings.py", "tests/test_snapshot_variants.py"),
    *("tests/test_deep_models.py", "tests/test_snapshot_export.py", "tests/test_out_of_memory.py"),
    *("tests/test_questions.py", "tests/e2e/test_findings.py", "tests/e2e/test_oom_message.py"),
    *("tests/e2e/test_oom_verdicts.py", "tests/e2e/test_report.py", "tests/e2e/test_ranks.py"),
    *("python/tests/test_growth_agreement.py", "python/tests/test_open.py"),
)
KEEP = """#!/bin/sh
for word; do
  case "$word" in "{samples}"*) continue ;; esac
  if [ "$1" = report ] && [ -f "$word" ]; then
    sum=$(sha256sum <"$word" | cut -c1-12)
    mkdir -p "{folder}/$sum" && cp -n "$word" "{folder}/$sum/"
  fi
done
exec "{plimsoll}" "$@"
"""


class Entry(NamedTuple):
    """One file of the archive and the words after `python` that make it. What is right for it: the
    row of a program in tests/causes/expected.tsv, or `right`, the ids that may come first."""

    file: str
    words: tuple[str, ...] = ()
    program: str = ""
    right: list[str] | None = None


def causes(folder: Path) -> Iterator[Entry]:
    """The programs of the registry. One process records several, as in their tests."""
    for name in registry.table():
        yield Entry(f"causes/{name}.plim", program=name)


def snapshots(folder: Path) -> Iterator[Entry]:
    """The programs of the registry, as a snapshot of a GPU would have recorded them."""
    for file, _, name, _ in causes(folder):
        words = ("-c", SNAPSHOT, str(folder / file), "run.pickle")
        yield Entry(f"snapshots/{name}.pickle", words, name)


def uses(folder: Path) -> Iterator[Entry]:
    from tests.uses.fixes import FIXES
    from tests.uses.mechanisms import NAMES

    words = (*RUN, "--uses", "always", "-m")
    for name in NAMES:
        yield Entry(f"uses/{name}.plim", (*words, "tests.uses.programs", name))
    for name in FIXES:
        for at in ("before", "after"):
            yield Entry(f"uses/{name}.{at}.plim", (*words, "tests.uses.fixes", name, at))


def diff(folder: Path) -> Iterator[Entry]:
    for path in sorted(ROOT.glob("tests/diff/programs/*.py")):
        yield Entry(f"diff/{path.stem}.plim", (*RUN, str(path)))
    for path in sorted(SAMPLES.glob("diff/*/*/train.py")):
        name = path.parent.relative_to(SAMPLES / "diff")
        yield Entry(f"diff/{name}.plim", (*RUN, str(path)))


def reports(folder: Path) -> Iterator[Entry]:
    """Programs and files after public reports; for some, also the file after the fix."""
    fixed = {"30": "avoid", "33": "after", "37": "current"}
    for path in sorted(SAMPLES.glob("reports/*/*.py")):
        name = path.parent.name
        if path.name == "case.py":
            yield Entry(f"reports/{name}.plim", (*RUN, str(path)))
        elif path.name == "make_file.py":
            yield Entry(f"reports/{name}.pickle", (str(path),))
            if name[:2] in fixed:
                words = (str(path), fixed[name[:2]])
                yield Entry(f"reports/{name}.fixed.pickle", words)


def samples(folder: Path) -> Iterator[Entry]:
    from tests.test_findings import SAMPLES as IDS
    from tests.test_gpu_samples import HEALTHY, PLANTED

    patterns = ("snapshots/*", "kineto/*", "logs/*", "gpu/snapshots/*.pickle")
    gpu = ("gpu/recordings/*.plim", "gpu/recordings/*.pickle", "gpu/recordings/*.txt")
    for path in sorted(path for each in (*patterns, *gpu) for path in SAMPLES.glob(each)):
        right = IDS.get(path.name, [])[:1]
        if path.suffix == ".plim" and path.stem in PLANTED:
            right = sorted(PLANTED[path.stem][0])
        elif path.suffix == ".plim" and path.stem in HEALTHY:
            right = [CLEAN]
        is_known = path.parent in (SAMPLES / "snapshots", SAMPLES / "kineto")
        is_refused = path.name == "memory_timeline.raw.json.gz"  # no trace
        yield Entry(str(path), right=right if right or (is_known and not is_refused) else None)


def tests(folder: Path) -> Iterator[Entry]:
    from tests.test_findings import GENERATED

    for path in sorted(folder.glob("tests/*/*")):
        ids = GENERATED.get(path.stem)
        yield Entry(str(path.relative_to(folder)), right=ids and ids[:1])


SUITES = {each.__name__: each for each in (samples, reports, causes, uses, tests, diff, snapshots)}


def run(words: Iterable[str], cwd: Path, **environment: str) -> str:
    paths = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)])
    one_thread = {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths, "PLIMSOLL_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env=os.environ | one_thread | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        print(f"{shlex.join(words)}: {done.stdout[-800:]}", file=sys.stderr)
    return done.stdout


def move(new: Path, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(new, file)
    print(file, flush=True)


def record(entries: list[Entry], folder: Path) -> None:
    for file, words, *_ in entries:
        if words:
            with tempfile.TemporaryDirectory() as empty:
                run(words, Path(empty))
                written = sorted(Path(empty).iterdir(), key=lambda path: path.name != NEW)
                if written:
                    move(written[0], folder / file)


def record_causes(entries: list[Entry], folder: Path) -> None:
    for first in range(0, len(entries), PROGRAMS_IN_ONE_PROCESS):
        files = {each.program: each.file for each in entries[first:][:PROGRAMS_IN_ONE_PROCESS]}
        with tempfile.TemporaryDirectory() as empty:
            output = run(["-m", "tests.causes.record_all", empty, *files], ROOT)
            for line in output.splitlines():
                row = json.loads(line) if line.startswith('{"program"') else {}
                if "path" in row:
                    move(Path(row["path"]), folder / files[row["program"]])


def record_tests(folder: Path, plimsoll: Path) -> None:
    """Run the tests with a command that keeps the files it is asked to report."""
    with tempfile.TemporaryDirectory() as empty:
        command, kept = Path(empty, "plimsoll"), Path(empty, "kept")
        command.write_text(KEEP.format(samples=SAMPLES, folder=kept, plimsoll=plimsoll))
        command.chmod(0o755)
        words = ["-m", "pytest", "-q", "-m", "not slow", *TESTS]
        run(words, ROOT, PLIMSOLL_BIN=str(command))
        move(kept, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("suites", nargs="*", help=f"of {', '.join(SUITES)} (default: all)")
    parser.add_argument("--plimsoll", type=Path, default=COMMAND, metavar="COMMAND")
    chosen = parser.parse_args()
    folder = chosen.folder.resolve()
    os.nice(5)
    rows = []
    for suite, entries_of in SUITES.items():
        if not chosen.suites or suite in chosen.suites:
            if suite == "tests" and not (folder / suite).exists():
                record_tests(folder / suite, chosen.plimsoll.resolve())
            missing = [each for each in entries_of(folder) if not (folder / each.file).exists()]
            (record_causes if suite == "causes" else record)(missing, folder)
        rows += [
            {"suite": suite, "file": each.file, "program": each.program, "right": each.right}
            for each in entries_of(folder)
            if (folder / each.file).exists()
        ]
    (folder / "manifest.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    known = sum(bool(row["program"]) or row["right"] is not None for row in rows)
    print(f"{len(rows)} files, {known} with an expected answer")


if __name__ == "__main__":
    main()
