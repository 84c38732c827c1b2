"""Reads the options of monitoring from a YAML file, a dict, Hydra, flags or the environment.

Names, defaults and checks are those of `MonitorOptions` (docs/monitoring-reference.md has the
table). This module only finds them in a configuration.
"""

from __future__ import annotations

import importlib
import os
import reprlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from plimsoll._monitoring.misplaced import OWN_BLOCK, Misplaced
from plimsoll._monitoring.yaml_file import place_in_file, read_yaml
from plimsoll._process.messages import print_notice
from plimsoll._process.names import name_of
from plimsoll._process.program_errors import leave_to_program
from plimsoll._record import MonitorOptions, monitor_options_help
from plimsoll.errors import (
    Error,
    InvalidArgumentError,
)

if TYPE_CHECKING:  # slow to import, and only needed for flags
    import argparse

Source: TypeAlias = (
    "MonitorOptions | Mapping[str, Any] | argparse.Namespace | str | os.PathLike[str] | None"
)

_SHORT = reprlib.Repr()  # limit for the content of a file
_SHORT.maxlevel = 2

# The flags of `add_arguments`, with the option that each sets.
FLAGS = {
    "profile_tensors": "profile_tensors",
    "profile_interval": "interval",
    "profile_phases": "phases",
    "profile_snapshot_at": "snapshot_at",
    "profile_section": "section",
    "profile_dir": "output_dir",
    "profile_tensorboard": "tensorboard",
    "profile_record": "record",
    "profile_alert_above": "alert_above",
}

_METAVARS = {
    "interval": "N",
    "phases": "FROM-TO:N,...",
    "snapshot_at": "N,...",
    "alert_above": "THRESHOLD,...",
}


@dataclass(frozen=True)
class _Setting:
    name: str
    value: object
    place: str  # where it was found, followed by a colon and a space
    shown: str = ""  # its name there, if that differs from `name`


_MISSING = "???"  # OmegaConf's mark of a value that must be given
_OWN_BLOCK_IS_THERE = _Setting("", None, "")


def load_options(source: Source = None, **options: object) -> MonitorOptions:
    """Return the options of monitoring, from keyword arguments, the environment and `source`.

    Keyword arguments take precedence over the environment, and the environment over `source`. A
    `source` enables monitoring with a ``plimsoll:`` block, ``enable_memory_monitoring: true`` or
    ``profile_tensors: true``. Without one of these, monitoring stays off.

    Args:
        source: A complete configuration: the path of a YAML file, a dict, a Hydra or OmegaConf
            object, or parsed command-line arguments (`add_arguments`). Options are read from its
            block ``plimsoll:``. At the top level and one level below, only these unambiguous names
            are read: ``enable_memory_monitoring``, ``memory_monitor_batches``, ``profile_tensors``,
            ``profile_interval``, ``tensor_profile_interval``. A dict that has only options is read
            directly, and `MonitorOptions` are used unchanged.
        options: Individual options by name; ``None`` leaves an option unset.

    Raises:
        InvalidArgumentError: An option is unknown, or a value is invalid.
        CorruptError: The file is not valid YAML.
        UnsupportedError: `source` is a file, and PyYAML is not installed.
        OSError: The file cannot be read.

    Example:
        >>> plimsoll.load_options({"trainer_params": {"enable_memory_monitoring": True}}).enabled
        True
        >>> plimsoll.load_options({"plimsoll": {"verbos_batches": 2}})
        Traceback (most recent call last):
        plimsoll.errors.InvalidArgumentError: plimsoll: no option 'verbos_batches': did you mean \
'verbose_batches'?
    """
    if isinstance(source, MonitorOptions):
        result = MonitorOptions(source)
        _apply(result, (_Setting(name, value, "") for name, value in options.items()))
        return result
    found = list(_settings(source))
    result = MonitorOptions()
    if source is not None:
        result.set("enabled", _text(_OWN_BLOCK_IS_THERE in found))
    found = [setting for setting in found if setting is not _OWN_BLOCK_IS_THERE]
    _apply(result, found)
    if result.profile_tensors and not _says_enabled(found):
        result.set("enabled", "true")
    result.set_from_environment()
    given = [_Setting(name, value, "") for name, value in options.items()]
    _apply(result, given)
    if source is not None and not result.enabled:
        _report_what_has_no_effect(found, given)
    return result


