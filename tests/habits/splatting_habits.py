"""Code shared by the tests of the splatting profiler."""

import argparse
import re
from pathlib import Path

import torch
from habit_models import make

import plimsoll

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/gaussian_splatting.py"
SMALL = "--size 32 --gaussians 60 --densify_from_iter 2 --densify_until_iter 50"
SMALL += " --densification_interval 25 --report_every 50"


def parsed(*words):
    parser = argparse.ArgumentParser()
    plimsoll.add_arguments(parser)
    return parser.parse_args(words)


def train(device, monitor, *, iterations, start=1):
    model, x = make(device)
    optimizer = torch.optim.Adam(model.parameters())
    for iteration in range(start, start + iterations):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        monitor.step(iteration, loss)


def iterations_of(log):
    return [int(each) for each in re.findall(r"^=== Iteration (\d+)", log.read_text(), re.M)]
