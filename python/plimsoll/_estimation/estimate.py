"""`estimate`: the memory of training a model, before it is trained."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from plimsoll._notebook import table
from plimsoll._process.program_errors import leave_to_program
from plimsoll._process.sizes import size_text
from plimsoll.errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from plimsoll._estimation import dry_training

DryRun = Literal["fake", "cpu"]

_CHEAP_BYTES = 1 << 30
_SHOWN_LAYERS = 10
_SHOWN = {"fake": "fake tensors", "cpu": "copy on the CPU"}


@dataclass(frozen=True)
class LayerEstimate:
    """The memory of one module, excluding the modules inside it.

    Attributes:
        name: Path of the module in the model; empty for the model itself and the loss.
        weights_bytes: Its parameters. A tied weight counts in the first module that has it.
        activations_bytes: What it allocated in forward and is live at the end of forward.
    """

    name: str
    weights_bytes: int
    activations_bytes: int


@dataclass(frozen=True)
class MemoryEstimate:
    """The memory of a training step, in bytes. ``print(estimate)`` and notebooks show it.

    Attributes:
        weights_bytes: Parameters, each storage once.
        gradients_bytes: Gradients of the parameters on which the loss depends; frozen ones have
            none.
        optimizer_state_bytes: Optimizer state after the first step; with L-BFGS, when its history
            is full.
        buffers_bytes: Buffers, such as the running statistics of batch normalization.
        inputs_bytes: The sample input.
        activations_bytes: Other memory that is live at the end of forward: tensors that backward
            needs, the output and the loss.
        peak_bytes: The peak of live bytes in a step in which optimizer state exists.
        peak_phase: The phase of the peak: ``"forward"``, ``"backward"`` or ``"optimizer"``.
        layers: The estimates of the modules, largest first.
        dry_run: ``"fake"`` or ``"cpu"``: what the dry run used.
        has_loss: Whether a loss was given or is an output of the model. Otherwise, backward begins
            at the outputs, and the memory of a loss is not included.
    """

    weights_bytes: int
    gradients_bytes: int
    optimizer_state_bytes: int
    buffers_bytes: int
    inputs_bytes: int
    activations_bytes: int
    peak_bytes: int
    peak_phase: str
    layers: tuple[LayerEstimate, ...]
    dry_run: DryRun
    has_loss: bool

    @property
    def total_bytes(self) -> int:
        """The sum of the six parts, which need not be live simultaneously: see `peak_bytes`."""
        return sum(size for _, size in self._parts())

    def _parts(self) -> list[tuple[str, int]]:
        return [
            ("weights", self.weights_bytes),
            ("gradients", self.gradients_bytes),
            ("optimizer state", self.optimizer_state_bytes),
            ("buffers", self.buffers_bytes),
            ("inputs", self.inputs_bytes),
            ("activations", self.activations_bytes),
        ]

    def _title(self) -> str:
        loss = "" if self.has_loss else ", without a loss"
        return f"Memory estimate (dry run: {_SHOWN[self.dry_run]}{loss})"

    def _figures(self) -> list[tuple[str, int]]:
        return [*self._parts(), ("total", self.total_bytes), ("peak", self.peak_bytes)]

    def __str__(self) -> str:
        lines = [f"  {name:<16}{size_text(size):>12}" for name, size in self._figures()]
        return "\n".join([self._title(), *lines]) + f" in {self.peak_phase}"

    def _repr_html_(self) -> str:
        """Return two tables for notebooks: the figures, and the largest layers."""
        figures = [(name, size_text(size)) for name, size in self._figures()]
        figures[-1] = (f"peak, in {self.peak_phase}", figures[-1][1])
        layers = [
            (
                each.name or "(the model itself)",
                *map(size_text, (each.weights_bytes, each.activations_bytes)),
            )
            for each in self.layers[:_SHOWN_LAYERS]
        ]
        return "\n".join(
            [
                table(self._title(), ("", "size"), figures),
                table(
                    f"Largest of {len(self.layers)} layers",
                    ("layer", "weights", "activations"),
                    layers,
                ),
            ]
        )


def estimate(
    model: Any,
    sample_input: Any,
    *,
    optimizer: Any = None,
    loss: Callable[[Any], Any] | None = None,
    dry_run: Literal["auto", "fake", "cpu"] = "auto",
) -> MemoryEstimate:
    """Estimate the memory of training `model` on batches like `sample_input`.

    Runs two training steps of a copy of the model, on fake tensors that take no memory. The model,
    its gradients and the random state do not change. Hooks of the model run, on the copy and its
    fake tensors. The model may be on the ``meta`` device. Call this inside ``torch.autocast`` if
    the forward pass runs there.

    Args:
        model: A `torch.nn.Module`, in the mode (training or evaluation) in which it will run.
        sample_input: One batch: a tensor, a tuple or list of positional arguments, or a dict of
            keyword arguments.
        optimizer: A `torch.optim.Optimizer` of this model, a class or function that creates one
            from parameters, a name such as ``"AdamW"``, or None.
        loss: Computes a scalar tensor from the model's output. Default: ``output.loss`` if there is
            one; otherwise backward begins at the output's floating-point tensors, with gradients of
            the same shapes.
        dry_run: ``"fake"``: takes no memory, and does not count workspaces of CPU kernels.
            ``"cpu"``: trains a copy on the CPU for two steps; the recorder measures the peak.
            ``"auto"``: uses fake tensors, or the CPU for models that cannot run on them, such as
            those that read values. CPU models with convolutions or recurrent layers also use the
            CPU if the estimated peak is at most 1 GiB.

    Raises:
        InvalidArgumentError: `model`, `sample_input`, `optimizer`, `loss` or `dry_run` is
            unsuitable, or the model has no parameters.
        UnsupportedError: The model can run neither on fake tensors nor as a copy on the CPU.
        Exception: Whatever the model itself raises for this input.

    Example:
        >>> estimate = plimsoll.estimate(  # doctest: +SKIP
        ...     model, torch.randn(32, 3, 224, 224), optimizer="AdamW"
        ... )
        >>> print(estimate)  # doctest: +SKIP
    """
    from plimsoll._estimation import dry_training, model_copy
    from plimsoll._estimation.recorded_peak import RecordedPeak

    torch = importlib.import_module("torch")
    if dry_run not in ("auto", "fake", "cpu"):
        raise InvalidArgumentError(
            "invalid_argument", f"dry_run is '{dry_run}'; it must be auto, fake or cpu"
        )
    model = model_copy.without_wrapper(torch, model)
    if isinstance(model, torch.jit.ScriptModule):
        raise UnsupportedError("unsupported", "a ScriptModule cannot be copied: give its nn.Module")
    if loss is not None and not callable(loss):
        raise InvalidArgumentError(
            "invalid_argument", f"loss is of type {type(loss).__name__}; it must be callable"
        )
    if next(model.parameters(), None) is None:
        raise InvalidArgumentError("invalid_argument", "the model has no parameters to train")
    _check_sample_input(sample_input)
    make_optimizer = dry_training.optimizer_maker(torch, model, optimizer)
    has_workspaces = dry_training.has_workspaces_on_the_cpu(torch, model)
    reason = ""
    with dry_training.random_state_kept(torch):
        if dry_run != "cpu":
            try:
                with _quiet_fake_tensors():
                    fake = model_copy.fake_copy(torch, model, sample_input)
                    found = _of(dry_training.Training(torch, fake, make_optimizer, loss), "fake")
                is_cheap = found.peak_bytes <= _CHEAP_BYTES
                if not (dry_run == "auto" and is_cheap and has_workspaces):
                    return found
            except InvalidArgumentError:
                raise
            except Exception as error:  # from an operator without a fake kernel, or from the model
                leave_to_program(error)
                if dry_run == "fake":
                    raise
                message = str(error).strip().partition("\n")[0]
                failure = f"{type(error).__name__}: {message}"
                reason = f"the model cannot run on fake tensors ({failure}), and "
        _check_that_a_copy_fits(model, reason)
        recorded = RecordedPeak()
        try:
            copied = model_copy.cpu_copy(torch, model, sample_input)
            return _of(dry_training.Training(torch, copied, make_optimizer, loss, recorded), "cpu")
        finally:
            recorded.end()


def _check_sample_input(sample_input: Any) -> None:
    kind = type(sample_input)
    if sample_input is None or kind.__module__.partition(".")[0] == "numpy":
        advice = "convert it with torch.as_tensor" if sample_input is not None else "give one batch"
        raise InvalidArgumentError(
            "invalid_argument",
            f"sample_input is of type {kind.__name__}; it must be a tensor, a tuple or list of"
            f" arguments, or a dict of keyword arguments: {advice}",
        )


@contextlib.contextmanager
def _quiet_fake_tensors() -> Iterator[None]:
    """Drop torch's log messages about a failing operator: the exception repeats them."""
    thread = threading.get_ident()
    logger = logging.getLogger("torch._subclasses.fake_tensor")

    def is_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    logger.addFilter(is_others)
    try:
        yield
    finally:
        logger.removeFilter(is_others)


