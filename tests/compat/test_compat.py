"""Trace files of every version of the format, and their content. Neither is ever changed.

NAME.plimsoll was written by the version in its name; NAME.json is what that version read from it.
SHA256SUMS lists all of them. New files are added when the version of the format increases; existing
files never change.
"""

import hashlib
import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

FILES = sorted(Path(__file__).parent.glob("*.plimsoll"))
# Parts of "other" that have become separate categories, in files of every version.
NAMED_SINCE = ("communication", "optimizer_scratch")
# Memory from before a recording was "unknown" even if its file has the phase that allocated it: by
# file, the device, bytes and count of what is "other" now.
KNOWN_SINCE = {"v2": (0, 4144, 1)}
DEVICE_FIELDS = ("device", "device_type", "events", "history")
TOTALS = ("baseline_bytes", "peak_bytes", "peak_event", "peak_time_ns", "end_bytes")


def ran(*words: object) -> str:
    return subprocess.run(list(map(str, words)), capture_output=True, check=True).stdout.decode()


def by_category(rows: list[dict], version: str) -> list[list[object]]:
    sums: dict[tuple[int, str], list[int]] = {}
    if version in KNOWN_SINCE:
        device, size, count = KNOWN_SINCE[version]
        sums = {(device, "other"): [-size, -count], (device, "unknown"): [size, count]}
    for row in rows:
        name = "other" if row["key"] in NAMED_SINCE else row["key"]
        total = sums.setdefault((row["device"], name), [0, 0])
        total[0] += row["bytes"]
        total[1] += row["count"]
    return sorted([*key, *total] for key, total in sums.items())


def totals(device: dict) -> dict[str, object]:
    active = {key: device["requested_active"][key] for key in TOTALS}
    return {key: device[key] for key in DEVICE_FIELDS} | {"requested_active": active}


def what_it_says(command: str, file: Path) -> dict[str, object]:
    """The records by kind, the totals of each device, and its bytes by category at the peak."""
    lines = ran(command, "dump", file).splitlines()
    report = json.loads(ran(command, "report", file, "--json", "--top", "1000"))
    return {
        "head": lines[0],
        "records": dict(sorted(Counter(line.split(" ", 1)[0] for line in lines).items())),
        "last": lines[-1],
        "devices": [totals(device) for device in report["devices"]],
        "by_category": by_category(report["tables"]["by_category"], file.stem),
        "diagnostics": {
            diagnostic["name"]: diagnostic["count"]
            for diagnostic in report["source"]["diagnostics"]
            if diagnostic["severity"] != "info"
        },
    }


def test_no_file_has_changed_and_each_is_listed():
    """Run `sha256sum v*` in this folder when a version is added."""
    folder = Path(__file__).parent
    listed = dict(
        reversed(line.split("  "))
        for line in (folder / "SHA256SUMS").read_text(encoding="ascii").splitlines()
    )
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.suffix in (".plimsoll", ".json")
    }
    assert found == listed


def test_there_is_a_file_of_each_version():
    assert [file.stem for file in FILES] == ["v1", "v2", "v3"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_old_file_is_read_as_before(file, plimsoll_command):
    assert what_it_says(plimsoll_command, file) == json.loads(file.with_suffix(".json").read_text())
