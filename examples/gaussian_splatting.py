#!/usr/bin/env python3
"""Fits an image with 2-D Gaussians, which are cloned, split and pruned as in splatting trainers.

This program draws the picture. Gaussians are blended front to back, tile by tile, in plain torch.
Every --densification_interval iterations, those whose position still has a large gradient are
cloned or split, and faint ones are removed. This replaces each Parameter and its Adam state, so
memory grows and moves during training, as in trainers for scenes. --profile_tensors True writes a
text log to output/NAME/profiles and TensorBoard files to output/NAME/tensorboard.

    python examples/gaussian_splatting.py                  # about 25 s on two slow cores
    python examples/gaussian_splatting.py --profile_tensors True --eval True
    plimsoll analyze latest
    python examples/gaussian_splatting.py -s picture.ppm -c output/ship -i 600 -r density
    plimsoll run examples/gaussian_splatting.py -i 300     # the same, recorded
    python examples/gaussian_splatting.py --device cuda --size 512 --gaussians 5000 -i 7000
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path

import torch
from torch import nn

import plimsoll

sys.path.append(str(Path(__file__).parent))
from splatting_images import (
    blur_window,
    check_files,
    held_out_metrics,
    held_out_pixels,
    picture,
    psnr,
    read_checkpoint,
    similarity,
)

TILE = 16  # side length in pixels


class Gaussians(nn.Module):
    """The Gaussians as optimized numbers, all of them before their activations."""

    names = ("xy", "scaling", "rotation", "colour", "opacity")

    def __init__(self, count: int, generator: torch.Generator) -> None:
        super().__init__()
        scale = math.log(0.5 / math.sqrt(count))
        self.xy = nn.Parameter(torch.rand(count, 2, generator=generator))
        self.scaling = nn.Parameter(torch.full((count, 2), scale))
        self.rotation = nn.Parameter(math.pi * torch.rand(count, generator=generator))
        self.colour = nn.Parameter(0.5 * torch.randn(count, 3, generator=generator))
        self.opacity = nn.Parameter(torch.full((count,), 0.5))

    def __len__(self) -> int:
        return len(self.xy)

    def forward(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Inverse covariances as (a, b, c), radii in the image, colours, opacities."""
        variance = torch.exp(2 * self.scaling)
        cos, sin = torch.cos(self.rotation), torch.sin(self.rotation)
        vx, vy = variance.unbind(-1)
        a = cos * cos / vx + sin * sin / vy
        b = cos * sin * (1 / vx - 1 / vy)
        c = sin * sin / vx + cos * cos / vy
        radius = 3 * torch.exp(self.scaling.detach().amax(-1))
        return (
            torch.stack([a, b, c], -1),
            radius,
            torch.sigmoid(self.colour),
            torch.sigmoid(self.opacity),
        )


class Renderer(nn.Module):
    """Blends, front to back, the Gaussians that touch each tile; several tiles at a time."""

    def __init__(self, size: int, tiles_at_once: int) -> None:
        super().__init__()
        self.size = size
        self.tiles_at_once = tiles_at_once
        side = size // TILE
        corner = torch.arange(side) * TILE / size
        top, left = torch.meshgrid(corner, corner, indexing="ij")
        inner = (torch.arange(TILE) + 0.5) / size
        y, x = torch.meshgrid(inner, inner, indexing="ij")
        self.register_buffer("corners", torch.stack([left, top], -1).view(-1, 1, 2))
        self.register_buffer("pixels", torch.stack([x, y], -1).view(1, -1, 2))

    def forward(self, gaussians: Gaussians) -> torch.Tensor:
        """The image, (3, size, size)."""
        shape, radius, colour, opacity = gaussians()
        low, high = self.corners, self.corners + TILE / self.size
        nearest = gaussians.xy.detach().clamp(low, high)  # (tiles, gaussians, 2)
        touches = (nearest - gaussians.xy.detach()).norm(dim=-1) < radius
        tiles = [
            self._blend(touching, places, gaussians.xy, (shape, colour, opacity))
            for touching, places in zip(
                touches.split(self.tiles_at_once),
                (self.corners + self.pixels).split(self.tiles_at_once),
                strict=True,
            )
        ]
        side = self.size // TILE
        image = torch.cat(tiles).view(side, side, TILE, TILE, 3)
        return image.permute(4, 0, 2, 1, 3).reshape(3, self.size, self.size)

    def _blend(
        self,
        touches: torch.Tensor,
        places: torch.Tensor,
        xy: torch.Tensor,
        looks: tuple[torch.Tensor, ...],
    ) -> torch.Tensor:
        """The colours of these pixels, (tiles, TILE * TILE, 3)."""
        shape, colour, opacity = looks
        most = max(1, int(touches.sum(-1).max()))
        # The Gaussians of each tile in their order, padded with ones that do not touch it.
        present, which = torch.sort(touches.to(torch.int8), dim=-1, descending=True, stable=True)
        present, which = present[:, :most], which[:, :most]
        dx, dy = (places.unsqueeze(1) - xy[which].unsqueeze(2)).unbind(-1)
        a, b, c = shape[which].unsqueeze(2).unbind(-1)
        power = -0.5 * (a * dx * dx + 2 * b * dx * dy + c * dy * dy)
        alpha = (opacity[which] * present).unsqueeze(2) * torch.exp(power)
        alpha = alpha.clamp(max=0.99)
        through = torch.cumprod(1 - alpha, dim=1)
        before = torch.cat([torch.ones_like(through[:, :1]), through[:, :-1]], dim=1)
        return torch.einsum("tgp,tgc->tpc", alpha * before, colour[which])


