"""Runs the cases, each in a separate process, and prints one table of their checks.

Usage: table.py FOLDER [CASE…], with PYTHONPATH set so that plimsoll is found.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SECONDS = 900

# Variables of torch's allocator: PYTORCH_CUDA_ALLOC_CONF, and its name since torch 2.10.
SETTINGS = {
    "default": "",
    "expandable": "expandable_segments:True",
    "max_split": "max_split_size_mb:128",
}
EXAMPLES = ("burgers_unet", "language_model", "gaussian_splatting")


@dataclass(frozen=True)
class Case:
    """A function of cases.py and its arguments."""

    name: str
    function: str
    words: tuple[str, ...] = ()
    settings: str = ""
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Check:
    """One line of the table."""

    case: str
    what: str
    holds: bool
    found: str


def all_cases() -> list[Case]:
    cases = [
        Case(f"{example}, {setting}", "example", (example,), SETTINGS[setting])
        for example in EXAMPLES
        for setting in SETTINGS
    ]
    cases += [
        Case(f"{name}, {setting}", name, (), SETTINGS[setting])
        for name in ("graphs", "streams", "caught_oom")
        for setting in SETTINGS
    ]
    cases += [
        Case("starts in the middle", "middle"),
        Case("backward on engine threads", "backward"),
        Case("lite mode", "lite"),
        Case("threads", "threads"),
        Case("planted oom", "planted_oom"),
        *(
            Case(f"device bar, {setting}", "device_bar", (), SETTINGS[setting])
            for setting in SETTINGS
        ),
        Case("oom in backward", "oom_in_backward"),
        Case("oom in the optimizer", "oom_in_optimizer"),
        Case("oom, caught again and again", "oom_search"),
        Case("without a compiler", "history", environment=(("CXX", "/nonexistent"),)),
        Case("cudaMallocAsync", "history", settings="backend:cudaMallocAsync"),
        *(Case(f"cuda driver, {each}", "driver", (each,)) for each in ("shared", "static", "cupy")),
        Case("overhead, compute-bound", "overhead", ("compute", "1.0")),
        Case("overhead, launch-bound", "overhead", ("launch", "3.0")),
        Case("samples", "samples"),
    ]
    return cases


def environment_of(case: Case) -> dict[str, str]:
    environment = dict(os.environ)
    for variable in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        environment.pop(variable, None)
    if case.settings:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = case.settings
    return environment | dict(case.environment)


def run(case: Case, folder: Path) -> list[Check]:
    """Return the checks of a case, with a failed one if the case did not finish."""
    place = folder / case.name.replace(", ", "-").replace(" ", "_")
    place.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, str(HERE / "cases.py"), case.function, *case.words]
    with open(place / "errors.txt", "w") as errors:
        try:
            ran = subprocess.run(
                words,
                cwd=place,
                env=environment_of(case),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                check=False,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return [Check(case.name, "ends", False, f"not within {SECONDS} s")]
    checks = checks_of(case.name, ran.stdout)
    if ran.returncode != 0 or not checks:
        last = (place / "errors.txt").read_text().strip().splitlines()[-1:] or ["no word"]
        checks.append(Check(case.name, "ends", False, f"status {ran.returncode}: {last[0]}"))
    return checks


def checks_of(case: str, text: str) -> list[Check]:
    """Return the lines that a case printed for the table, without its other output."""
    found = []
    for line in text.splitlines():
        if line.startswith('{"check": '):
            row = json.loads(line)
            found.append(Check(case, row["check"], bool(row["holds"]), row["found"]))
    return found


def lines_of(checks: Sequence[Check]) -> list[str]:
    width = max(len(each.case) for each in checks)
    what = max(len(each.what) for each in checks)
    return [
        f"{'holds' if each.holds else 'FAILS':<6} {each.case:<{width}}  {each.what:<{what}}  "
        f"{each.found}".rstrip()
        for each in checks
    ]


def head() -> str:
    import torch

    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"
    return (
        f"{device} x {torch.cuda.device_count()}; torch {torch.__version__}, CUDA "
        f"{torch.version.cuda}; Python {platform.python_version()}; Linux {platform.release()}"
    )


def main(words: Sequence[str]) -> int:
    folder, wanted = Path(words[0]).resolve(), set(words[1:])
    cases = [
        each
        for each in all_cases()
        if not wanted or wanted & {each.name, each.function, *each.words}
    ]
    if not cases:
        print("no such case; there are:", *(each.name for each in all_cases()), sep="\n  ")
        return 2
    print(head(), flush=True)
    checks: list[Check] = []
    for case in cases:
        print(f"… {case.name}", file=sys.stderr, flush=True)
        checks += run(case, folder)
    text = "\n".join(lines_of(checks))
    failed = sum(not each.holds for each in checks)
    print(text)
    print(
        f"{len(checks)} checks, {failed} of them fail" if failed else f"{len(checks)} checks hold"
    )
    (folder / "table.txt").write_text(f"{head()}\n{text}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
