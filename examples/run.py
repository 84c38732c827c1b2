#!/usr/bin/env python3
"""Runs the example that a configuration of examples/conf describes.

    python examples/run.py --config-name=burgers_experiment trainer=synthetic_with_memory
    python examples/run.py --config-name=heat_physical_experiment trainer=physical_with_memory

Settings can be changed in place: trainer_params.enable_memory_monitoring=true.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

import configuration


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--config-name", "-cn", required=True, help="a file of the folder, no .yaml"
    )
    parser.add_argument(
        "--config-path", "-cp", type=Path, default=Path(__file__).parent / "conf",
        help="the folder of configurations (examples/conf)",
    )  # fmt: skip
    parser.add_argument("overrides", nargs="*", help="group=file or name.name=value")
    args = parser.parse_args(argv)
    try:
        config = configuration.compose(args.config_path, args.config_name, args.overrides)
        experiment = config.pop("experiment", None)
        if experiment not in ("burgers_unet", "heat_inversion"):
            raise configuration.ConfigurationError(f"experiment: {experiment}: no such example")
    except configuration.ConfigurationError as error:
        parser.error(str(error))
    importlib.import_module(experiment).main([], config)


if __name__ == "__main__":
    main()
