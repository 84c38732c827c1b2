"""The command in docs/recording.md removes what Plimsoll leaves outside its package."""

import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path

from plimsoll._torch import adapter_cache

DOCS = Path(__file__).resolve().parents[2] / "docs/recording.md"
PROGRAM = """
import plimsoll, torch

with plimsoll.record("run.plim"), plimsoll.TrainingMonitor(output_dir="out") as monitor:
    torch.ones(9)
    monitor.step()
"""


def removed(home: str, runtime: str) -> list[str]:
    """The patterns that the documented commands remove."""
    lines = re.findall(r"^rm -rf ([^#\n]*)", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    user = str(os.geteuid())
    words = " ".join(lines).split()
    patterns = [each.replace("$UID", user).replace("~", home) for each in words]
    return [each.replace(f"/run/user/{user}", runtime) for each in patterns]


def is_removed(path: Path, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatch(str(each), p) for each in (path, *path.parents) for p in patterns)


def test_the_files_of_a_run_are_removed(tmp_path):
    home, runtime, temporary, project = folders = [tmp_path / each for each in "abcd"]
    for folder in folders:
        folder.mkdir(mode=0o700)
    places = {"HOME": home, "XDG_RUNTIME_DIR": runtime, "TMPDIR": temporary}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    kept.pop("PLIMSOLL_CACHE", None)
    kept.pop("PLIMSOLL_LIVE_FOLDER", None)
    subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=project,
        env=kept | {"CXX": "/no/compiler"} | {name: str(path) for name, path in places.items()},
        check=True,
        capture_output=True,
    )
    patterns = removed(str(home), str(runtime))
    left = [path for folder in places.values() for path in folder.rglob("*")]
    left = [path for path in left if not path.name.startswith("torchinductor_")]
    left = [path for path in left if not path.is_dir() or not any(path.iterdir())]
    assert left  # otherwise the test shows nothing
    assert [path for path in left if not is_removed(path, patterns)] == []
    assert sorted(path.name for path in project.iterdir()) == ["out", "run.plim"]


def test_every_folder_of_adapters_is_removed(monkeypatch):
    monkeypatch.delenv("PLIMSOLL_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    patterns = removed(os.path.expanduser("~"), f"/run/user/{os.geteuid()}")
    folders = [Path(each) for each in adapter_cache._folders()]
    assert [each for each in folders if not is_removed(each, patterns)] == []
