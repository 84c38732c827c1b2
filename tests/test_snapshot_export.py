"""CPython's pickle.load reads a snapshot that `export --to snapshot` has written back unchanged,
for every field that the schema has."""

from __future__ import annotations

import base64
import gzip
import pickle
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

Json = Any  # the content of a pickle with plain data

EVENT_OPTIONAL = ("time_us", "frames", "pool_id")
EVENT_TEXTS = ("compile_context", "user_metadata", "category")
SEGMENT_KEYS = (
    "device",
    "address",
    "total_size",
    "allocated_size",
    "active_size",
    "requested_size",
    "stream",
    "segment_type",
    "segment_pool_id",
)


def snapshot_files() -> list[str]:
    folder = Path(__file__).resolve().parents[2] / "shared" / "samples" / "snapshots"
    return sorted(path.name for path in folder.glob("*")) or ["none"]


def load(path: Path) -> Json:
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if path.suffix == ".html":
        found = max(re.findall(rb'"([A-Za-z0-9+/=]{100,})"', data), key=len)
        data = base64.b64decode(found)
    # The samples are trusted here; this is the reference for the reader.
    snapshot = pickle.loads(data)
    return {"segments": snapshot} if isinstance(snapshot, list) else snapshot


def event_facts(event: Json) -> Json:
    facts = {key: event[key] for key in EVENT_OPTIONAL if key in event}
    facts |= {key: event[key] for key in EVENT_TEXTS if event.get(key)}
    place = event["device_free"] if event["action"] == "oom" else event["addr"]
    return facts | {
        "action": event["action"],
        "place": place,
        "size": event["size"],
        "stream": event["stream"],
    }


def block_facts(segment: Json) -> list[Json]:
    facts = []
    address = segment["address"]
    for block in segment["blocks"]:
        last = block["history"][0] if block.get("history") else {}
        requested = block.get("requested_size", last.get("real_size", block["size"]))
        facts.append(
            {
                "address": block.get("address", address),
                "size": block["size"],
                "requested_size": requested,
                "state": block["state"],
                "frames": block.get("frames", last.get("frames")),
            }
        )
        address += block["size"]
    return facts


def segment_facts(segment: Json) -> Json:
    facts = {key: segment.get(key) for key in SEGMENT_KEYS}
    facts["is_expandable"] = segment.get("is_expandable", False)
    facts["frames"] = segment.get("frames")
    facts["blocks"] = block_facts(segment)
    return facts


def facts(snapshot: Json) -> Json:
    segments = [segment_facts(segment) for segment in snapshot["segments"]]
    traces = [[event_facts(e) for e in trace] for trace in snapshot.get("device_traces", [])]
    while traces and not traces[-1]:  # trailing devices without events may be omitted
        traces.pop()
    return {
        "segments": sorted(segments, key=lambda s: (s["device"], s["address"])),
        "traces": traces,
        "settings": snapshot.get("allocator_settings"),
        "annotations": snapshot.get("external_annotations") or [],
    }


@pytest.mark.parametrize("name", snapshot_files())
def test_pickle_load_finds_what_was_there(
    name: str, samples: Path, plimsoll_command: str, tmp_path: Path
) -> None:
    source = samples / "snapshots" / name
    target = tmp_path / "exported.pickle"
    subprocess.run(
        [plimsoll_command, "export", str(source), "--to", "snapshot", "-o", str(target)],
        check=True,
        capture_output=True,
    )
    before, after = facts(load(source)), facts(load(target))
    assert after["settings"] == before["settings"]
    assert after["annotations"] == before["annotations"]
    assert after["segments"] == before["segments"]
    assert after["traces"] == before["traces"]
    assert target.stat().st_size <= 1.1 * source.stat().st_size
