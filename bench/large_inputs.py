"""The cost of small files that expand to gigabytes: python bench/large_inputs.py [--plimsoll PATH].

Makes two gzip files, runs `plimsoll report` on each, and prints its CPU time, its peak resident
memory, and how often the progress bar was drawn on a terminal.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import pty
import shutil
import tempfile
from pathlib import Path

MIB = 1 << 20


def repeated(path: Path, begin: bytes, piece: bytes, count: int, end: bytes) -> None:
    """Write gzip of begin, `count` times the piece, end. The piece is compressed only once."""
    with path.open("wb") as file:
        file.write(gzip.compress(begin))
        member = gzip.compress(piece)
        for _ in range(count):
            file.write(member)
        file.write(gzip.compress(end))


def long_bytes(path: Path, share: float) -> None:
    """A pickle with one BINBYTES8 of 4 GiB."""
    size = int(4096 * share) * MIB
    head = b"\x80\x04}\x8c\x01x\x8e" + size.to_bytes(8, "little")
    repeated(path, head, bytes(MIB), size // MIB, b"s.")


def profile(path: Path, share: float) -> None:
    """24 million allocations and frees, as torch.profiler writes them."""
    events = []
    for at in range(1_000):
        args = {"Total Reserved": 1 << 30, "Total Allocated": 512 * (1 - at % 2), "Addr": 4096}
        args |= {"Device Type": 1, "Device Id": 0, "Bytes": 512 * (-1) ** at}
        events.append(
            {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": at, "s": "t", "args": args}
        )
    piece = ",".join(map(json.dumps, events)).encode() + b","
    repeated(path, b'{"traceEvents": [', piece, int(24_000 * share), b"{}]}")


def run(command: list[str]) -> tuple[float, float, int]:
    """Seconds, peak MiB, progress bars drawn."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(command[0], command)
    shown = b""
    while True:
        try:
            read = os.read(terminal, 65536)
        except OSError:  # the child has closed its end
            break
        if not read:
            break
        shown += read
    _, _, usage = os.wait4(child, 0)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, shown.count(b"\r")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plimsoll", default=shutil.which("plimsoll") or "plimsoll")
    parser.add_argument("--share", type=float, default=1, help="of the sizes (1)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for make in (long_bytes, profile):
            path = Path(folder) / "input.gz"
            make(path, options.share)
            size_mib = path.stat().st_size / MIB
            seconds, peak_mib, drawn = run([options.plimsoll, "report", str(path)])
            name = (make.__doc__ or "").rstrip(".")
            print(
                f"{name}: {size_mib:.1f} MiB of gzip, {seconds:.1f} s, peak {peak_mib:,.0f} MiB, "
                f"progress drawn {drawn} times",
                flush=True,
            )


if __name__ == "__main__":
    main()
