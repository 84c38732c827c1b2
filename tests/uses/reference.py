"""A slow reference for last uses: modes of Python log every argument of every operator.

It shares no code with the recorder. What it takes from it is the clock: the number of allocations
so far. The last use of each storage is read from `plimsoll dump`. torch's mode below autograd sees
when an operator begins and ends, but not when the outermost one ends: that is between its end and
the next boundary that Python sees (a call into torch ends, or another node of autograd runs). So a
use has an earliest and a latest end, which are nearly always equal.
"""

import ctypes
import random
import re
import subprocess
import sys

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

NO_DATA = re.compile(r"(empty|zeros|ones|full|rand|randn|randint)_like|new_(empty|zeros|ones|full)")


def clock_function():
    """The recorder's clock: the function of its interface before the last two."""
    from plimsoll import _record

    library = ctypes.PyDLL(_record.__file__)
    library.plimsoll_recorder.restype = ctypes.c_void_p
    api = library.plimsoll_recorder()
    size = ctypes.c_uint32.from_address(api + 4).value
    address = ctypes.c_void_p.from_address(api + size - 3 * 8).value
    return ctypes.PYFUNCTYPE(ctypes.c_uint64)(address)


def storage_word():
    """The offset of the data's address in torch's StorageImpl."""
    storage = torch.empty(100).untyped_storage()
    address = storage.data_ptr()
    for offset in range(0, 128, 8):
        if ctypes.c_uint64.from_address(storage._cdata + offset).value == address:
            return offset
    raise AssertionError("no address in StorageImpl")


class Log:
    """Uses as (address, clock at the beginning, earliest end, latest end)."""

    def __init__(self):
        self.word = storage_word()
        self.clock = clock_function()
        self.uses = []
        self.open = []  # their latest end is not known yet
        self.node = None

    def addresses(self, values):
        for value in tree_leaves(values):
            if not isinstance(value, torch.Tensor):
                continue
            if value.layout == torch.sparse_coo:
                yield from self.addresses((value._indices(), value._values()))
            elif value.layout == torch.strided:
                cdata = value.untyped_storage()._cdata
                yield ctypes.c_uint64.from_address(cdata + self.word).value

    def boundary(self):
        now = self.clock()
        self.uses += [(*use, now) for use in self.open]
        self.open = []


class Operators(TorchDispatchMode):
    def __init__(self, log):
        super().__init__()
        self.log = log

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        log = self.log
        node = torch._C._current_autograd_node()
        if node is not log.node:
            log.boundary()
            log.node = node
        begin, before = log.clock(), set(log.addresses((args, kwargs)))
        result = function(*args, **(kwargs or {}))
        after = list(log.addresses(result))
        is_written = any(a.alias_info and a.alias_info.is_write for a in function._schema.arguments)
        is_view = bool(after) and before.issuperset(after) and not is_written
        if not is_view and not NO_DATA.match(function.__name__):
            log.open += [(address, begin, log.clock()) for address in before]
        return result


class Calls(TorchFunctionMode):
    def __init__(self, log):
        super().__init__()
        self.log = log

    def __torch_function__(self, function, types, args=(), kwargs=None):
        try:
            return function(*args, **(kwargs or {}))
        finally:
            # What runs in a node, such as a checkpoint's forward, may last until the node ends.
            if torch._C._current_autograd_node() is None:
                self.log.boundary()


def recorded(dump):
    """For each allocation [address, born, ended, last use], as times on the clock."""
    clock, rows, frees, observed = 0, {}, [], False
    field = re.compile(r"(\w+)=(\S+)")
    for line in dump.splitlines():
        kind, fields = line.split(" ", 1)[0], dict(field.findall(line))
        if kind == "mark" and fields["kind"] == "uses":
            observed = fields["value"] == "1"
        elif kind in ("alloc", "adopt"):
            clock += kind == "alloc" and observed
            rows[fields["serial"]] = [int(fields["address"], 16), clock, None, None]
        elif kind == "free" and "serial" in fields:
            rows[fields["serial"]][2] = clock
            if line.endswith("in_op"):
                rows[fields["serial"]][3] = clock
            else:
                frees.append(fields["serial"])
        elif kind == "uses":
            ages = fields["ended"].split(",")
            for serial, age in zip(frees[-len(ages) :], ages, strict=True):
                if age != "?":
                    rows[serial][3] = rows[serial][2] - int(age.split(":")[0])
        elif kind == "last_use":
            rows[fields["serial"]][3] = clock - int(fields["age_plus_one"]) + 1
    return rows.values()


def compare(log, rows):
    """Counts the last uses that equal the reference or are within its bounds; lists the rest."""
    born = {}
    for row in rows:
        born.setdefault(row[0], []).append(row)
    last = {}
    for address, begin, earliest, latest in log.uses:
        lives = [row for row in born.get(address, ()) if row[1] <= begin]
        if lives:
            row = max(lives, key=lambda row: row[1])
            last[id(row)] = (row, earliest, latest)
    equal = within = 0
    differ = []
    for row, earliest, latest in last.values():
        _, _, ended, found = row
        if found is None:
            continue
        bounds = [clock if ended is None else min(clock, ended) for clock in (earliest, latest)]
        if bounds == [found, found]:
            equal += 1
        elif bounds[0] <= found <= bounds[1]:
            within += 1
        else:
            differ.append((row, earliest, latest))
    return equal, within, differ


