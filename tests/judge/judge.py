"""Ask a judge for its findings on each file of an archive: one line of JSON per file.

python -m tests.judge.judge FOLDER RESULTS [--plimsoll COMMAND]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def judged(command: Path, folder: Path, row: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """The row of the manifest, the findings and near misses, and the failure, if any."""
    words = [command, "report", "--json", row["file"]]
    began = time.monotonic()
    report: dict[str, Any] = {}
    error, status = "", None
    try:
        done = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, check=False, timeout=timeout_s
        )
        status = done.returncode
        error = done.stderr.strip()
        report = json.loads(done.stdout) if done.stdout else {}
    except subprocess.TimeoutExpired:
        error = f"no answer after {timeout_s:g} s"
    except ValueError as unreadable:
        error = f"the report is no JSON: {unreadable}"
    answer = {key: report.get(key, []) for key in ("findings", "near_misses")}
    seconds = round(time.monotonic() - began, 2)
    return row | answer | {"status": status, "error": error, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the archive")
    parser.add_argument("results", type=Path, help="the file to write")
    parser.add_argument("--plimsoll", type=Path, default=ROOT / "build/gate/src/cli/plimsoll")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one file")
    chosen = parser.parse_args()
    rows = [json.loads(line) for line in (chosen.folder / "manifest.jsonl").open()]
    command = chosen.plimsoll.resolve()
    began = time.monotonic()
    with ThreadPoolExecutor(chosen.jobs) as pool, chosen.results.open("w") as results:
        answers = pool.map(lambda row: judged(command, chosen.folder, row, chosen.timeout), rows)
        statuses: Counter[int | None] = Counter()
        for answer in answers:
            results.write(json.dumps(answer) + "\n")
            statuses[answer["status"]] += 1
    by_status = ", ".join(f"{count} with exit status {each}" for each, count in statuses.items())
    print(f"{len(rows)} files in {time.monotonic() - began:.0f} s: {by_status}")


if __name__ == "__main__":
    main()
