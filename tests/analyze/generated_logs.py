"""Logs of synthetic runs, the same at every call."""

from collections.abc import Callable

HEADER = """\
# Plimsoll tensor profile, format 1. MB are 1024 x 1024 bytes.
# gpu-17 | process 4242 | 2026-11-20T16:40:12.001Z
# Summarize it with: plimsoll analyze FILE

"""


def shares(**megabytes: float) -> str:
    reported = sorted(megabytes.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {size:.1f} MB in 10" for name, size in reported)


def snapshot(number: int, *, kept: float = 0.0, activations: float = 4000.0, loss: float) -> str:
    """A snapshot of a run on one GPU, with this many MB of additional activations."""
    now = activations + kept
    tensors = now + 4000.0
    minutes, seconds = divmod(number * 30, 60)
    time = f"2026-11-20T16:{40 + minutes:02}:{seconds:02}.125Z"
    layers = {"unet.down.0": 3000.0 + kept, "unet.up": 1000.0, "(rest)": tensors - 4000 - kept}
    return f"""\
=== Iteration {number * 100} | {time} | loss {loss:.6g} ===
Device: cuda:0
Allocated: {tensors + 73.4:.1f} MB
Reserved: {tensors + 2000:.1f} MB
Fragmentation: {100 * 1926.6 / (tensors + 2000):.1f}%
Peak: {tensors + 1500:.1f} MB
Device used: {tensors + 2500:.1f} MB of 16000.0 MB
Tensors: 40 in {tensors:.1f} MB
Categories: {shares(activation=now, parameter=2000.0, gradient=1500.0, optimizer_state=500.0)}
Dtypes: {shares(float32=tensors - 2000, bfloat16=2000.0)}
Layers: {shares(**layers)}
Large tensors: 2 in 1536.0 MB, each at least 100.0 MB
  1024.0 MB | [64, 64, 256, 256] | float32 | activation | unet.down.0 | -
  512.0 MB | [8192, 16384] | float32 | parameter | - | unet.up.weight
CPU tensors: 3 in 30.000 MB
CPU categories: input 20.000 MB in 2, other 10.000 MB in 1
Host: process 3000.0 MB, used 8000.0 MB of 32000.0 MB, cpu 150.0%

"""


def healthy() -> str:
    wobble = (0, 300, 100, 200)
    return HEADER + "".join(
        snapshot(i, activations=4000.0 + wobble[i % 4], loss=1 / (i + 1)) for i in range(16)
    )


def leak() -> str:
    return HEADER + "".join(snapshot(i, kept=100.0 * i, loss=1 / (i + 1)) for i in range(16))


def jump() -> str:
    return HEADER + "".join(
        snapshot(i, activations=7000.0 if i == 11 else 4000.0, loss=40.0 if i == 11 else 0.5)
        for i in range(16)
    )


def fragmented(percent: int) -> str:
    """At the end, this share of 1000 reserved MB is not allocated; the peak needs 10 MB of it."""
    allocated = 1000 - 10 * percent
    return HEADER + "".join(
        f"""\
=== Iteration {i * 50} | 2026-11-20T16:40:{i:02}.125Z ===
Device: cuda:0
Allocated: {allocated:.1f} MB
Reserved: 1000.0 MB
Fragmentation: {percent:.1f}%
Peak: {allocated + 10:.1f} MB

"""
        for i in range(4)
    )


def cut() -> str:
    return healthy()[:-200]


def cpu_only() -> str:
    snapshots = [
        f"""\
=== Iteration {i} | 2026-11-20T16:40:{i:02}.125Z ===
Device: cpu
Allocated: {23.1 + i % 3:.3f} MB
Tensors: 12 in {23.1 + i % 3:.3f} MB
Categories: {shares(parameter=10.0, activation=13.1 + i % 3)}
Host: process 1645.1 MB

"""
        for i in range(5)
    ]
    return HEADER + "".join(snapshots)


def nvidia_smi() -> str:
    rows = [
        f"2026/04/25 16:{6 + i:02}:06.78{gpu}, {gpu}, {1000 + i * 900 * gpu} MiB, 16384 MiB\n"
        for i in range(16)
        for gpu in range(2)
    ]
    return "timestamp, index, memory.used [MiB], memory.total [MiB]\n" + "".join(rows)


RECIPES: dict[str, Callable[[], str]] = {
    "healthy": healthy,
    "leak": leak,
    "jump": jump,
    "cut": cut,
    "cpu_only": cpu_only,
    "nvidia_smi": nvidia_smi,
}
