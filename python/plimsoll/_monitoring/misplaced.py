"""Names in a configuration that would have no effect; src/config has the same rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from plimsoll._monitoring.yaml_file import place_in_file
from plimsoll._process.names import name_of
from plimsoll._record import MonitorOptions, misspelt
from plimsoll.errors import Error, InvalidArgumentError

OWN_BLOCK = "plimsoll"

_SWITCHES = ("enable_memory_monitoring", "profile_tensors")


class Misplaced:
    """Refuses names that misspell an option, and options from a block where none are searched.

    Hydra's default packages have such blocks: ``trainer.trainer_params.enable_memory_monitoring``.

    Args:
        foreign: The names that are searched among other settings.
        options: All names of options.
    """

    def __init__(self, foreign: Collection[str], options: Collection[str]) -> None:
        self._foreign = sorted(foreign)
        self._options = {*foreign, *options}
        self._visited: set[int] = set()  # aliases make a small text a large tree

    def refuse(self, config: Mapping[Any, Any], place: str, blocks: tuple[str, ...] = ()) -> None:
        for key, value in config.items():
            if not isinstance(key, str):
                continue
            self._refuse_misspelt(config, key, place, blocks)
            is_own_name = key == OWN_BLOCK
            is_lost = (
                bool(blocks) and self._is_own_block(value)
                if is_own_name
                else len(blocks) > 1 and key in _SWITCHES and _is_on(value)
            )
            if is_lost:
                where = place_in_file(config, key, place)
                path = ".".join([*blocks, key])
                raise InvalidArgumentError(
                    "invalid_argument",
                    f"{where}{path} has no effect so deep in the configuration: move it to the top"
                    " level, or begin its Hydra file with '# @package _global_'",
                )
            is_searched = is_own_name and not blocks
            if not isinstance(value, Mapping) or is_searched or id(value) in self._visited:
                continue
            self._visited.add(id(value))
            self.refuse(value, place, (*blocks, key))

    def _refuse_misspelt(
        self, config: Mapping[Any, Any], key: str, place: str, blocks: tuple[str, ...]
    ) -> None:
        is_own = not blocks or self._is_own_block(config[key])
        known = [*self._foreign, OWN_BLOCK] if is_own else self._foreign
        meant = misspelt(name_of(key), known, ["memory_monitor", "mem_monitor"])
        if meant:
            where = place_in_file(config, key, place + "".join(f"{block}: " for block in blocks))
            place = " at the top level" if meant == OWN_BLOCK and blocks else ""
            raise InvalidArgumentError(
                "invalid_argument", f"{where}no option '{key}': did you mean '{meant}'{place}?"
            )

    def _is_own_block(self, value: object) -> bool:
        """Return whether it is a block of options, and not one that Hydra instantiates."""
        if not isinstance(value, Mapping):
            return _is_on(value)
        return "_target_" not in value and not self._options.isdisjoint(
            key for key in value if isinstance(key, str)
        )


def _is_on(value: object) -> bool:
    if isinstance(value, bool):
        return value
    options = MonitorOptions()
    options.set("enabled", "false")
    try:
        options.set("enabled", name_of(value) if isinstance(value, str) else "")
    except Error:
        return False
    return options.enabled
