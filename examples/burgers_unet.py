#!/usr/bin/env python3
"""A U-Net that learns to advance the viscous Burgers equation, u_t + (u^2 / 2)_x = nu u_xx.

The data come from a pseudo-spectral solver below, which is first checked against the exact solution
of Cole and Hopf. Training unrolls the network over several time steps and differentiates through
all of them, so the activations of every unrolled step are live when backward starts: memory grows
with --unroll, --batch-size, --grid and --width. Simulations are stored in files and loaded when a
batch needs them; the --max-cached-sims most recent ones stay in memory.

    python examples/burgers_unet.py                      # about 25 s on two slow cores
    python examples/burgers_unet.py --config examples/burgers_unet.yaml  # with memory monitoring
    plimsoll run examples/burgers_unet.py                # the same, recorded
    python examples/burgers_unet.py --device cuda --use-amp --grid 4096 --width 64 --batch-size 64
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections import OrderedDict
from itertools import pairwise
from pathlib import Path

import configuration
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

import plimsoll

LENGTH = 2 * math.pi  # the domain is periodic


# The equation -------------------------------------------------------------------------------------


class BurgersSolver:
    """Fourier pseudo-spectral in space, 4th-order Runge-Kutta with exact viscosity in time.

    Viscosity is integrated exactly by the factor exp(-nu k^2 t), products are dealiased by the 2/3
    rule, and the mean of u is conserved to rounding.
    """

    def __init__(self, grid: int, viscosity: float, step: float) -> None:
        wave = torch.fft.rfftfreq(grid, d=LENGTH / (2 * math.pi * grid)).double()
        keep = (wave < grid / 3).double()
        self.grid = grid
        self.step = step
        self.flux_factor = -0.5j * wave * keep
        self.half = torch.exp(-viscosity * wave**2 * step / 2)

    def _slope(self, spectrum: torch.Tensor) -> torch.Tensor:
        u = torch.fft.irfft(spectrum, n=self.grid)
        return self.flux_factor * torch.fft.rfft(u * u)

    def advance(self, u: torch.Tensor, steps: int) -> torch.Tensor:
        """The field `steps` time steps later; the last dimension is space."""
        v, dt, half = torch.fft.rfft(u.double()), self.step, self.half
        for _ in range(steps):
            a = self._slope(v)
            b = self._slope(half * (v + dt / 2 * a))
            c = self._slope(half * v + dt / 2 * b)
            d = self._slope(half * half * v + dt * half * c)
            v = half * half * (v + dt / 6 * a) + dt / 6 * (2 * half * (b + c) + d)
        return torch.fft.irfft(v, n=self.grid)


def exact_solution(x: torch.Tensor, time_: float, viscosity: float) -> torch.Tensor:
    """Cole and Hopf: u = -2 nu phi_x / phi, where phi solves the heat equation."""
    decay = math.exp(-viscosity * time_)
    phi = 2 + decay * torch.cos(x)
    return 2 * viscosity * decay * torch.sin(x) / phi


def check_solver(grid: int = 128, viscosity: float = 0.1) -> tuple[float, float]:
    """Error against the exact solution, and the order at which it falls with the time step."""
    x = torch.arange(grid, dtype=torch.float64) * LENGTH / grid
    start, end, until = exact_solution(x, 0, viscosity), exact_solution(x, 2, viscosity), 2.0
    errors = []
    for steps in (8, 16):
        u = BurgersSolver(grid, viscosity, until / steps).advance(start, steps)
        errors.append((u - end).abs().max().item())
    return errors[-1], math.log2(errors[0] / errors[1])


def random_fields(count: int, grid: int, generator: torch.Generator) -> torch.Tensor:
    """Smooth periodic fields of order one: a few random waves and a mean."""
    x = torch.arange(grid, dtype=torch.float64) * LENGTH / grid
    fields = 0.3 * torch.randn(count, 1, generator=generator, dtype=torch.float64).expand(-1, grid)
    for wave in range(1, 6):
        amplitude = torch.randn(count, 1, generator=generator, dtype=torch.float64) / wave**0.8
        phase = LENGTH * torch.rand(count, 1, generator=generator, dtype=torch.float64)
        fields = fields + 0.6 * amplitude * torch.sin(wave * x + phase)
    return fields


def simulate(count: int, args: argparse.Namespace, generator: torch.Generator) -> torch.Tensor:
    """Trajectories, (count, frames, grid), float32."""
    solver = BurgersSolver(args.grid, args.viscosity, args.frame_time / args.substeps)
    frames = [random_fields(count, args.grid, generator)]
    for _ in range(args.frames - 1):
        frames.append(solver.advance(frames[-1], args.substeps))
    drift = (frames[-1].mean(-1) - frames[0].mean(-1)).abs().max().item()
    if not drift < 1e-9:
        raise RuntimeError(f"the solver lost {drift:.1e} of the mean; take more --substeps")
    return torch.stack(frames, dim=1).float()


class Simulations:
    """Trajectories, each in a file. The last `most` ones that were used stay in memory.

    Each worker of a DataLoader keeps its own.
    """

    def __init__(self, folder: Path, most: int | None) -> None:
        self.folder = folder
        self.most = most
        self.count = 0
        self.loads = 0  # number of files loaded
        self._cached: OrderedDict[int, torch.Tensor] = OrderedDict()

    def _path(self, which: int) -> Path:
        return self.folder / f"sim_{which:05d}.pt"

    def write(self, trajectories: torch.Tensor) -> None:
        for trajectory in trajectories:
            torch.save(trajectory.clone(), self._path(self.count))
            self.count += 1

    def __getitem__(self, which: int) -> torch.Tensor:
        if which in self._cached:
            self._cached.move_to_end(which)
            return self._cached[which]
        self.loads += 1
        self._cached[which] = torch.load(self._path(which))
        if self.most is not None and len(self._cached) > self.most:
            self._cached.popitem(last=False)
        return next(reversed(self._cached.values()))


class Windows(Dataset):
    """All sequences of `length` successive frames in all simulations."""

    def __init__(self, simulations: Simulations, frames: int, length: int) -> None:
        self.simulations = simulations
        self.length = length
        self.per_simulation = frames - length + 1

    def __len__(self) -> int:
        return self.simulations.count * self.per_simulation

    def __getitem__(self, index: int) -> torch.Tensor:
        which, first = divmod(index, self.per_simulation)
        return self.simulations[which][first : first + self.length]


# The network --------------------------------------------------------------------------------------


class Block(nn.Module):
    """Two periodic convolutions, each with a norm and GELU, around a shortcut."""

    def __init__(self, channels_in: int, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(channels_in, channels, 5, padding=2, padding_mode="circular")
        self.norm1 = nn.GroupNorm(4, channels)
        self.conv2 = nn.Conv1d(channels, channels, 5, padding=2, padding_mode="circular")
        self.norm2 = nn.GroupNorm(4, channels)
        self.act = nn.GELU()
        self.shortcut = nn.Conv1d(channels_in, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.act(self.norm1(self.conv1(x)))
        return self.shortcut(x) + self.act(self.norm2(self.conv2(y)))


class UNet(nn.Module):
    """Halves the grid and doubles the channels `depth` times, then reverses that, with skips."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.stem = nn.Conv1d(1, width, 5, padding=2, padding_mode="circular")
        self.down = nn.ModuleList(Block(a, a) for a in widths[:-1])
        self.shrink = nn.ModuleList(nn.Conv1d(a, b, 2, stride=2) for a, b in pairwise(widths))
        self.middle = Block(widths[-1], widths[-1])
        self.grow = nn.ModuleList(
            nn.ConvTranspose1d(b, a, 2, stride=2) for a, b in pairwise(widths)
        )
        self.up = nn.ModuleList(Block(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv1d(width, 1, 1)
        nn.init.zeros_(self.head.weight)  # initially, nothing changes from frame to frame
        nn.init.zeros_(self.head.bias)

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        """The next frame, from this one: (batch, grid) both."""
        x = self.stem(u.unsqueeze(1))
        skips = []
        for block, shrink in zip(self.down, self.shrink, strict=True):
            x = block(x)
            skips.append(x)
            x = shrink(x)
        x = self.middle(x)
        for level in reversed(range(len(skips))):
            x = self.up[level](torch.cat([self.grow[level](x), skips[level]], dim=1))
        return u + self.head(x).squeeze(1)


def rollout(model: nn.Module, start: torch.Tensor, steps: int) -> torch.Tensor:
    """The model applied to its own output, (batch, steps, grid)."""
    frames = []
    u = start
    for _ in range(steps):
        u = model(u)
        frames.append(u)
    return torch.stack(frames, dim=1)


# Training -----------------------------------------------------------------------------------------


def relative_error(predicted: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Relative L2 error, averaged over batch and time."""
    return ((predicted - wanted).norm(dim=-1) / wanted.norm(dim=-1)).mean()


class Trainer:
    """Trains and evaluates a model with its optimizer."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.device = torch.device(args.device)
        generator = torch.Generator().manual_seed(args.seed)
        self.folder = tempfile.TemporaryDirectory(prefix="burgers_")
        simulations = Simulations(Path(self.folder.name), args.max_cached_sims)
        while simulations.count < args.trajectories:
            few = min(8, args.trajectories - simulations.count)
            simulations.write(simulate(few, args, generator))
        train = Windows(simulations, args.frames, args.unroll + 1)
        self.held_out = simulate(args.held_out, args, generator).to(self.device)
        self.loader = DataLoader(
            train,
            batch_size=args.batch_size,
            shuffle=True,
            drop_last=len(train) > args.batch_size,
            num_workers=args.workers,
            pin_memory=args.pin_memory and self.device.type == "cuda",
            generator=generator,
        )
        self.model = UNet(args.width, args.depth).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, max_lr=args.lr, total_steps=max(args.steps, 2)
        )
        self.step = 0
        options = plimsoll.load_options(args.config)  # off unless the configuration enables it
        if options.enabled:
            self.memory_monitor = plimsoll.EpochMemoryMonitor(
                enabled=True, verbose_batches=options.verbose_batches
            )

    def backward(self, frames: torch.Tensor) -> float:
        """Return the loss of one batch; its gradients are added to those of earlier batches."""
        frames = frames.to(self.device, non_blocking=True)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.args.use_amp):
            predicted = rollout(self.model, frames[:, 0], self.args.unroll)
        loss = F.mse_loss(predicted.float(), frames[:, 1:])
        (loss / self.args.gradient_accumulation_steps).backward()
        return loss.item()

    def update(self) -> None:
        """Make an optimizer step with the accumulated gradients."""
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.step += 1

    def train_epoch(self) -> float:
        """Return the mean loss of one pass over the data, which ends early at --steps."""
        losses: list[float] = []
        every = self.args.gradient_accumulation_steps
        if hasattr(self, "memory_monitor"):
            self.memory_monitor.on_epoch_start()
        for batch, frames in enumerate(self.loader):
            if self.step >= self.args.steps:
                break
            if batch % every == 0:
                self.optimizer.zero_grad(set_to_none=True)
            losses.append(self.backward(frames))
            if (batch + 1) % every == 0 or batch + 1 == len(self.loader):
                self.update()
            if hasattr(self, "memory_monitor"):
                self.memory_monitor.on_batch_end(batch, losses[-1])
        if hasattr(self, "memory_monitor"):
            self.memory_monitor.on_epoch_end()
        return sum(losses) / len(losses)

    @torch.no_grad()
    def validate(self) -> tuple[float, float]:
        """Return the error one frame ahead, and that of the whole rollout from the first frame."""
        frames = self.held_out
        one = self.model(frames[:, :-1].flatten(0, 1)).view_as(frames[:, 1:])
        whole = rollout(self.model, frames[:, 0], frames.shape[1] - 1)
        return (
            relative_error(one, frames[:, 1:]).item(),
            relative_error(whole, frames[:, 1:]).item(),
        )


def parse_arguments(
    argv: list[str] | None = None, config: configuration.Config | None = None
) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--steps", type=int, default=104, help="optimizer steps (104)")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument(
        "--gradient-accumulation-steps", "--accumulate", type=int, default=1,
        help="batches per optimizer step (1)",
    )  # fmt: skip
    parser.add_argument("--unroll", type=int, default=4, help="frames to backpropagate through (4)")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--width", type=int, default=16, help="channels at full resolution (16)")
    parser.add_argument(
        "--depth", type=int, default=3, help="number of times the grid is halved (3)"
    )
    parser.add_argument("--grid", type=int, default=256, help="points in space (256)")
    parser.add_argument("--frames", type=int, default=17, help="frames per trajectory (17)")
    parser.add_argument("--frame-time", type=float, default=0.1, help="time between frames (0.1)")
    parser.add_argument("--substeps", type=int, default=20, help="solver steps per frame (20)")
    parser.add_argument("--viscosity", type=float, default=0.05)
    parser.add_argument("--trajectories", type=int, default=32, help="training trajectories (32)")
    parser.add_argument("--held-out", type=int, default=8, help="validation trajectories (8)")
    parser.add_argument("--workers", type=int, default=0, help="DataLoader workers (0)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:1 (cpu)")
    parser.add_argument("--use-amp", "--amp", action="store_true", help="forward in bfloat16")
    parser.add_argument("--max-cached-sims", type=int, help="simulations kept in memory (all)")
    parser.add_argument("--pin-memory", action="store_true", help="faster copies to a GPU")
    parser.add_argument("--seed", type=int, default=0)
    args = configuration.parse(parser, argv, config)
    if args.grid % 2**args.depth:
        parser.error(f"--grid {args.grid} cannot be halved --depth {args.depth} times")
    if not 1 <= args.unroll < args.frames:
        parser.error(f"--unroll {args.unroll} needs 1 to {args.frames - 1} of --frames")
    return args


def main(argv: list[str] | None = None, config: configuration.Config | None = None) -> None:
    args = parse_arguments(argv, config)
    torch.manual_seed(args.seed)
    error, order = check_solver()
    print(f"solver: error {error:.1e} against Cole-Hopf, order {order:.1f} in time")
    trainer = Trainer(args)
    parameters = sum(p.numel() for p in trainer.model.parameters())
    print(f"U-Net of {parameters:,} parameters, {len(trainer.loader)} batches an epoch")
    began = time.perf_counter()
    epoch = 0
    while trainer.step < args.steps:
        loss = trainer.train_epoch()
        one, whole = trainer.validate()
        epoch += 1
        print(
            f"epoch {epoch}  step {trainer.step}  train loss {loss:.2e}  "
            f"val error {one:.4f} a frame, {whole:.4f} over {args.frames - 1} frames  "
            f"{time.perf_counter() - began:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
