"""The recordings from which pages are made: a recipe for each kind that a page must show.

A recipe gets a `Workshop` and returns the files of one page: one file, or one for each rank.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.golden.handwritten import FRAMES, MIB, event, segment

ROOT = Path(__file__).resolve().parents[2]

# A page must show these as text. The last is invalid Unicode; pickle stores invalid UTF-8.
SCRIPT = "</script><script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(1)>'
CDATA = "]]>"
RIGHT_TO_LEFT = "\u202egnp.exe\u202c"
INVALID = "\udcff\udcfe"
HOSTILE = (SCRIPT, IMAGE, CDATA, RIGHT_TO_LEFT)


@dataclass(frozen=True)
class Workshop:
    """Where a recipe writes, and the programs and samples that it uses."""

    folder: Path
    command: str
    generator: str
    samples: Path | None

    def sample(self, name: str) -> list[Path]:
        if self.samples is None:
            pytest.skip("no folder of samples next to the checkout (set PLIMSOLL_SAMPLES)")
        path = self.samples / name
        if not path.is_file():
            pytest.skip(f"no sample {name}")
        return [path]

    def generated(self, preset: str, *options: str) -> list[Path]:
        path = self.folder / f"{preset}.pickle"
        subprocess.run([self.generator, preset, path, *options], check=True)
        return [path]

    def pickled(self, name: str, snapshot: dict) -> list[Path]:
        path = self.folder / f"{name}.pickle"
        path.write_bytes(pickle.dumps(snapshot, protocol=4))
        return [path]

    def recorded(self, name: str, script: Path, *arguments: str) -> list[Path]:
        """Record a program on the CPU, with one thread: the same memory on every machine."""
        path = self.folder / f"{name}.plim"
        run = [sys.executable, "-m", "plimsoll", "run"]  # always with this package
        words = [*run, "--force", "-o", path, script, *arguments]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [str(word) for word in words],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            cwd=self.folder,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return [path]


def leak(workshop: Workshop) -> list[Path]:
    """The program of `plimsoll demo`: losses that keep their graphs."""
    return workshop.recorded("leak", ROOT / "python/plimsoll/demo_training.py")


def fragmented(workshop: Workshop) -> list[Path]:
    return workshop.generated("planted")


def llama(workshop: Workshop) -> list[Path]:
    """A batch that is too large for an H100."""
    return workshop.sample("gpu/recordings/llama_1b_oom.plim")


def older_memory(workshop: Workshop) -> list[Path]:
    """A torch.profiler trace: its totals contain memory that is not in the file."""
    return workshop.sample("kineto/vllm_graph_capture.pt.trace.json.gz")


def splatting(workshop: Workshop) -> list[Path]:
    sizes = "-i 120 --size 32 --gaussians 60 --densify_from_iter 10 --densify_until_iter 100"
    script = ROOT / "examples/gaussian_splatting.py"
    return workshop.recorded("splatting", script, *sizes.split(), "-o", "splatting")


# Rank 2 keeps what it computes; the other ranks are equal.
RANK = """
import os, sys, torch, plimsoll
torch.set_num_threads(1)
torch.manual_seed(0)
with plimsoll.record(sys.argv[1]):
    net = torch.nn.Linear(1024, 1024)
    kept = []
    for _ in range(6):
        out = net(torch.ones(256, 1024))
        if os.environ["RANK"] == "2":
            kept.append(out)
        out.sum().backward()
        plimsoll.step()
"""


def ranks(workshop: Workshop) -> list[Path]:
    def record(rank: int) -> Path:
        path = workshop.folder / f"run-rank{rank}.plim"
        environment = os.environ | {"RANK": str(rank), "WORLD_SIZE": "4"}
        words = [sys.executable, "-c", RANK, str(path)]
        subprocess.run(words, check=True, env=environment, capture_output=True)
        return path

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(record, range(4)))


def cpu_training(workshop: Workshop) -> list[Path]:
    """The program of `scripts/demo`."""
    return workshop.recorded("training", ROOT / "examples/language_model.py", "--steps", "4")


DEEP = """
import torch
from torch import nn


class Wrap(nn.Module):
    def __init__(self, name, inner):
        super().__init__()
        self.add_module(name, inner)

    def forward(self, x):
        (inner,) = self.children()
        return inner(x) + 0


model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64))
names = "low_rank_adapter_default projection self_attention encoder_block_with_a_long_name layers"
for name in (names + " transformer_backbone model base_model wrapped_module everything").split():
    model = Wrap(name, model)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.randn(512, 64)).square().mean().backward()
    optimizer.step()
"""


def deep(workshop: Workshop) -> list[Path]:
    """Layers nested ten levels deep, with long names."""
    script = workshop.folder / "deep.py"
    script.write_text(DEEP)
    return workshop.recorded("deep", script)


# Results that are kept although no operator uses them again.
KEPT = """
import sys, torch, plimsoll
torch.set_num_threads(1)
torch.manual_seed(0)
with plimsoll.record(sys.argv[1], uses="always"):
    net = torch.nn.Linear(512, 512)
    kept = []
    for _ in range(6):
        out = net(torch.ones(256, 512))
        kept.append(out.detach() + 1)
        out.sum().backward()
        plimsoll.step()
"""


def last_uses(workshop: Workshop) -> list[Path]:
    path = workshop.folder / "last-uses.plim"
    subprocess.run([sys.executable, "-c", KEPT, str(path)], check=True, capture_output=True)
    return [path]


# A list that grows, a module, and a dict with hostile keys hold memory.
HELD = """
import sys, torch, plimsoll
names = {names!r}
torch.set_num_threads(1)
torch.manual_seed(0)