class Densifier:
    """Adds Gaussians where the image is still wrong, and removes those without effect.

    The number of rows of the parameters changes, so each is replaced in the model and in the
    optimizer, together with its Adam state.
    """

    def __init__(
        self, gaussians: Gaussians, optimizer: torch.optim.Adam, args: argparse.Namespace
    ) -> None:
        self.gaussians = gaussians
        self.optimizer = optimizer
        self.args = args
        self.generator = torch.Generator(args.device).manual_seed(args.seed)
        self._forget()

    def _forget(self) -> None:
        self.gradient = torch.zeros(len(self.gaussians), device=self.gaussians.xy.device)
        self.seen = 0

    def observe(self) -> None:
        """After backward: adds up how strongly the loss pulls each position."""
        self.gradient += self.gaussians.xy.grad.norm(dim=-1)
        self.seen += 1

    @torch.no_grad()
    def densify_and_prune(self) -> tuple[int, int, int]:
        """Return how many Gaussians were cloned, split and removed."""
        gaussians, args = self.gaussians, self.args
        pulled = self.gradient / max(1, self.seen) > args.densify_grad_threshold
        strongest = torch.zeros_like(pulled)
        room = max(0, args.max_gaussians - len(gaussians))
        strongest[self.gradient.topk(min(room, len(gaussians))).indices] = True
        pulled &= strongest
        large = gaussians.scaling.exp().amax(-1) > args.percent_dense
        clone, split = pulled & ~large, pulled & large
        kept = ~split & (torch.sigmoid(gaussians.opacity) > args.min_opacity)
        fresh = {name: [getattr(gaussians, name)[clone]] for name in gaussians.names}
        for name, rows in self._halves(split).items():
            fresh[name].append(rows)
        for group in self.optimizer.param_groups:
            name = group["name"]
            self._replace(group, kept, torch.cat(fresh[name]))
        removed = int((~kept & ~split).sum())
        self._forget()
        return int(clone.sum()), int(split.sum()), removed

    def _halves(self, split: torch.Tensor) -> dict[str, torch.Tensor]:
        """Two smaller Gaussians for each large one, at random positions inside it."""
        gaussians = self.gaussians
        rows = {
            name: getattr(gaussians, name)[split].repeat_interleave(2, 0)
            for name in gaussians.names
        }
        scale = rows["scaling"].exp()
        draw_ = torch.randn(scale.shape, generator=self.generator, device=scale.device) * scale
        cos, sin = torch.cos(rows["rotation"]), torch.sin(rows["rotation"])
        along, across = draw_.unbind(-1)
        offset = torch.stack([cos * along - sin * across, sin * along + cos * across], -1)
        rows["xy"] = rows["xy"] + offset
        rows["scaling"] = rows["scaling"] - math.log(1.6)
        return rows

    def _replace(self, group: dict, kept: torch.Tensor, fresh: torch.Tensor) -> None:
        """Replaces the parameter of this group by its kept rows and the new ones."""
        old = group["params"][0]
        new = nn.Parameter(torch.cat([old[kept], fresh]))
        state = self.optimizer.state.pop(old, None)
        if state:
            for key in ("exp_avg", "exp_avg_sq"):
                state[key] = torch.cat([state[key][kept], torch.zeros_like(fresh)])
            self.optimizer.state[new] = state
        group["params"][0] = new
        setattr(self.gaussians, group["name"], new)

    @torch.no_grad()
    def reset_opacity(self) -> None:
        """Makes all of them faint, so that those without use stay faint and are pruned."""
        for group in self.optimizer.param_groups:
            if group["name"] == "opacity":
                old = group["params"][0]
                faint = old.clamp(max=math.log(0.1 / 0.9))
                self._replace(
                    group, torch.zeros(len(old), dtype=torch.bool, device=old.device), faint
                )


