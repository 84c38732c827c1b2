#!/usr/bin/env python3
"""Five demos of `plimsoll.MemoryTracer`: layers, fragmentation, a transformer, exports, overhead.

    python examples/memory_tracer_demo.py

It takes some seconds on a CPU, uses a GPU where there is one, and writes memory_profile.json and
memory_timeline.json into the current folder.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch
from torch import nn

import plimsoll

MIB = 1 << 20


class ConvNet(nn.Module):
    """Three convolutions and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
        )
        self.head = nn.Linear(64 * 8 * 8, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(images).flatten(1))


def basic_tracing(device: str) -> None:
    """The memory of each layer in a training step, and the duration of its forward."""
    print("== 1. Basic tracing")
    model = ConvNet().to(device)
    images = torch.randn(16, 3, 32, 32, device=device)
    tracer = plimsoll.MemoryTracer(device=device)
    with tracer.trace(model):
        model(images).sum().backward()
    print(f"{'layer':<14} {'peak':>10} {'allocations':>12} {'forward':>10}")
    stats = tracer.get_layer_stats()
    for name in tracer.get_peak_memory_per_layer():
        each = stats[name]
        print(
            f"{name:<14} {each.peak_allocated / MIB:>6.1f} MiB {each.total_allocations:>12}"
            f" {each.duration_ms:>7.2f} ms"
        )


def fragmentation(device: str) -> None:
    """How much of the reserved memory is not allocated while batch sizes vary."""
    print("\n== 2. Fragmentation")
    model = ConvNet().to(device)
    tracer = plimsoll.MemoryTracer(device=device)
    with tracer.trace(model):
        for batch_size in (4, 8, 16, 8, 4):
            model(torch.randn(batch_size, 3, 32, 32, device=device))
    for name, ratio in tracer.get_fragmentation_stats().items():
        print(f"{name:<14} {ratio:>6.1%}")
    allocator = tracer.get_allocator_stats()
    if allocator:
        print(f"stranded at the end: {allocator['stranded_bytes']} bytes")
    else:
        print("torch reserves no memory on the CPU, so there is no fragmentation")


def transformer(device: str) -> None:
    """The five layers of a transformer with the most memory."""
    print("\n== 3. Transformer")
    layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).to(device)
    tracer = plimsoll.MemoryTracer(device=device)
    with tracer.trace(model):
        model(torch.randn(8, 64, 64, device=device)).sum().backward()
    for name, peak in list(tracer.get_peak_memory_per_layer().items())[:5]:
        print(f"{name:<28} {peak / MIB:>6.1f} MiB")


def flame_graph_export(device: str) -> None:
    """A file for speedscope, and the events as JSON."""
    print("\n== 4. Flame graph export")
    model = ConvNet().to(device)
    tracer = plimsoll.MemoryTracer(device=device)
    with tracer.trace(model):
        model(torch.randn(16, 3, 32, 32, device=device)).sum().backward()
    tracer.export_flame_graph("memory_profile.json")
    tracer.export_timeline("memory_timeline.json")
    with open("memory_timeline.json", encoding="utf-8") as file:
        events = json.load(file)["events"]
    highest = max(events, key=lambda event: event["allocated_bytes"])
    print("memory_profile.json: drop it on https://www.speedscope.app")
    print(f"memory_timeline.json: {len(events)} events over {events[-1]['timestamp']:.3f} s")
    print(f"most in use: {highest['allocated_bytes'] / MIB:.1f} MiB, in {highest['layer_name']}")


def overhead(device: str) -> None:
    """The cost of a traced forward, compared in pairs with an untraced one."""
    print("\n== 5. Overhead")
    model = ConvNet().to(device)
    images = torch.randn(16, 3, 32, 32, device=device)

    def forward() -> float:
        began = time.perf_counter()
        model(images)
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        return time.perf_counter() - began

    for _ in range(3):
        forward()
    for mode in ("full", "lite"):
        tracer = plimsoll.MemoryTracer(device=device, mode=mode)
        ratios = []
        for _ in range(20):
            plain = forward()
            with tracer.trace(model):
                traced = forward()
            ratios.append(traced / plain)
        print(f"{mode}: {statistics.median(ratios) - 1:+.1%} (median of 20 pairs)")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--device", default="cuda:0" if torch.cuda.is_available() else "cpu", help="cpu, cuda:0"
    )
    device = parser.parse_args(arguments).device
    torch.manual_seed(0)
    for demo in (basic_tracing, fragmentation, transformer, flame_graph_export, overhead):
        demo(device)


if __name__ == "__main__":
    main()
