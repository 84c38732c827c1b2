"""The cases of tests/gpu/run: the function of cases.py that each one calls, and its settings."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

# Variables of torch's allocator: PYTORCH_CUDA_ALLOC_CONF, and its name since torch 2.10.
SETTINGS = {
    "default": "",
    "expandable": "expandable_segments:True",
    "max_split": "max_split_size_mb:128",
}
EXAMPLES = ("burgers_unet", "language_model", "gaussian_splatting")


@dataclass(frozen=True)
class Case:
    """A function of cases.py and its arguments.

    A case that is `alone` runs after all others: it fills or limits the device, queries all
    processes that use it, or measures time. `own_cache` gives it an empty cache of adapters.
    """

    name: str
    function: str
    words: tuple[str, ...] = ()
    settings: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    alone: bool = False
    own_cache: bool = False


def all_cases() -> list[Case]:
    """Return the cases in the order in which they start."""
    no_compiler = (("CXX", "/nonexistent"),)
    return [
        *(
            Case(f"{example}, {setting}", "example", (example,), SETTINGS[setting])
            for example in EXAMPLES
            for setting in SETTINGS
        ),
        *(Case(f"cuda driver, {each}", "driver", (each,)) for each in ("shared", "static", "cupy")),
        *(
            Case(f"{name}, {setting}", name, (), SETTINGS[setting])
            for name in ("graphs", "streams")
            for setting in SETTINGS
        ),
        Case("starts in the middle", "middle"),
        Case("backward on engine threads", "backward"),
        Case("lite mode", "lite"),
        Case("workspaces of libraries", "workspaces"),
        Case("threads", "threads"),
        Case("planted oom", "planted_oom"),
        Case("oom in backward", "oom_in_backward"),
        Case("oom in the optimizer", "oom_in_optimizer"),
        Case("lstm peak", "lstm_peak", ("bare", "bare", "recorded", "bare")),
        Case("lstm peak, never recorded", "lstm_peak", ("bare",) * 4),
        Case("without a compiler", "history", environment=no_compiler, own_cache=True),
        Case("cudaMallocAsync", "history", settings="backend:cudaMallocAsync"),
        Case("samples", "samples"),
        *(
            Case(f"{name.replace('_', ' ')}, {setting}", name, (), SETTINGS[setting], alone=True)
            for name in ("device_bar", "caught_oom")
            for setting in SETTINGS
        ),
        Case("oom, caught again and again", "oom_search", alone=True),
        Case("overhead, compute-bound", "overhead", ("compute", "1.0"), alone=True),
        Case("overhead, launch-bound", "overhead", ("launch", "3.0"), alone=True),
    ]


def environment_of(case: Case, place: Path) -> dict[str, str]:
    """Return the environment of a case that runs in a folder."""
    environment = dict(os.environ)
    for variable in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        environment.pop(variable, None)
    if case.settings:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = case.settings
    if case.own_cache:
        environment["PLIMSOLL_CACHE"] = str(place / "cache")
    return environment | dict(case.environment)
