"""Hydra-style configurations for the examples: a tree of YAML files, and overrides.

    python examples/run.py --config-name=burgers_experiment trainer_params.batch_size=8

A file's `defaults` list names the files on which it builds: `- trainer: synthetic` means
trainer/synthetic.yaml, whose settings join at the top level (Hydra's package `_global_`), and
`- _self_` means the file itself. On the command line, `trainer=…` chooses another file of a group,
`name.name=value` sets an existing value, and `+name.name=value` adds one. Only this part of Hydra
is implemented; Hydra itself can compose the same tree.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

Config = dict[str, Any]
MONITORING = ("enable_memory_monitoring", "memory_monitor_batches")  # read by plimsoll.load_options


class ConfigurationError(Exception):
    """A file or an override is invalid; the message says where and why."""


def compose(folder: Path, name: str, overrides: Sequence[str] = ()) -> Config:
    """The configuration `name` of `folder`, with `overrides` applied in order."""
    primary = load(folder / f"{name}.yaml")
    defaults = primary.pop("defaults", ["_self_"])
    groups = {
        key: choice for entry in defaults if entry != "_self_" for key, choice in entry.items()
    }
    settings = [override for override in overrides if override.partition("=")[0] not in groups]
    for override in overrides:
        key, _, choice = override.partition("=")
        if key in groups:
            groups[key] = choice
    config: Config = {}
    for entry in [*defaults, *(["_self_"] if "_self_" not in defaults else [])]:
        if entry == "_self_":
            merge(config, primary)
        else:
            (group,) = entry
            merge(config, load(chosen(folder / group, groups[group])))
    for override in settings:
        apply(config, override)
    return config


def chosen(group: Path, choice: str) -> Path:
    path = group / f"{choice}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in group.glob("*.yaml")))
        raise ConfigurationError(f"{group.name}={choice}: no such file; choose from: {known}")
    return path


def without(error: ModuleNotFoundError, pip: str) -> SystemExit:
    """What to raise if a package of the program is not installed."""
    name = str(error.name).partition(".")[0]
    return SystemExit(f"{Path(sys.argv[0]).name}: {name} is not installed: pip install {pip}")


def yaml_package() -> Any:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise without(error, "pyyaml") from None
    return yaml


def load(path: Path) -> Config:
    yaml = yaml_package()
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    if not isinstance(config, dict):
        raise ConfigurationError(f"{path}: expected names with values")
    return config


def merge(config: Config, other: Config) -> None:
    """Adds `other` to `config`; nested blocks merge, other values replace."""
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(config.get(key), dict):
            merge(config[key], value)
        else:
            config[key] = value


def apply(config: Config, override: str) -> None:
    """Sets one value: ``trainer_params.batch_size=8``."""
    path, equals, value = override.partition("=")
    *blocks, key = path.removeprefix("+").split(".")
    block: Any = config
    for name in blocks:
        block = block.setdefault(name, {}) if isinstance(block, dict) else None
    if not equals or not isinstance(block, dict):
        raise ConfigurationError(f"{override}: expected name.name=value")
    if key not in block and not path.startswith("+"):
        raise ConfigurationError(f"{override}: no setting {path}; +{override} adds it")
    block[key] = yaml_package().safe_load(value)


def parse(
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    config: Config | None = None,
    unused: Sequence[str] = (),
) -> argparse.Namespace:
    """The arguments of an example; `args.config` is the whole configuration.

    The settings of its blocks (`trainer_params`, `data`, …) are the defaults of the flags with the
    same names. Overrides may follow the flags.

    Args:
        parser: A parser with the example's own flags.
        argv: The command line.
        config: Used instead of the file that ``--config`` names.
        unused: Settings without a flag here; the program prints that they have no effect.
    """
    parser.add_argument("--enable-memory-monitoring", action="store_true", default=None)
    parser.add_argument("--memory-monitor-batches", type=int, help="lines per epoch (5)")
    parser.add_argument("--config", type=Path, help="a YAML file: defaults, memory monitoring")
    parser.add_argument("overrides", nargs="*", help="settings of the file: name.name=value")
    args = parser.parse_args(argv)
    try:
        if config is None:
            config = load(args.config) if args.config is not None else {}
        for override in args.overrides:
            apply(config, override)
        for place, name, value in settings_of(config):
            if name in unused:
                print(f"{parser.prog}: {place}.{name} has no effect here", file=sys.stderr)
            elif name not in vars(args):
                raise ConfigurationError(f"{place}.{name}: no such setting")
            elif name not in MONITORING:
                parser.set_defaults(**{name: value})
    except ConfigurationError as error:
        parser.error(str(error))
    args = parser.parse_args(argv)
    flags = {name: vars(args)[name] for name in MONITORING if vars(args)[name] is not None}
    if flags:
        merge(config, {"trainer_params": flags})
    args.config = config
    return args


def settings_of(config: Config) -> Iterator[tuple[str, str, Any]]:
    """The settings of all blocks except Plimsoll's, with the name of their block."""
    for place, block in config.items():
        if isinstance(block, dict) and place != "plimsoll":
            yield from ((place, str(name), value) for name, value in block.items())
