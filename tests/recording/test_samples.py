"""The sample after any replacement of parameters and optimizer state is exact to the byte.

A loop clones, splits and prunes its parameters as Gaussian splatting does, and takes a sample in
the same iteration. The expected values come from the census, which shares no code with the
recorder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tests.recording.census import roles
from torch import nn

import plimsoll

MB = 2**20
SIZES = {"xyz": 3, "features": 48, "scaling": 3, "rotation": 4, "opacity": 1}


class Gaussians:
    """The parameters are attributes of a plain object, which is not a Module."""

    def __init__(self, count: int) -> None:
        self.parts = {name: nn.Parameter(torch.rand(count, n)) for name, n in SIZES.items()}
        self.modules: list[nn.Module] = []

    def replace(self, name: str, parameter: nn.Parameter) -> None:
        self.parts[name] = parameter


class GaussianModule(Gaussians):
    """The same as a Module, whose parameters are replaced by setattr."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.module = nn.Module()
        for name, parameter in self.parts.items():
            setattr(self.module, name, parameter)
        self.modules = [self.module]

    def replace(self, name: str, parameter: nn.Parameter) -> None:
        super().replace(name, parameter)
        setattr(self.module, name, parameter)


def loss_of(gaussians: Gaussians) -> torch.Tensor:
    total = torch.zeros(())
    for parameter in gaussians.parts.values():
        total = total + (parameter * 1.5).square().mean()
    return total


def optimizer_of(gaussians: Gaussians) -> torch.optim.Optimizer:
    groups = [{"params": [p], "lr": 1e-3, "name": name} for name, p in gaussians.parts.items()]
    return torch.optim.Adam(groups)


def change(
    gaussians: Gaussians,
    optimizer: torch.optim.Optimizer,
    edit: Callable[[torch.Tensor, bool], torch.Tensor],
) -> None:
    """Replaces each parameter and its state by `edit(old, is_state)`."""
    for group in optimizer.param_groups:
        old = group["params"][0]
        state = optimizer.state.pop(old, None)
        new = nn.Parameter(edit(old.detach(), False))
        group["params"][0] = new
        if state is not None:
            state["exp_avg"] = edit(state["exp_avg"], True)
            state["exp_avg_sq"] = edit(state["exp_avg_sq"], True)
            optimizer.state[new] = state
        gaussians.replace(group["name"], new)


