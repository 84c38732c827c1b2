"""Applies the advice of a finding to its program and compares the promised with the actual saving.

python -m tests.causes.advice    # prints the tables of docs/measured-savings.md
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import inspect
import itertools
import re
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import torch
from tests.causes import registry
from tests.causes.activations import fine_tuning
from tests.causes.architectures import ARCHITECTURES, WIDE
from tests.causes.copies import programs as copies
from tests.causes.edits import EDITS
from tests.causes.garbage import programs as garbage
from tests.causes.growth import collected
from tests.causes.results import programs as results
from tests.causes.training import Training
from torch import nn
from torch.utils.checkpoint import checkpoint

import plimsoll

PROGRAMS = registry.load()
Fix = Callable[[dict], contextlib.AbstractContextManager]
MIB = 1 << 20


@contextlib.contextmanager
def after_building(change: Callable[[Training], object]) -> Iterator[None]:
    build = Training.__init__

    def built(self, *arguments, **named):
        build(self, *arguments, **named)
        change(self)

    with mock.patch.object(Training, "__init__", built):
        yield


def layers_of(name: str) -> list[str]:
    """Return the layers in a range such as "Net.blocks.0…11"."""
    path, dots, last = name.partition("…")
    if not dots:
        return [name]
    stem = path.rstrip("0123456789")
    return [f"{stem}{number}" for number in range(int(path[len(stem) :]), int(last) + 1)]


def checkpoint_layers(finding: dict) -> contextlib.AbstractContextManager:
    texts = " ".join(step["text"] for step in finding["steps"])
    names = re.search(r"Run (.+?) through", texts)[1].split(", ")

    def change(training: Training) -> None:
        for name in itertools.chain.from_iterable(map(layers_of, names)):
            layer = training.model.get_submodule(name.partition(".")[2])
            layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)

    return after_building(change)


def clear_after_step(finding: dict) -> contextlib.AbstractContextManager:
    def change(training: Training) -> None:
        training.optimizer.register_step_post_hook(lambda optimizer, *_: optimizer.zero_grad())

    return after_building(change)


@contextlib.contextmanager
def without_foreach(finding: dict) -> Iterator[None]:
    build = torch.optim.Rprop.__init__

    def built(self, *arguments, **named):
        build(self, *arguments, **{**named, "foreach": False})

    with mock.patch.object(torch.optim.Rprop, "__init__", built):
        yield


@contextlib.contextmanager
def without_copies(finding: dict) -> Iterator[None]:
    nothing = mock.patch.object(copy, "deepcopy", lambda model: nn.Identity())
    with nothing, mock.patch.object(copies, "follow", lambda *models: None):
        yield


def short_queue(finding: dict) -> contextlib.AbstractContextManager:
    # Keeps the current and the next batch: the program loads one before it uses one.
    return mock.patch.object(results, "deque", lambda items: deque(itertools.islice(items, 1)))


def fused_attention(finding: dict) -> contextlib.AbstractContextManager:
    fused = functools.partial(nn.functional.scaled_dot_product_attention, scale=1.0)
    return mock.patch.object(fine_tuning.Block, "mixed", staticmethod(fused))


def without_cache(finding: dict) -> contextlib.AbstractContextManager:
    cache = mock.Mock(lru_cache=lambda maxsize: lambda function: function, cache=lambda f: f)
    return mock.patch.object(collected, "functools", cache)


def written_program(program: str) -> tuple[Callable, tuple]:
    """Return the function of a program, and what it is called with: its architecture, if any."""
    run = PROGRAMS[program]
    bound = inspect.getclosurevars(run).nonlocals
    if "function" not in bound:
        return run, ()
    architectures = WIDE if bound["wide"] else ARCHITECTURES
    return bound["function"], (architectures[program.partition("/")[0]],)


def edited(program: str, old: str, new: str) -> Fix:
    """Return the program with one piece of its text replaced."""

    def fix(finding: dict) -> contextlib.AbstractContextManager:
        written, arguments = written_program(program)
        text = inspect.getsource(written)
        assert text.count(old) == 1, program
        text = text[text.index("def ") :].replace(old, new)
        names = dict(vars(sys.modules[written.__module__]))
        exec(compile(text, "<edited>", "exec"), names)
        run = functools.partial(names[written.__name__], *arguments)
        return mock.patch.dict(PROGRAMS, {program: run})

    return fix


def not_reentrant(finding: dict) -> contextlib.AbstractContextManager:
    def run(function, x, use_reentrant):
        return checkpoint(function, x, use_reentrant=False)

    return mock.patch.object(garbage, "checkpoint", run)


def saved_output(finding: dict) -> contextlib.AbstractContextManager:
    def forward(ctx, x):
        output = x * torch.sigmoid(x)
        ctx.save_for_backward(output)
        return output

    def backward(ctx, gradient):
        (output,) = ctx.saved_tensors
        return gradient * (output + torch.sigmoid(output) * (1 - output))

    return mock.patch.multiple(
        garbage.Swish, forward=staticmethod(forward), backward=staticmethod(backward)
    )


def without_bound_method(finding: dict) -> contextlib.AbstractContextManager:
    class Head(garbage.Head):
        def __init__(self):
            super().__init__()
            del self.predict

        def predict(self, x):
            return self.forward(x)

    return mock.patch.object(garbage, "Head", Head)


class Adam8bit(torch.optim.Optimizer):
    """Has a byte for each element of Adam's state, as AdamW8bit of bitsandbytes has, and the
    temporaries of Adam's update."""

    def __init__(self, parameters, lr, foreach):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    for name in ("exp_avg", "exp_avg_sq"):
                        state[name] = torch.zeros(parameter.numel(), dtype=torch.uint8)
                denominator = parameter.grad.square().sqrt() + 1e-8
                parameter.addcdiv_(parameter.grad, denominator, value=-group["lr"])