def _report_what_has_no_effect(found: Iterable[_Setting], given: Iterable[_Setting]) -> None:
    """Name a switch or a flag that was given although monitoring is off.

    A keyword argument next to a source that decides is only for when monitoring is on.
    """
    if _says_enabled([*found, *given]):
        return
    is_decided = any(each.name == "profile_tensors" and each.value is not None for each in found)
    flags = [each for each in found if each.place == "--" and each.value not in (None, False)]
    switches = [each for each in given if each.value is True and not is_decided]
    first = next(iter([*switches, *flags]), None)
    if first is not None:
        shown = first.place + (first.shown or first.name)
        how = "--profile_tensors True" if first.place else "enabled=True"
        message = f"monitoring is off, so {shown} has no effect: add {how}"
        print_notice(message)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--profile_tensors``, ``--profile_interval`` and similar flags to a program's parser.

    Pass the result to ``load_options(parser.parse_args())``.
    """
    described = {name: sentence for name, _, _, _, sentence in monitor_options_help()}
    group = parser.add_argument_group("memory monitoring")
    for flag, option in FLAGS.items():
        is_switch = flag == "profile_tensors"
        optional = is_switch or flag == "profile_tensorboard"
        group.add_argument(
            f"--{flag}",
            nargs="?" if optional else None,
            const="true" if optional else None,
            default=False if is_switch else None,
            type=_switch if is_switch else str,
            metavar=_METAVARS.get(option, option.upper()),
            help=described[option].replace("%", "%%"),
        )


def _switch(text: str) -> bool:
    """Parse a switch into a bool, so that ``if args.profile_tensors`` works."""
    import argparse

    options = MonitorOptions()
    try:
        options.set("profile_tensors", name_of(text))
    except Error as error:
        raise argparse.ArgumentTypeError(error.message) from None
    return options.profile_tensors


def option_table() -> str:
    """Return the table of options in docs/monitoring-reference.md, as Markdown."""
    rows = ["| option | type | default | |", "|---|---|---|---|"]
    for name, aliases, kind, default, sentence in monitor_options_help():
        names = ", ".join(f"`{each}`" for each in (name, *aliases))
        shown = f"`{default}`" if default else ""
        rows.append(f"| {names} | {kind} | {shown} | {sentence} |")
    return "\n".join(rows) + "\n"


# Sources ------------------------------------------------------------------------------------------


def _settings(source: object) -> Iterator[_Setting]:
    """Return the options in `source`, lowest precedence first, and whether it has a block."""
    if source is None:
        return
    if isinstance(source, str | os.PathLike):
        yield from _of_mapping(read_yaml(Path(source)), f"{os.fspath(source)}: ")
    elif _is_namespace(source):
        given = vars(source)
        yield from _foreign(given, "--")
        for flag, option in FLAGS.items():
            yield _Setting(option, given.get(flag), "--", flag)
    elif _is_omegaconf(source):
        yield from _of_omegaconf(source)
    elif isinstance(source, Mapping):
        yield from _of_mapping(source, "")
    else:
        raise InvalidArgumentError(
            "invalid_argument",
            f"the configuration is of type {type(source).__name__}; it must be the path of a YAML"
            " file, a dict, an OmegaConf object or an argparse.Namespace",
        )


def _is_namespace(source: object) -> bool:
    argparse = sys.modules.get("argparse")
    return argparse is not None and isinstance(source, argparse.Namespace)


def _foreign_names() -> set[str]:
    """Return the options whose names are recognized among other settings."""
    aliases = {alias for _, also, _, _, _ in monitor_options_help() for alias in also}
    return aliases | {"profile_tensors"}


def _foreign(block: Mapping[Any, Any], place: str) -> Iterator[_Setting]:
    for name in sorted(_foreign_names() & {key for key in block if isinstance(key, str)}):
        yield _Setting(name, block[name], place_in_file(block, name, place))


def _of_mapping(config: Mapping[Any, Any], place: str) -> Iterator[_Setting]:
    names = {name for name, *_ in monitor_options_help()}
    if config and names.union(_foreign_names()).issuperset(config):
        yield _OWN_BLOCK_IS_THERE
        for name, value in config.items():
            yield _Setting(name, value, place_in_file(config, name, place))
        return
    Misplaced(_foreign_names(), names).refuse(config, place)
    yield from _foreign(config, place)
    for key, value in config.items():
        if isinstance(value, Mapping) and key != OWN_BLOCK:
            yield from _foreign(value, f"{place}{key}: ")
    if OWN_BLOCK not in config:
        return
    block = config[OWN_BLOCK]
    if isinstance(block, bool | str) and _is_truth(block):  # plimsoll: true
        block = {"enabled": block}
    if not isinstance(block, Mapping | None):
        where = place_in_file(config, OWN_BLOCK, place)
        what = (
            f"{_MISSING}: its value is missing"
            if block == _MISSING
            else f"{block}; it must hold options"
        )
        raise InvalidArgumentError("invalid_argument", f"{where}{OWN_BLOCK} is {what}")
    yield _OWN_BLOCK_IS_THERE
    options = block or {}
    for name, value in options.items():
        where = place_in_file(options, name, f"{place}{OWN_BLOCK}: ")
        yield _Setting(str(name), value, where)


def _is_truth(value: bool | str) -> bool:
    try:
        MonitorOptions().set("enabled", name_of(_text(value)))
    except Error:
        return False
    return True


def _is_omegaconf(source: object) -> bool:
    module = sys.modules.get("omegaconf")  # not imported: there are no such objects
    return module is not None and bool(module.OmegaConf.is_config(source))


def _of_omegaconf(source: object) -> Iterator[_Setting]:
    """Resolve only Plimsoll's own block: other interpolations may be unresolvable here."""
    omegaconf = importlib.import_module("omegaconf").OmegaConf
    plain = omegaconf.to_container(source, resolve=False)
    if not isinstance(plain, Mapping):
        raise InvalidArgumentError("invalid_argument", "this OmegaConf object is a list")
    for key, value in plain.items():
        if isinstance(value, str) and "${" in value and key == OWN_BLOCK:
            plain = {**plain, key: omegaconf.to_container(_resolved(source, key), resolve=True)}
    for setting in _of_mapping(plain, ""):
        if isinstance(setting.value, str) and "${" in setting.value:
            path = ".".join([*setting.place.split(": ")[:-1], setting.name])
            yield _Setting(setting.name, _resolved(source, path), setting.place)
        else:
            yield setting


