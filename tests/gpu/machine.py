"""Prints the card, driver and versions of this machine as JSON. Exit status 3 without a GPU."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def output_of(*words: str) -> str:
    """Return the first line that a command prints; empty if it fails."""
    try:
        ran = subprocess.run(words, capture_output=True, text=True, check=True, cwd=HERE)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return ran.stdout.strip().partition("\n")[0]


def described() -> dict[str, str] | None:
    """Return the machine, or None if torch is missing or has no CUDA device."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    installed = {each.name: each.version for each in importlib.metadata.distributions()}
    cupy = [version for name, version in installed.items() if name.startswith("cupy-cuda")]
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": output_of("git", "rev-parse", "--short", "HEAD"),
        "card": torch.cuda.get_device_name(0),
        "cards": str(torch.cuda.device_count()),
        "bytes": str(torch.cuda.get_device_properties(0).total_memory),
        "driver": output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "torch": torch.__version__,
        "CUDA": str(torch.version.cuda),
        "cuDNN": str(torch.backends.cudnn.version()),
        "cupy": cupy[0] if cupy else "",
        "Python": platform.python_version(),
        "compiler": output_of(os.environ.get("CXX") or "c++", "--version"),
        "system": platform.platform(),
        "cores": str(os.cpu_count()),
    }


if __name__ == "__main__":
    machine = described()
    if machine is None:
        sys.exit(3)
    print(json.dumps(machine))
