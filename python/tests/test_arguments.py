"""Invalid arguments of public functions: each error of Plimsoll names the argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import plimsoll

WRONG = (object(), "x", b"x", 1.5, -1, 2**70, float("nan"), [], None)

# A valid call of each function. The test replaces its arguments one by one.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "EpochMemoryMonitor": (plimsoll.EpochMemoryMonitor, {"enabled": False, "verbose_batches": 5}),
    "OptimizationMemoryMonitor": (
        plimsoll.OptimizationMemoryMonitor,
        {"enabled": False, "verbose_evaluations": 5},
    ),
    "BatchMemoryProfiler": (plimsoll.BatchMemoryProfiler, {"enabled": False}),
    "on_batch_end": (
        plimsoll.EpochMemoryMonitor(enabled=False).on_batch_end,
        {"batch_idx": 0, "loss": 0.5},
    ),
    "on_loss_evaluation": (
        plimsoll.OptimizationMemoryMonitor(enabled=False).on_loss_evaluation,
        {"loss": 0.5},
    ),
    "checkpoint": (plimsoll.BatchMemoryProfiler(enabled=False).checkpoint, {"name": "x"}),
    "log_tensor_memory_breakdown": (
        plimsoll.log_tensor_memory_breakdown,
        {"writer": None, "iteration": 1, "interval": 10**6, "section": "Memory"}
        | {"large_tensor_mb": 100.0, "top_layers": 10},
    ),
    "record": (
        plimsoll.record,
        {"overwrite": False, "max_events": 10, "stacks": True, "in_children": False},
    ),
    "MemoryTracer": (plimsoll.MemoryTracer, {"max_events": 10, "mode": "full"}),
    "TrainingMonitor": (
        plimsoll.TrainingMonitor,
        {"enabled": False, "interval": 10, "on_alert": print},
    ),
    "TrainingMonitor.step": (
        plimsoll.TrainingMonitor(enabled=False).step,
        {"iteration": 1, "loss": 0.5, "batch_size": 4},
    ),
    "TrainingMonitor.set_batch_size": (
        plimsoll.TrainingMonitor(enabled=False).set_batch_size,
        {"items": 4},
    ),
    "TrainingMonitor.ran_out": (
        plimsoll.TrainingMonitor(enabled=False).ran_out,
        {"iteration": 1, "error": RuntimeError("x")},
    ),
    "Recording.pins": (plimsoll.record(adapter="none").pins, {"device": 0}),
    "Recording.since_step": (plimsoll.record(adapter="none").since_step, {"device": 0}),
    "load_options": (plimsoll.load_options, {"interval": 5, "phases": [(0, 5, 1)]}),
    "MonitorOptions": (plimsoll.MonitorOptions, {}),
    "MonitorOptions.set": (plimsoll.MonitorOptions().set, {"name": "interval", "value": "5"}),
    "MonitorOptions.text": (plimsoll.MonitorOptions().text, {"name": "interval"}),
    "MonitorOptions.is_due": (plimsoll.MonitorOptions().is_due, {"iteration": 5}),
    "MonitorOptions.interval_at": (plimsoll.MonitorOptions().interval_at, {"iteration": 5}),
    "region": (lambda name: plimsoll.region(name).__enter__(), {"name": "x"}),
    "track_memory": (plimsoll.track_memory, {"name": "x"}),
}
OF_TRACES: dict[str, dict[str, Any]] = {
    "open": {"device": None, "at": "peak", "top": 3},
    "open_bytes": {"name": "x", "device": None, "at": "peak", "top": 3},
    "diff": {"at": "peak", "top": 3},
    "summary": {"by": ["line"], "top": 3, "width": 80, "color": False},
    "export": {"format": "json"},
}


def check(function: Callable[..., Any], valid: dict[str, Any]) -> None:
    function(**valid)
    for name in valid:
        for value in WRONG:
            try:
                function(**valid | {name: value})
            except Exception as error:
                reported = str(error)
                assert "incompatible function arguments" not in reported, (name, value)
                assert isinstance(error, plimsoll.Error | TypeError), (name, value, error)
                is_named = name in reported or str(value) in reported
                assert is_named or type(error) is not plimsoll.InvalidArgumentError, reported


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize("call", CALLS)
def test_wrong_arguments_are_named(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the writer of a monitor, which accepts any argument
    check(*CALLS[call])


@pytest.mark.parametrize("call", OF_TRACES)
def test_wrong_arguments_of_traces_are_named(
    call: str, generated: dict[str, Path], tmp_path: Path
) -> None:
    small_trace = generated["healthy"]
    trace = plimsoll.open(small_trace)
    functions: dict[str, Callable[..., Any]] = {
        "open": lambda **given: plimsoll.open(small_trace, **given),
        "open_bytes": lambda **given: plimsoll.open_bytes(small_trace.read_bytes(), **given),
        "diff": lambda **given: plimsoll.diff(small_trace, small_trace, **given),
        "summary": trace.summary,
        "export": lambda **given: trace.export(tmp_path / "out.json", **given),
    }
    check(functions[call], OF_TRACES[call])


def test_errors_of_traces_name_the_argument_of_python(generated: dict[str, Path]) -> None:
    small_trace = generated["healthy"]
    with pytest.raises(plimsoll.InvalidArgumentError, match=r'^(?!.*--)device "foo" is not'):
        plimsoll.open(small_trace, device="foo")
    with pytest.raises(plimsoll.InvalidArgumentError, match=r'^(?!.*--)at "foo": '):
        plimsoll.open(small_trace, at="foo")


def test_every_public_class_and_function_is_checked() -> None:
    """Every public function that takes numbers, flags or text must be in the tables above."""
    checked = {name.split(".")[0] for name in (*CALLS, *OF_TRACES)}
    for name in plimsoll.__all__:
        value = getattr(plimsoll, name)
        if inspect.isclass(value) and issubclass(value, Exception | tuple):
            continue
        if not inspect.isfunction(value) or not inspect.signature(value).parameters:
            continue
        takes_text_or_objects = {"add_arguments", "monitor_memory", "estimate"}
        assert name in checked | takes_text_or_objects, name


@pytest.mark.parametrize("function", [plimsoll.record, plimsoll.MemoryTracer])
def test_a_mistyped_choice_is_suggested(function):
    known = "uses 'alway' is not one of auto, always, sampled, never; did you mean always"
    with pytest.raises(plimsoll.InvalidArgumentError, match=known):
        function(uses="alway")
    with pytest.raises(plimsoll.InvalidArgumentError, match=r"mode '1' is not one of full, lite$"):
        function(mode=1)


@pytest.mark.parametrize("options", [{"mode": "lite"}, {"adapter": "none"}, {"adapter": "python"}])
def test_options_that_prevent_uses_are_refused(options):
    with pytest.raises(plimsoll.InvalidArgumentError, match="contradicts uses='always'"):
        plimsoll.record(uses="always", **options)


def test_a_tracer_refuses_uses_in_the_mode_lite():
    with pytest.raises(plimsoll.InvalidArgumentError, match="contradicts uses='sampled'"):
        plimsoll.MemoryTracer(mode="lite", uses="sampled")
