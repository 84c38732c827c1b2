#!/usr/bin/env python3
"""Add compiled adapters to a wheel, so that the first recording needs no compiler and no minute.

    python tools/add_adapters.py WHEEL FOLDER TORCH...

For this Python and each version of torch, an environment is made in which the wheel compiles its
adapter. FOLDER gets the new wheel. An adapter takes about 0.3 MB of it. Run it after auditwheel,
which would copy torch's libraries into the wheel.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

COMPILE = """
import base64, json
from plimsoll._torch import adapter
file = adapter.packaged_file(adapter.CPU)
content = adapter.compiled(adapter.CPU, print).content
print(json.dumps([str(file.relative_to(file.parents[4])), base64.b64encode(content).decode()]))
"""


def run(*words: str | Path, **environment: str) -> str:
    done = subprocess.run(
        words, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | environment
    )
    return done.stdout


def adapter_for(torch: str, wheel: Path, folder: Path) -> tuple[str, bytes]:
    """Return the adapter's path in the wheel and its content."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin/python"
    run(python, "-m", "pip", "install", "--quiet", f"torch=={torch}", wheel)
    out = run(python, "-c", COMPILE, PLIMSOLL_CACHE=str(folder / "cache"))
    path, library = json.loads(out.splitlines()[-1])
    stripped = folder / "stripped.so"
    stripped.write_bytes(base64.b64decode(library))
    run("strip", stripped)
    return path, stripped.read_bytes()


def with_files(wheel: Path, files: dict[str, bytes], out: Path) -> None:
    """Write the wheel with more files, and its list of files."""
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            content = old.read(info)
            if info.filename.endswith(".dist-info/RECORD"):
                content += "".join(map(record_line, files, files.values())).encode()
            new.writestr(info, content, zipfile.ZIP_DEFLATED)
        for path, content in files.items():
            new.writestr(path, content)


def record_line(path: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("torch", nargs="+")
    args = parser.parse_args()
    files = {}
    for torch in args.torch:
        with tempfile.TemporaryDirectory() as folder:
            path, content = adapter_for(torch, args.wheel.resolve(), Path(folder))
        files[path] = content
        print(f"torch {torch}: {path}, {len(content):,} bytes")
    args.folder.mkdir(parents=True, exist_ok=True)
    with_files(args.wheel, files, args.folder / args.wheel.name)


if __name__ == "__main__":
    main()