def _resolved(source: object, path: str) -> object:
    try:
        return importlib.import_module("omegaconf").OmegaConf.select(
            source, path, throw_on_missing=True
        )
    except Exception as error:  # exceptions of OmegaConf, or of a resolver of the user
        leave_to_program(error)
        first_line = str(error).split("\n", 1)[0]
        raise InvalidArgumentError("invalid_argument", f"{path}: {first_line}") from error


# Values -------------------------------------------------------------------------------------------


def _says_enabled(settings: Iterable[_Setting]) -> bool:
    names = {"enabled", "enable_memory_monitoring"}
    return any(setting.name in names and setting.value is not None for setting in settings)


def _apply(options: MonitorOptions, settings: Iterable[_Setting]) -> None:
    known = {alias: name for name, also, *_ in monitor_options_help() for alias in also}
    for setting in settings:
        if setting.value is None:
            continue
        name = name_of(setting.name)
        shown = setting.shown or name
        if isinstance(setting.value, str) and setting.value == _MISSING:
            raise InvalidArgumentError(
                "invalid_argument", f"{setting.place}{shown} is {_MISSING}: its value is missing"
            )
        try:
            options.set(name, name_of(_text(setting.value)))
        except Error as error:
            message = error.message
            canonical = known.get(name, name)
            if message.startswith((f"{canonical} ", f"{canonical}:")):
                message = shown + message.removeprefix(canonical)  # the name that the user wrote
            elif not message.startswith("no option"):
                message = f"{shown}: {message}"
            raise InvalidArgumentError(error.code, setting.place + message) from None


def _text(value: object) -> str:
    """Return the value as text for `MonitorOptions.set`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return repr(float(value))
    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, Iterable) and not isinstance(value, Mapping | bytes):
        return ",".join(_item_text(item) for item in value)
    kind = "dict" if isinstance(value, dict) else type(value).__name__
    raise InvalidArgumentError("invalid_argument", f"a {kind} is neither a number nor text")


def _item_text(item: object) -> str:
    """Return an iteration or a phase as text."""
    if isinstance(item, Real) and not isinstance(item, bool):
        return str(int(item)) if isinstance(item, Integral) else str(item)
    return _phase_text(item)


def _phase_text(phase: object) -> str:
    """Return a phase as text, from a string, a mapping {from, to, interval} or a tuple."""
    if isinstance(phase, str):
        return phase
    if isinstance(phase, Mapping):
        unknown = sorted(str(key) for key in phase if key not in ("from", "to", "interval"))
        if unknown or "interval" not in phase:
            trouble = f"has no '{unknown[0]}'" if unknown else "needs an interval"
            raise InvalidArgumentError(
                "invalid_argument", f"a phase {trouble}: it is {{from, to, interval}}"
            )
        ends = [phase.get("from", 0), phase.get("to"), phase["interval"]]
    elif isinstance(phase, Iterable):
        ends = list(phase)
    else:
        ends = []
    if len(ends) != 3:
        raise InvalidArgumentError(
            "invalid_argument", f"{_SHORT.repr(phase)} is not a phase: it is {{from, to, interval}}"
        )
    return "{}-{}:{}".format(*map(_end_text, ends))


def _end_text(end: object) -> str:
    """Refuse lists, because YAML aliases can make a short list expand without end."""
    if end is not None and not isinstance(end, str | Real):
        kind = type(end).__name__
        raise InvalidArgumentError("invalid_argument", f"a phase cannot contain a {kind}")
    return "" if end is None else str(end)