def _check_that_a_copy_fits(model: Any, reason: str) -> None:
    """Raise if training a copy on the CPU could exhaust the memory of the user's program."""
    if any(parameter.is_meta for parameter in model.parameters()):
        raise UnsupportedError("unsupported", f"{reason}on the meta device there are no values")
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    needed = 4 * sum(p.numel() * p.element_size() for p in model.parameters())  # with Adam
    if needed > available:
        raise UnsupportedError(
            "unsupported", f"{reason}a copy of it does not fit into this machine's memory"
        )


def _of(training: dry_training.Training, dry_run: DryRun) -> MemoryEstimate:
    weights, activations = training.weights_by_layer(), training.activations
    layers = [
        LayerEstimate(name, weights[name], activations[name]) for name in weights | activations
    ]
    layers.sort(key=lambda each: each.weights_bytes + each.activations_bytes, reverse=True)
    return MemoryEstimate(
        weights_bytes=weights.total(),
        gradients_bytes=training.gradients_bytes,
        optimizer_state_bytes=training.optimizer_state_bytes(),
        buffers_bytes=training.buffers_bytes(),
        inputs_bytes=training.inputs_bytes(),
        activations_bytes=activations.total(),
        peak_bytes=training.peak_bytes(),
        peak_phase=training.meter.peak_phase,
        layers=tuple(layers),
        dry_run=dry_run,
        has_loss=training.has_loss,
    )