class Trainer:
    def __init__(self):
        self.net = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU())
        self.history = []

    def step(self):
        loss = self.net(torch.ones(512, 512)).square().mean()
        loss.backward(retain_graph=True)
        self.net.zero_grad()
        self.history.append(loss)

trainer = Trainer()
cache = {{}}
with plimsoll.record(sys.argv[1]):
    for name in names:
        cache[name] = torch.ones(512, 512)
    for _ in range(24):
        trainer.step()
        plimsoll.step()
"""


def holders(workshop: Workshop) -> list[Path]:
    path = workshop.folder / "holders.plim"
    script = HELD.format(names=[*HOSTILE, "a_long_name." * 40])
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, capture_output=True)
    return [path]


def empty(workshop: Workshop) -> list[Path]:
    return workshop.pickled("nothing", {"segments": [], "device_traces": [[]]})


def never_enabled(workshop: Workshop) -> list[Path]:
    """Live blocks without any history."""
    return workshop.generated("empty")


def no_stacks(workshop: Workshop) -> list[Path]:
    """Blocks and events without frames, as torch records them with `stacks=None`."""
    begin = 1_000_000
    events = [
        event("alloc", (index + 1) << 25, 3 * MIB, begin + index) | {"frames": []}
        for index in range(4)
    ]
    held = [segment(0, (index + 1) << 25, 20 * MIB, 3 * MIB) for index in range(4)]
    for block in (block for each in held for block in each["blocks"]):
        block["frames"] = []
    return workshop.pickled("no-stacks", {"segments": held, "device_traces": [events]})


def packages(workshop: Workshop) -> list[Path]:
    """A line that allocates itself and through 14 lines of a package."""
    begin, traces, blocks = 1_000_000, [], []
    package = "/home/ada/site-packages/transformers/models/llama/modeling_llama.py"
    address = 1 << 30
    for index in range(15):
        inner = [{"filename": package, "name": "forward", "line": index}] if index else []
        frames, size = [*inner, FRAMES[1]], (index + 1) * MIB
        traces.append(event("alloc", address, size, begin + index) | {"frames": frames})
        block = {"address": address, "size": size, "requested_size": size}
        blocks.append(block | {"state": "active_allocated", "frames": frames})
        address += size
    whole = segment(0, 1 << 30, address - (1 << 30), address - (1 << 30))
    snapshot = {"segments": [whole | {"blocks": blocks}], "device_traces": [traces]}
    return workshop.pickled("packages", snapshot)


def hostile_names(workshop: Workshop) -> list[Path]:
    """A snapshot whose file and function names are hostile."""
    begin, traces, blocks = 1_000_000, [], []
    names = (*HOSTILE, INVALID, "1 MB " + "x" * (1 << 20))
    for index, name in enumerate(names):
        frames = [{"filename": f"/home/ada/{name}.py", "name": name, "line": index + 1}, FRAMES[1]]
        address = (1 << 30) + index * MIB
        traces.append(event("alloc", address, MIB, begin + index) | {"frames": frames})
        block = {"address": address, "size": MIB, "requested_size": MIB}
        blocks.append(block | {"state": "active_allocated", "frames": frames})
    whole = segment(0, 1 << 30, len(names) * MIB, len(names) * MIB)
    snapshot = {"segments": [whole | {"blocks": blocks}], "device_traces": [traces]}
    # pickle refuses lone surrogates only in text protocols; protocol 4 stores them as they are.
    return workshop.pickled("hostile", snapshot)


# A name of a module may contain anything but a dot.
HOSTILE_LAYERS = """
import sys, torch, plimsoll
from torch import nn
names = {names!r}
torch.manual_seed(0)
torch.set_num_threads(1)

class Layer(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name.replace(".", " ")
        self.register_parameter(self.name, nn.Parameter(torch.ones(256, 256)))

    def forward(self, x):
        return torch.relu(x @ getattr(self, self.name))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        for name in names:
            self.add_module(name.replace(".", " "), Layer(name))

    def forward(self, x):
        for layer in self.children():
            x = layer(x)
        return x

model = Model()
optimizer = torch.optim.Adam(model.parameters())
train = compile('''
def step(x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    plimsoll.step()
''', names[0] + ".py", "exec")
exec(train)
for _ in range(3):
    step(torch.ones(64, 256))
"""


def hostile_layers(workshop: Workshop) -> list[Path]:
    """A recording whose layers, parameters and source file have hostile names."""
    script = workshop.folder / "hostile_layers.py"
    script.write_text(HOSTILE_LAYERS.format(names=HOSTILE), encoding="utf-8")
    return workshop.recorded("hostile-layers", script)


# These need neither torch nor samples, so the gate can make them.
QUICK: dict[str, Callable[[Workshop], list[Path]]] = {
    "fragmented": fragmented,
    "empty": empty,
    "never_enabled": never_enabled,
    "no_stacks": no_stacks,
    "packages": packages,
    "hostile_names": hostile_names,
}
RECIPES: dict[str, Callable[[Workshop], list[Path]]] = QUICK | {
    "leak": leak,
    "llama": llama,
    "older_memory": older_memory,
    "splatting": splatting,
    "ranks": ranks,
    "cpu_training": cpu_training,
    "last_uses": last_uses,
    "hostile_layers": hostile_layers,
    "holders": holders,
    "deep": deep,
}
