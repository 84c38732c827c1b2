#!/usr/bin/env python3
"""Finds how well a plate conducts heat from a noisy picture of its temperature, with PhiFlow.

PhiFlow (pip install phiflow) simulates the heat equation, u_t = kappa (u_xx + u_yy), based on
torch. L-BFGS minimizes the distance to a measurement that this program invents. Each loss
evaluation unrolls the whole simulation and differentiates through it: memory grows with --grid and
--steps, and rises and falls with the evaluations, whose number the optimizer chooses.

    python examples/heat_inversion.py                    # about 5 s on two slow cores
    python examples/heat_inversion.py --config examples/heat_inversion.yaml  # memory monitoring
    plimsoll run examples/heat_inversion.py              # recorded
"""

from __future__ import annotations

import argparse
import math as numbers
import time
from collections.abc import Callable

import configuration
import torch

import plimsoll

try:
    from phi.torch.flow import (
        TORCH,
        ZERO_GRADIENT,
        Box,
        CenteredGrid,
        Solve,
        Tensor,
        diffuse,
        math,
        tensor,
    )

    from plimsoll.integrations import phiflow
except ModuleNotFoundError as error:
    raise configuration.without(error, "phiflow") from None

# Settings of the other example that a shared configuration may contain.
UNUSED = ("batch_size", "gradient_accumulation_steps", "use_amp", "max_cached_sims", "pin_memory")
KAPPA_MOST = 0.1  # upper limit of the search; determines the time step


class Plate:
    """A square, insulated plate, initially with two hot spots."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.steps = args.steps
        self.time_step = args.until / args.steps
        # An explicit step is stable below dx^2 / (4 kappa).
        self.substeps = numbers.ceil(4 * KAPPA_MOST * self.time_step * args.grid**2)
        self.start = CenteredGrid(
            self._hot_spots, ZERO_GRADIENT, bounds=Box(x=1, y=1), x=args.grid, y=args.grid
        )

    @staticmethod
    def _hot_spots(x: Tensor) -> Tensor:
        def spot(*centre: float) -> Tensor:
            away = x - math.vec(x=centre[0], y=centre[1])
            return math.exp(-math.sum(away**2, "vector") / 0.01)

        return spot(0.3, 0.35) + 0.7 * spot(0.65, 0.7)

    def temperature(self, kappa: Tensor) -> Tensor:
        """The temperature at the end."""
        u = self.start
        for _ in range(self.steps):
            u = diffuse.explicit(u, kappa, self.time_step, substeps=self.substeps)
        return u.values


def check_plate(args: argparse.Namespace) -> float:
    """The largest error of a cosine's decay, whose rate is known: 2 kappa pi^2."""
    plate = Plate(args)
    wave = CenteredGrid(
        lambda x: math.cos(numbers.pi * x.vector["x"]) * math.cos(numbers.pi * x.vector["y"]),
        ZERO_GRADIENT, bounds=Box(x=1, y=1), x=args.grid, y=args.grid,
    )  # fmt: skip
    plate.start = wave
    decay = numbers.exp(-2 * 0.02 * numbers.pi**2 * args.until)
    wrong = plate.temperature(tensor(0.02)) - decay * wave.values
    return float(math.max(math.abs(wrong)))


def misfit(plate: Plate, measured: Tensor) -> Callable[[Tensor], Tensor]:
    """The loss as a function of one unbounded unknown, from which kappa follows."""

    def loss(unknown: Tensor) -> Tensor:
        kappa = KAPPA_MOST * math.sigmoid(unknown)
        return math.l2_loss(plate.temperature(kappa) - measured)

    return loss


def parse_arguments(
    argv: list[str] | None = None, config: configuration.Config | None = None
) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--grid", type=int, default=48, help="grid points per side (48)")
    parser.add_argument("--steps", type=int, default=20, help="time steps (20)")
    parser.add_argument("--until", type=float, default=0.1, help="simulated time (0.1)")
    parser.add_argument("--kappa", type=float, default=0.02, help="true conductivity (0.02)")
    parser.add_argument("--guess", type=float, default=0.07, help="initial conductivity (0.07)")
    parser.add_argument("--noise", type=float, default=0.01, help="noise of the measurement (0.01)")
    parser.add_argument(
        "--iterations", type=int, default=30, help="maximum number of iterations (30)"
    )
    parser.add_argument(
        "--tolerance", type=float, default=1e-3, help="tolerance of the loss (1e-3)"
    )
    parser.add_argument("--device", choices=("CPU", "GPU"), default="CPU")
    parser.add_argument("--seed", type=int, default=0)
    args = configuration.parse(parser, argv, config, UNUSED)
    for name in ("kappa", "guess"):
        if not 0 < getattr(args, name) < KAPPA_MOST:
            parser.error(f"--{name} {getattr(args, name)} is not between 0 and {KAPPA_MOST}")
    return args


def main(argv: list[str] | None = None, config: configuration.Config | None = None) -> None:
    args = parse_arguments(argv, config)
    math.seed(args.seed)
    torch.manual_seed(args.seed)
    TORCH.set_default_device(args.device)
    print(f"heat equation: error {check_plate(args):.1e} against the exact solution")
    plate = Plate(args)
    measured = plate.temperature(tensor(args.kappa))
    measured += args.noise * math.random_normal(measured.shape)
    options = plimsoll.load_options(args.config)  # off unless the configuration enables it
    if options.enabled:
        plimsoll.MemoryMonitor.print_memory_usage("After loading ground truth data: ")
    fraction = args.guess / KAPPA_MOST
    guess = tensor(numbers.log(fraction / (1 - fraction)))
    solve = Solve("L-BFGS-B", 0, args.tolerance, x0=guess, max_iterations=args.iterations)
    began = time.perf_counter()
    counted = phiflow.Counted(misfit(plate, measured), options)
    with counted:
        try:
            unknown = math.minimize(counted, solve)
        except math.NotConverged as stopped:
            unknown = stopped.result.x
            print(f"not converged after {args.iterations} iterations")
    kappa = float(KAPPA_MOST * math.sigmoid(unknown))
    print(
        f"kappa {kappa:.5f} (true {args.kappa}) after {counted.evaluations} loss evaluations  "
        f"{time.perf_counter() - began:.1f} s"
    )


if __name__ == "__main__":
    main()