def with_8_bits(finding: dict) -> contextlib.AbstractContextManager:
    return mock.patch.object(torch.optim, "Adam", Adam8bit)


ADVICE: dict[str, tuple[str, Fix]] = {
    "transformer/activations": ("activations_dominate", checkpoint_layers),
    "cnn/activations": ("activations_dominate", checkpoint_layers),
    "deep/equal_layers": ("activations_dominate", checkpoint_layers),
    "mlp/gradients_through_forward": ("gradients_kept", clear_after_step),
    "transformer/gradients_through_forward": ("gradients_kept", clear_after_step),
    "vit/foreach_scratch": ("optimizer_scratch", without_foreach),
    "moe/foreach_scratch": ("optimizer_scratch", without_foreach),
    "mlp/copies_that_follow": ("model_copies", without_copies),
    "vit/copies_that_follow": ("model_copies", without_copies),
    "fine_tuning/scores_of_every_block": ("activations_dominate", fused_attention),
    "cnn/prefetched_batches": ("batches_kept", short_queue),
    "vit/prefetched_batches": ("batches_kept", short_queue),
    "transformer/lru_cache": ("memory_growth", without_cache),
    "mlp/adam_state": ("optimizer_state_dominates", with_8_bits),
    "transformer/adam_state": ("optimizer_state_dominates", with_8_bits),
    "cycles/reentrant_checkpoint": ("garbage_in_cycles", not_reentrant),
    "cycles/output_kept_on_ctx": ("garbage_in_cycles", saved_output),
    "cycles/module_with_bound_method": ("garbage_in_cycles", without_bound_method),
    **{program: (name, edited(program, old, new)) for program, (name, old, new) in EDITS.items()},
}


NOTHING = "promises no saving"
GPU = "needs a GPU"
NOT_MEASURED: dict[str, str] = {
    "out_of_memory": "the program ends there; other tests compare what it lacked",
    "memory_outside_tensors": NOTHING,
    "non_pytorch_memory": GPU,
    "stranded_memory": GPU,
    "freed_but_pending": GPU,
    "library_workspaces": GPU,
    "ranks_differ": "needs several processes; the saving is the difference of their peaks",
    "device_of_another_rank": GPU,
    "recording_incomplete": NOTHING,
    "recording_was_empty": NOTHING,
    "no_memory_events": NOTHING,
    "allocator_settings_conflict": NOTHING,
    "history_truncated": NOTHING,
    "segment_churn": NOTHING,
    "repeated_large_allocation": NOTHING,
    "churn": NOTHING,
    "one_layer_dominates": NOTHING,
    "one_device_dominates": NOTHING,
    "unknown_memory": NOTHING,
}


def record(program: str, path: Path) -> plimsoll.Trace:
    torch.manual_seed(0)
    with plimsoll.record(path):
        PROGRAMS[program]()
    gc.collect()
    return plimsoll.open(path)


def peak_of(trace: plimsoll.Trace) -> int:
    return trace.devices[0]["requested_allocated"]["peak_bytes"]


# By program: the index of the step that its fix applies, if that is not the first.
STEP = {"evidence/ensemble_without_state": 1, "fine_tuning/scores_of_every_block": 1}


def apply(program: str, folder: Path) -> tuple[int, int]:
    """Return the promised bytes, and the bytes by which the peak falls."""
    name, fix = ADVICE[program]
    stem = program.replace("/", "_")
    planted = record(program, folder / f"{stem}.plim")
    (finding,) = (each for each in planted.findings if each["id"] == name)
    with fix(finding):
        fixed = record(program, folder / f"{stem}_fixed.plim")
    promised = finding["steps"][STEP.get(program, 0)]["saving_bytes"]
    return promised, peak_of(planted) - peak_of(fixed)


def main() -> None:
    torch.set_num_threads(1)
    print("| program | finding | promised | measured |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for program, (name, _) in ADVICE.items():
            promised, measured = apply(program, Path(folder))
            print(
                f"| `{program}` | `{name}` | {promised / MIB:.1f} MiB | {measured / MIB:.1f} MiB |",
                flush=True,
            )
    print("\n| finding | why nothing is measured |")
    print("|---|---|")
    for name, reason in sorted(NOT_MEASURED.items()):
        print(f"| `{name}` | {reason} |")


if __name__ == "__main__":
    main()