def clone(old: torch.Tensor, is_state: bool) -> torch.Tensor:
    more = old[: len(old) // 3]
    return torch.cat([old, torch.zeros_like(more) if is_state else more.clone()])


def split(old: torch.Tensor, is_state: bool) -> torch.Tensor:
    more = old[: len(old) // 4].repeat(2, 1)
    return torch.cat([old[len(old) // 4 :], torch.zeros_like(more) if is_state else more])


def prune(old: torch.Tensor, _: bool) -> torch.Tensor:
    return old[torch.arange(len(old)) % 5 != 0]


def reset(old: torch.Tensor, is_state: bool) -> torch.Tensor:
    return torch.zeros_like(old) if is_state else old.clamp(max=0.01)


CHANGES = [clone, split, prune, reset]


def counted(gaussians: Gaussians, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Bytes by category; a storage counts once, in the first category that has it."""
    seen: set[int] = set()
    totals = {}
    held = roles(gaussians.modules, [optimizer])
    for role in ("parameter", "gradient", "optimizer_state", "buffer"):
        found = {
            t.untyped_storage()._cdata: t.untyped_storage().nbytes()
            for t in held[role]
            if isinstance(t, torch.Tensor)
        }
        totals[role] = sum(size for handle, size in found.items() if handle not in seen)
        seen |= set(found)
    return totals


class Writer:
    """A stub of SummaryWriter that keeps the scalars of the last step."""

    def __init__(self) -> None:
        self.scalars: dict[str, float] = {}

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self.scalars[tag] = scalar_value


class Breakdown:
    """`log_tensor_memory_breakdown` at every iteration."""

    def __init__(self, _: Any) -> None:
        self._writer = Writer()

    def sample(self, iteration: int) -> dict[str, float]:
        plimsoll.log_tensor_memory_breakdown(self._writer, iteration, interval=1)
        scalars, self._writer.scalars = self._writer.scalars, {}
        return scalars


class Monitor:
    """A TrainingMonitor, whose scalars are read back from its TensorBoard folder."""

    profile_tensors = False

    def __init__(self, folder: Any) -> None:
        self._monitor = plimsoll.TrainingMonitor(
            interval=1,
            output_dir=str(folder),
            tensorboard=True,
            alerts=False,
            profile_tensors=self.profile_tensors,
            section="Memory",
        )

    def sample(self, iteration: int) -> dict[str, float]:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        self._monitor.step(iteration)
        events = EventAccumulator(self._monitor.event_file_path)
        events.Reload()
        return {tag: events.Scalars(tag)[-1].value for tag in events.Tags()["scalars"]}


class ProfilingMonitor(Monitor):
    profile_tensors = True


@pytest.fixture(autouse=True)
def nothing_is_watched() -> Iterator[None]:
    plimsoll.stop_monitoring()
    yield
    plimsoll.stop_monitoring()


def sampled(scalars: dict[str, float]) -> dict[str, float]:
    mb = {
        "parameter": scalars.get("Memory/Tensor_Category/parameters_MB", 0),
        "gradient": scalars.get("Memory/Tensor_Category/gradients_MB", 0),
        "buffer": scalars.get("Memory/Tensor_Category/buffers_MB", 0),
        "optimizer_state": scalars.get("Memory/Tensor_Other/optimizer_state_MB", 0),
    }
    return {name: value * MB for name, value in mb.items()}


def assert_right(
    scalars: dict[str, float], gaussians: Gaussians, optimizer: torch.optim.Optimizer
) -> None:
    for role, size_bytes in counted(gaussians, optimizer).items():
        assert sampled(scalars)[role] == pytest.approx(size_bytes, rel=1e-6), role
    dtypes = {k: v for k, v in scalars.items() if k.startswith("Memory/Tensor_DType/")}
    unknown = dtypes.get("Memory/Tensor_DType/unknown_MB", 0)
    assert unknown < 0.01 * sum(dtypes.values()), dtypes


@pytest.mark.parametrize("when", ["before the step", "after the step", "after the change"])
@pytest.mark.parametrize("kind", [Gaussians, GaussianModule])
@pytest.mark.parametrize("tool", [Breakdown, Monitor, ProfilingMonitor])
def test_the_sample_after_a_densification_is_right(
    tool: Any, kind: type[Gaussians], when: str, tmp_path: Any
) -> None:
    torch.manual_seed(0)
    gaussians = kind(5_000)
    optimizer = optimizer_of(gaussians)
    watched = tool(tmp_path)
    watched.sample(0)
    for iteration in range(1, 6):
        loss_of(gaussians).backward()
        if when == "before the step":
            change(gaussians, optimizer, CHANGES[iteration % 4])
            loss_of(gaussians).backward()
            assert_right(watched.sample(iteration), gaussians, optimizer)
        optimizer.step()
        if when == "after the step":
            assert_right(watched.sample(iteration), gaussians, optimizer)
        optimizer.zero_grad(set_to_none=True)
        change(gaussians, optimizer, CHANGES[(iteration + 1) % 4])
        if when == "after the change":
            assert_right(watched.sample(iteration), gaussians, optimizer)


def test_a_new_optimizer_for_new_parameters_is_known_to_the_next_sample() -> None:
    watched = Breakdown(None)
    watched.sample(0)
    for iteration in range(1, 4):
        gaussians = Gaussians(2_000 * iteration)
        optimizer = optimizer_of(gaussians)
        assert_right(watched.sample(iteration), gaussians, optimizer)
        loss_of(gaussians).backward()
        assert_right(watched.sample(iteration), gaussians, optimizer)


def test_gradients_of_a_module_without_an_optimizer_are_gradients() -> None:
    watched = Breakdown(None)
    watched.sample(0)
    model = nn.Linear(300, 300)
    model(torch.rand(5, 300)).sum().backward()
    assert sampled(watched.sample(1))["gradient"] == 4 * (300 * 300 + 300)


def test_a_tensor_that_gets_new_memory_by_data_is_a_parameter_still() -> None:
    model = nn.Linear(300, 300)
    watched = Breakdown(None)
    watched.sample(0)
    for iteration in range(1, 4):
        model.weight.data = torch.rand(300 + iteration, 300)
        wanted = 4 * ((300 + iteration) * 300 + 300)
        assert sampled(watched.sample(iteration))["parameter"] == wanted


@pytest.mark.parametrize("tool", [Breakdown, ProfilingMonitor])
def test_samples_between_forward_and_backward_know_dtypes(tool: Any, tmp_path: Any) -> None:
    watched = tool(tmp_path)
    watched.sample(0)
    weights = nn.Parameter(torch.rand(200, 200))
    for iteration in range(1, 5):
        x = torch.rand(500, 200) @ weights
        for _ in range(10):
            x = torch.tanh(x * 1.01)  # ten outputs, which only the graph retains
        scalars = watched.sample(iteration)
        x.sum().backward()
        del x
        dtypes = {k: v for k, v in scalars.items() if k.startswith("Memory/Tensor_DType/")}
        unknown = dtypes.get("Memory/Tensor_DType/unknown_MB", 0)
        assert unknown < 0.01 * sum(dtypes.values()), (iteration, dtypes)
        assert scalars["Memory/Tensor_Category/activations_MB"] * MB >= 10 * 4 * 500 * 200