def optimizer_of(gaussians: Gaussians, args: argparse.Namespace) -> torch.optim.Adam:
    """One named group for each parameter, so that densification can find it."""
    rates = {
        "xy": args.position_lr,
        "scaling": args.scaling_lr,
        "rotation": args.rotation_lr,
        "colour": args.colour_lr,
        "opacity": args.opacity_lr,
    }
    return torch.optim.Adam(
        [
            {"params": [getattr(gaussians, name)], "lr": rate, "name": name}
            for name, rate in rates.items()
        ],
        eps=1e-15,
    )


def save(folder: Path, iteration: int, gaussians: Gaussians, optimizer: torch.optim.Adam) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "iteration": iteration,
        "gaussians": gaussians.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    torch.save(state, folder / f"checkpoint_{iteration}.pt")


def load(args: argparse.Namespace) -> tuple[Gaussians, torch.optim.Adam, int]:
    """The Gaussians, their optimizer (new or from a checkpoint, -c), and the last iteration."""
    device = torch.device(args.device)
    if args.checkpoint_path is None:
        count = args.gaussians * (4 if args.high_poly else 1)
        generator = torch.Generator().manual_seed(args.seed)
        gaussians = Gaussians(count, generator).to(device)
        return gaussians, optimizer_of(gaussians, args), 0
    saved = read_checkpoint(args.checkpoint_path, device)
    gaussians = Gaussians(len(saved["gaussians"]["xy"]), torch.Generator()).to(device)
    gaussians.load_state_dict(saved["gaussians"])
    optimizer = optimizer_of(gaussians, args)
    optimizer.load_state_dict(saved["optimizer"])
    return gaussians, optimizer, saved["iteration"]


def evaluate(
    image: torch.Tensor, target: torch.Tensor, held_out: torch.Tensor, output_dir: Path
) -> None:
    """Prints the metrics of the held-out pixels and writes them to results.json."""
    results = held_out_metrics(image, target, held_out)
    print("eval  held-out PSNR {psnr:.2f} dB, L1 {l1:.4f} over {pixels} pixels".format(**results))
    output_dir.mkdir(parents=True, exist_ok=True)
    (output_dir / "results.json").write_text(json.dumps(results) + "\n")


def regularizer(gaussians: Gaussians, args: argparse.Namespace) -> torch.Tensor | float:
    if args.regularization == "none":
        return 0.0
    opacity = torch.sigmoid(gaussians.opacity)  # density: each Gaussian is solid or absent
    return args.lambda_density * (opacity * (1 - opacity)).mean()


def train(args: argparse.Namespace, monitor: plimsoll.TrainingMonitor) -> float:
    """Fits the picture and returns the PSNR that it reaches."""
    device = torch.device(args.device)
    target = picture(args.scene_path, args.size).to(device)
    gaussians, optimizer, done = load(args)
    renderer = Renderer(args.size, args.tiles_at_once).to(device)
    densifier = Densifier(gaussians, optimizer, args)
    window = blur_window(device)
    held_out = held_out_pixels(args.size, 1 / 8 if args.eval else 0.0, args.seed).to(device)
    seen = (~held_out).float()
    began = time.perf_counter()
    reached = 0.0
    for iteration in range(done + 1, args.iterations + 1):
        image = renderer(gaussians)
        wrong = 1 - similarity(image * seen, target * seen, window)
        pixels = ((image - target).abs() * seen).sum() / (3 * seen.sum())
        loss = (1 - args.lambda_dssim) * pixels + args.lambda_dssim * wrong
        loss = loss + regularizer(gaussians, args)
        loss.backward()
        densifying = args.densify_from_iter <= iteration <= args.densify_until_iter
        if densifying:
            densifier.observe()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if densifying and iteration % args.densification_interval == 0:
            cloned, split, removed = densifier.densify_and_prune()
            print(
                f"iteration {iteration}  cloned {cloned}, split {split}, removed {removed}: "
                f"{len(gaussians)} Gaussians"
            )
        if densifying and iteration % args.opacity_reset_interval == 0:
            densifier.reset_opacity()
        if iteration % args.report_every == 0 or iteration == args.iterations:
            reached = psnr(image.detach(), target)
            print(
                f"iteration {iteration}  loss {loss.item():.4f}  PSNR {reached:.2f} dB  "
                f"{time.perf_counter() - began:.1f} s",
                flush=True,
            )
        if args.checkpoint_interval and iteration % args.checkpoint_interval == 0:
            save(args.output_dir, iteration, gaussians, optimizer)
        monitor.step(iteration, loss)
    if args.eval:
        with torch.no_grad():
            evaluate(renderer(gaussians), target, held_out, args.output_dir)
    return reached


