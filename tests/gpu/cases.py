"""What a machine with a GPU has to confirm. Each case prints its checks as lines of JSON.

The sums: at every step the recorder's categories, its allocated bytes and its reserved bytes are
what torch itself counts, to the byte.
"""

from __future__ import annotations

import contextlib
import pickle
import random
import runpy
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import bars
import torch
from checks import MIB, check
from driver import driver
from failures import oom_in_backward, oom_in_optimizer, oom_search
from torch import nn

import plimsoll
from plimsoll import _cuda, _record

ROOT = Path(__file__).resolve().parents[2]


class Sums:
    """Compares all devices with torch, as often as it is asked to."""

    def __init__(self) -> None:
        self.compared = 0
        self.wrong: list[str] = []

    def compare(self) -> None:
        sample = _record.take_sample()
        rows = {each.name: each for each in sample.devices}
        for device, state in enumerate(_cuda.state()):
            row = rows.get(f"cuda:{device}")
            allocated = torch.cuda.memory_allocated(device)
            live = row.live_bytes if row is not None else 0
            categories = sum(each.size_bytes for each in row.categories) if row is not None else 0
            figures = {
                "allocated": (live, allocated),
                "categories": (categories, allocated),
                "shadow": (state["allocated_bytes"], allocated),
                "reserved": (state["reserved_bytes"], torch.cuda.memory_reserved(device)),
            }
            self.compared += 1
            for name, (ours, torchs) in figures.items():
                if ours != torchs:
                    self.wrong.append(f"{name} of cuda:{device}: {ours} for {torchs}")

    def tell(self) -> None:
        found = self.wrong[0] if self.wrong else f"{self.compared} times"
        check("sums are torch's", self.compared > 0 and not self.wrong, found)
        rows = _cuda.state()
        proofs, disproved = (sum(row[key] for row in rows) for key in ("proofs", "disproved"))
        corrected = sum(row["corrected"] for row in rows)
        found = f"{proofs} proofs, {corrected} corrected, {disproved} disproved"
        check("gauges prove the sizes", proofs > 0 and corrected == 0 and disproved == 0, found)


