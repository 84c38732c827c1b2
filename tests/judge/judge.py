"""Ask a judge for its findings on each file of an archive: one line of JSON per file.

python -m tests.judge.judge FOLDER RESULTS [--plimsoll COMMAND]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .archive import COMMAND

JOBS = 2
TIMEOUT_S = 120


def judged(command: Path, folder: Path, row: dict[str, Any]) -> dict[str, Any]:
    """The row of the manifest with the findings, the near misses and the failure, if any."""
    began, report, status = time.monotonic(), {}, None
    words = [command, "report", "--json", row["file"]]
    try:
        done = subprocess.run(
            words, cwd=folder, capture_output=True, timeout=TIMEOUT_S, check=False
        )
        status, error = done.returncode, done.stderr.decode(errors="replace").strip()
        report = json.loads(done.stdout or "{}")
    except (subprocess.TimeoutExpired, ValueError) as failure:
        error = str(failure)
    answer = {key: report.get(key, []) for key in ("findings", "near_misses")}
    seconds = round(time.monotonic() - began, 2)
    return row | answer | {"status": status, "error": error, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the archive")
    parser.add_argument("results", type=Path, help="the file to write")
    parser.add_argument("--plimsoll", type=Path, default=COMMAND, metavar="COMMAND")
    chosen = parser.parse_args()
    rows = [json.loads(line) for line in (chosen.folder / "manifest.jsonl").open()]
    command, began = chosen.plimsoll.resolve(), time.monotonic()
    with ThreadPoolExecutor(JOBS) as pool, chosen.results.open("w") as results:
        for answer in pool.map(lambda row: judged(command, chosen.folder, row), rows):
            results.write(json.dumps(answer) + "\n")
    print(f"{len(rows)} files in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