def run(program, path):
    import plimsoll

    torch.manual_seed(0)
    torch.set_num_threads(1)
    recording = plimsoll.record(path, uses="always")
    with recording:
        log = Log()
        with Calls(log), Operators(log):
            kept = program()
        log.boundary()
    del kept
    dump = subprocess.run(
        [sys.executable, "-m", "plimsoll", "dump", str(recording.path)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return compare(log, recorded(dump))


# ---- programs -----------------------------------------------------------------------------------


def train(model, make_batch, optimizer=None, steps=3, loss=lambda out: out.square().mean()):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(steps):
        value = loss(model(*make_batch()))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return model, optimizer, value


def mlp():
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10))
    return train(model, lambda: [torch.randn(16, 32)], torch.optim.AdamW(model.parameters()))


def foreach_momentum():
    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(5)])
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, foreach=True)
    return train(model, lambda: [torch.randn(4, 8)], optimizer)


def rmsprop():
    model = nn.Linear(8, 8)
    optimizer = torch.optim.RMSprop(model.parameters(), foreach=False)
    return train(model, lambda: [torch.randn(4, 8)], optimizer)


def transformer():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return train(model, lambda: [torch.randn(2, 8, 32)])


def autocast():
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def loss(out):
        return out.float().logsumexp(1).mean()

    with torch.autocast("cpu", torch.bfloat16):
        return train(model, lambda: [torch.randn(8, 16)], loss=loss)


def convolutions():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.1)
    )
    return train(model, lambda: [torch.randn(2, 3, 12, 12)])


def lstm():
    model = nn.LSTM(8, 16, 2, bidirectional=True, batch_first=True)
    return train(model, lambda: [torch.randn(2, 5, 8)], loss=lambda out: out[0].square().mean())


def gru_cell():
    cell = nn.GRUCell(8, 8)
    hidden = torch.zeros(4, 8)
    for _ in range(4):
        hidden = cell(torch.randn(4, 8), hidden)
    hidden.sum().backward()
    return cell, hidden


def embedding():
    model = nn.EmbeddingBag(50, 8)
    return train(model, lambda: [torch.randint(0, 50, (4, 6))])


def checkpoints(early_stop=False):
    from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

    body = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))
    x = torch.randn(4, 16, requires_grad=True)
    for _ in range(2):
        with set_checkpoint_early_stop(early_stop):
            loss = checkpoint(body, x * 1, use_reentrant=False).sum()
        loss.backward()
    return body, x


def checkpoints_with_early_stop():
    """The recomputation ends by an exception, when addmm saves its arguments and before it runs.
    The recorder sees the arguments of addmm, so the bias is used; the mode below autograd doesn't.
    """
    return checkpoints(early_stop=True)


def custom_function():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    x = torch.randn(8, 8, requires_grad=True)
    for _ in range(3):
        (Square.apply(x.sin()) + 1).sum().backward()
    return x


def views_and_in_place():
    x = torch.randn(64, 64)
    row = x[3]
    del x
    row.add_(1)
    out = torch.empty(64)
    torch.mul(row, 2, out=out)
    out.resize_(128)
    return out[:64].flip(0).contiguous()


def kept_outputs():
    model, kept = nn.Linear(8, 8), []
    for _ in range(6):
        kept.append(model(torch.randn(4, 8)))
    return kept


def no_gradients():
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8)).eval()
    with torch.no_grad():
        return [model(torch.randn(16, 8)).argmax(1) for _ in range(3)]


def einsum_and_fft():
    x = torch.randn(4, 8, 8)
    return torch.einsum("bij,bkj->bik", x, x).softmax(-1), torch.fft.rfft(x).abs().sum()


def functional_gradients():
    w, x = torch.randn(8, 8), torch.randn(4, 8)
    return torch.func.grad(lambda w: torch.func.vmap(lambda row: (w @ row).tanh().sum())(x).sum())(
        w
    )


def clipping():
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16))
    model(torch.randn(4, 16)).sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    return model


PROGRAMS = [
    mlp, foreach_momentum, rmsprop, transformer, autocast, convolutions, lstm, gru_cell, embedding,
    checkpoints, checkpoints_with_early_stop, custom_function, views_and_in_place, kept_outputs,
    no_gradients, einsum_and_fft, functional_gradients, clipping,
]  # fmt: skip


def random_program(seed):
    def program():
        choose = random.Random(seed)
        pool = [torch.randn(8, 8, requires_grad=choose.random() < 0.5) for _ in range(3)]
        actions = [
            lambda a, b: a @ b,
            lambda a, b: a + b,
            lambda a, b: a.sin(),
            lambda a, b: a.t(),
            lambda a, b: a.detach(),
            lambda a, b: torch.cat([a, b])[:8],
            lambda a, b: torch.where(a > 0, a, b),
            lambda a, b: a.detach().clone().add_(b.detach()),
            lambda a, b: torch.stack([a, b]).mean(0),
        ]
        for _ in range(60):
            if len(pool) > 4 and choose.random() < 0.5:
                del pool[choose.randrange(len(pool))]
                continue
            if choose.random() < 0.1:
                loss = sum(each.square().mean() for each in pool)
                if loss.requires_grad:
                    loss.backward(retain_graph=True)
                continue
            pool.append(choose.choice(actions)(choose.choice(pool), choose.choice(pool)))
        return pool

    return program


if __name__ == "__main__":
    programs = {each.__name__: each for each in PROGRAMS}
    name, path = sys.argv[1:]
    program = programs.get(name) or random_program(int(name.rsplit("_", 1)[1]))
    print(*run(program, path))