@contextlib.contextmanager
def recorded(sums: Sums, path: str = "run.plim") -> Iterator[plimsoll.Recording]:
    """A recording whose sums are compared at each step of an optimizer, and at its end."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    with plimsoll.record(path, adapter="libtorch") as recording:
        handle = register_optimizer_step_post_hook(lambda *_: sums.compare())
        try:
            yield recording
            torch.cuda.synchronize()
            sums.compare()
            sums.tell()
        finally:
            handle.remove()
    check("no event is lost", recording.state["dropped"] == 0, f"{recording.state['dropped']}")
    unmatched = recording.state["unmatched"] + recording.state["replaced"]
    check("each free has its block", unmatched == 0, f"{unmatched} have none")


# ---- the examples --------------------------------------------------------------------------------

ARGUMENTS = {
    "burgers_unet": "--steps 60 --device cuda --use-amp",
    "language_model": "--steps 60 --report-every 20 --sample 20 --device cuda --checkpoint",
    "gaussian_splatting": "-i 120 --densify_from_iter 20 --densify_until_iter 100 "
    "--densification_interval 20 --report_every 40 --device cuda",
}


def example(name: str) -> None:
    """A training of the examples: its sums at each step."""
    script = ROOT / "examples" / f"{name}.py"
    sums = Sums()
    sys.argv = [str(script), *ARGUMENTS[name].split()]
    sys.path.insert(0, str(script.parent))
    with recorded(sums), contextlib.suppress(SystemExit):
        runpy.run_path(str(script), run_name="__main__")


class Net(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = torch.relu(block(x))
        return x


def trained(model: nn.Module, x: torch.Tensor, steps: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


# ---- how memory is handed out --------------------------------------------------------------------


def graphs() -> None:
    """Capture into a private pool, replay, another capture in the same pool."""
    sums = Sums()
    with recorded(sums):
        model, x = Net(512, 4).cuda(), torch.randn(64, 512, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(3):
                model(x)
        torch.cuda.current_stream().wait_stream(side)
        first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.no_grad():
            with torch.cuda.graph(first):
                kept = model(x)
            sums.compare()
            with torch.cuda.graph(second, pool=first.pool()):
                also = model(x * 2)
            sums.compare()
        for _ in range(5):
            first.replay()
            second.replay()
            sums.compare()
        del kept, also
        first.reset()
        second.reset()
        torch.cuda.empty_cache()
        sums.compare()


def streams() -> None:
    """Blocks used on several streams: their ends wait for events."""
    sums = Sums()
    with recorded(sums):
        others = [torch.cuda.Stream() for _ in range(3)]
        for turn in range(50):
            x = torch.randn(1000 + 777 * turn, device="cuda")
            for stream in others:
                with torch.cuda.stream(stream):
                    y = x * 2
                    x.record_stream(stream)
                    del y
            del x
            sums.compare()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def caught_oom() -> None:
    """The program catches it, makes its batch smaller, and goes on."""
    sums = Sums()
    with recorded(sums):
        model = Net(1024, 4).cuda()
        free, _ = torch.cuda.mem_get_info()
        for divisor in (1, 2, 1000):
            try:
                x = torch.empty(2 * free // divisor // 4096, 1024, device="cuda")
                del x
            except torch.cuda.OutOfMemoryError:
                sums.compare()
        trained(model, torch.randn(64, 1024, device="cuda"), 10)
    check("it was told", Path("run.oom.txt").is_file(), "run.oom.txt")


def middle() -> None:
    """A recording that begins when much is alive already."""
    model, x = Net(1024, 8).cuda(), torch.randn(256, 1024, device="cuda")
    trained(model, x, 3)
    sums = Sums()
    with plimsoll.record("run.plim", adapter="libtorch"):
        sums.compare()
        trained(model, x, 5)
        sums.compare()
        found = sums.wrong[0] if sums.wrong else f"{sums.compared} times"
        check("sums are torch's", not sums.wrong, found)
        (row,) = [each for each in _record.take_sample().devices if each.name == "cuda:0"]
        held = {each.name: each.size_bytes for each in row.categories}
        parameters = sum(each.numel() * 4 for each in model.parameters())
        check(
            "parameters are known",
            held.get("parameter", 0) == parameters,
            f"{held.get('parameter', 0)} for {parameters} bytes",
        )


def backward() -> None:
    """What backward allocates, on threads of autograd, belongs to the layers of forward."""
    sums = Sums()
    with recorded(sums):
        model, x = Net(1024, 4).cuda(), torch.randn(128, 1024, device="cuda")
        model(x).square().mean().backward()
        (row,) = [each for each in _record.take_sample().devices if each.name == "cuda:0"]
        held = {each.name: each.size_bytes for each in row.categories}
        gradients = sum(each.grad.numel() * 4 for each in model.parameters())
        check(
            "gradients are known",
            held.get("gradient", 0) == gradients,
            f"{held.get('gradient', 0)} for {gradients} bytes",
        )
        layers = {each.name for each in row.layers}
        wanted = {f"Net.blocks.{index}" for index in range(4)}
        check("layers are known", wanted <= layers, ", ".join(sorted(layers)))
        seen: list[dict[str, str]] = []
        model.blocks[2].weight.register_hook(lambda _: seen.append(_record.context()))
        model(x).square().mean().backward()
        phases = {each["phase"] for each in seen}
        check("the phase is backward", phases == {"backward"}, phases)


def lite() -> None:
    """Without operators, too, the layers of backward are those of forward."""
    sums = Sums()
    with plimsoll.record("run.plim", mode="lite", adapter="libtorch"):
        model, x = Net(1024, 4).cuda(), torch.randn(128, 1024, device="cuda")
        for _ in range(2):
            model(x).square().mean().backward()
            sums.compare()
        found = sums.wrong[0] if sums.wrong else f"{sums.compared} times"
        check("sums are torch's", not sums.wrong, found)
        (row,) = [each for each in _record.take_sample().devices if each.name == "cuda:0"]
        held = {each.name: each.size_bytes for each in row.layers}
        block = 2 * 4 * sum(each.numel() for each in model.blocks[0].parameters())
        check(
            "a layer holds its parameters and gradients",
            all(held.get(f"Net.blocks.{index}") == block for index in range(4)),
            held,
        )


def threads() -> None:
    """Several threads, on all devices."""
    sums = Sums()

    def work(seed: int) -> None:
        dice = random.Random(seed)
        device = f"cuda:{seed % torch.cuda.device_count()}"
        kept = []
        for _ in range(2000):
            kept.append(torch.empty(dice.randrange(1, 4 * MIB), dtype=torch.uint8, device=device))
            if len(kept) > 20:
                del kept[dice.randrange(len(kept))]

    with recorded(sums):
        workers = [threading.Thread(target=work, args=(index,)) for index in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        sums.compare()


def planted_oom() -> None:
    """A layer asks for too much: the report names it, its line and its bytes."""

    class Greedy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.new_empty(1 << 46)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(1024, 1024)
            self.greedy = Greedy()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.greedy(self.first(x))
            return y

    told = ""
    with plimsoll.record("run.plim", adapter="libtorch"):
        model = Model().cuda()
        try:
            model(torch.randn(8, 1024, device="cuda"))
        except torch.cuda.OutOfMemoryError:
            told = Path("run.oom.txt").read_text() if Path("run.oom.txt").is_file() else ""
    check("told before the exception", bool(told), f"{len(told.splitlines())} lines")
    for what, word in (
        ("the layer", "Model.greedy"),
        ("the operator", "aten::"),
        ("the line", "cases.py:"),
        ("the bytes", "TiB asked for"),
        ("what fills it", "parameter"),
    ):
        check(what, word in told, word if word in told else told[:120])


def device_bar(instants: str = "1000") -> None:
    """At many instants of a training, all that is used on the device has its owner."""
    looks = bars.Looks()
    with plimsoll.record("run.plim", adapter="libtorch"), bars.other_process():
        model, x = Net(256, 3).cuda(), torch.randn(64, 256, device="cuda")
        for _ in bars.restless(int(instants), lambda: trained(model, x, 1)):
            looks.look()
        (uuid,) = {each.uuid for each in _record.take_sample().devices if each.name == "cuda:0"}
    wanted = str(torch.cuda.get_device_properties(0).uuid)
    check("the device is found by its UUID", uuid.endswith(wanted), uuid)
    found = looks.wrong[0] if looks.wrong else f"{looks.seen}: {', '.join(sorted(looks.kinds))}"
    whole = looks.seen == int(instants) and not looks.wrong
    check("it closes within 1 % or 64 MiB", whole, found)
    check("most of what is allowed", looks.worst <= 1, f"{100 * looks.worst:.0f} %")


def history() -> None:
    """The half cannot be had: torch's own history takes its place, and is said to."""
    with plimsoll.record("run.plim"):
        trained(Net(256, 2).cuda(), torch.randn(8, 256, device="cuda"), 3)
        began = time.perf_counter()
        torch.cuda.memory._snapshot()
        cost_ms = (time.perf_counter() - began) * 1000
    if torch.cuda.get_allocator_backend() != "native":
        # It keeps no history either: one clear sentence is all there can be.
        check("a reason is given", _cuda.problem() is not None, _cuda.problem())
        return
    trace = Path("run.plim").read_bytes()
    check("the history is in the trace", b"torch_snapshot" in trace, f"{len(trace)} bytes")
    check("it is soon read", cost_ms < 1000, f"{cost_ms:.1f} ms")


def samples() -> None:
    """Our trace and torch's snapshot of the same run, for the tests of machines without a GPU."""
    torch.cuda.memory._record_memory_history(stacks="python")
    sums = Sums()
    with recorded(sums, "sample.plim"):
        trained(Net(256, 4).cuda(), torch.randn(64, 256, device="cuda"), 5)
        snapshot = torch.cuda.memory._snapshot()
    Path("sample.pickle").write_bytes(pickle.dumps(snapshot, protocol=4))
    sizes = {each: Path(each).stat().st_size for each in ("sample.plim", "sample.pickle")}
    check("both are small enough to keep", max(sizes.values()) < 4 * MIB, sizes)


CASES: dict[str, Callable[..., None]] = {
    each.__name__: each
    for each in (
        example,
        graphs,
        streams,
        caught_oom,
        middle,
        backward,
        lite,
        threads,
        planted_oom,
        device_bar,
        oom_in_backward,
        oom_in_optimizer,
        oom_search,
        history,
        driver,
        samples,
    )
}

if __name__ == "__main__":
    if sys.argv[1] == "overhead":
        from overhead import overhead

        for row in overhead(Net, *sys.argv[2:]):
            check(*row)
    else:
        CASES[sys.argv[1]](*sys.argv[2:])