def boolean(text: str) -> bool:
    """Parses True or False, as flags of splatting trainers do."""
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if text.lower() not in words:
        raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")
    return words[text.lower()]


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("-s", "--scene_path", type=Path, help="binary PPM picture to fit (a built-in one)")
    add("-c", "--checkpoint_path", type=Path,
        help="a checkpoint, or a folder of them, to start from")  # fmt: skip
    add("-i", "--iterations", "--steps", type=int, default=300, help="optimizer steps (300)")
    add("-r", "--regularization", choices=("none", "density"), default="none")
    add("--high_poly", type=boolean, nargs="?", const=True, default=False,
        help="start with four times the Gaussians (False)")  # fmt: skip
    add("--eval", type=boolean, nargs="?", const=True, default=False,
        help="hold out one pixel in eight and report metrics (False)")  # fmt: skip
    add("--size", type=int, default=96, help=f"image side in pixels, a multiple of {TILE} (96)")
    add("--gaussians", type=int, default=300, help="initial number of Gaussians (300)")
    add("--max_gaussians", type=int, default=100_000, help="maximum number of Gaussians (100000)")
    add("--tiles_at_once", type=int, default=36, help="tiles blended simultaneously (36)")
    add("--densify_from_iter", type=int, default=50)
    add("--densify_until_iter", type=int, default=220)
    add("--densification_interval", type=int, default=30)
    add("--densify_grad_threshold", type=float, default=3e-3)
    add("--percent_dense", type=float, default=0.03, help="split what is larger, clone the rest")
    add("--min_opacity", type=float, default=0.08, help="remove Gaussians below it (0.08)")
    add("--opacity_reset_interval", type=int, default=120)
    add("--lambda_dssim", type=float, default=0.2)
    add("--lambda_density", type=float, default=0.05, help="weight of -r density (0.05)")
    add("--position_lr", type=float, default=2e-3)
    add("--scaling_lr", type=float, default=2e-2)
    add("--rotation_lr", type=float, default=2e-2)
    add("--colour_lr", type=float, default=5e-2)
    add("--opacity_lr", type=float, default=5e-2)
    add("--report_every", type=int, default=50, help="iterations between printed lines (50)")
    add("--checkpoint_interval", type=int, default=2000,
        help="iterations between checkpoints, 0: none (2000)")  # fmt: skip
    add("-o", "--output_dir", type=Path, help="folder for all files (output/NAME of the picture)")
    add("--device", default="cpu", help="cpu, cuda or cuda:1 (cpu)")
    add("--seed", type=int, default=0)
    plimsoll.add_arguments(parser)  # --profile_tensors and similar flags
    args = parser.parse_args(argv)
    if args.size % TILE:
        parser.error(f"--size {args.size} is no multiple of {TILE}")
    try:
        check_files(args.scene_path, args.checkpoint_path)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if args.output_dir is None:
        name = "ship" if args.scene_path is None else args.scene_path.stem
        args.output_dir = Path("output") / name
    return args


def main(argv: list[str] | None = None) -> None:
    args = parse_arguments(argv)
    torch.manual_seed(args.seed)
    with plimsoll.TrainingMonitor(args, output_dir=args.profile_dir or args.output_dir) as monitor:
        train(args, monitor)


if __name__ == "__main__":
    main()
