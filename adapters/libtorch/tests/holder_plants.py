"""Planted holders of memory, and what a walk must say about each of them.

Each plant keeps tensors in the module `plant` and returns the edit that ends it. `chain` and
`holder` are patterns of the text that `test_holders.text_of` makes.
"""

import asyncio
import collections
import contextlib
import copy
import dataclasses
import functools
import gc
import io
import queue
import sys
import threading
import traceback
import types
import typing
import weakref
from collections.abc import Callable
from multiprocessing.pool import ThreadPool

import torch
from torch import nn

N = 12
SAVED = "(PowBackward0 saved self|AddmmBackward0 saved mat1)"


@dataclasses.dataclass
class Plant:
    name: str
    make: Callable
    chain: str
    holder: str
    share: float = 1
    """Least share of what the edit frees that the cut frees; 1: all of it."""


PLANTS = []


def plant(chain, holder, share=1.0):
    def register(make):
        PLANTS.append(Plant(make.__name__, make, chain, holder, share))
        return make

    return register


def big():
    return torch.randn(100, 100)


def clearing(space, path):
    """The edit that empties a container. It refers only to the module."""
    return lambda: eval(f"space.{path}.clear()", {"space": space})


class Bag:
    """An object with attributes."""


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))


def loss_of(net):
    return net(torch.randn(256, 64)).square().mean()


# ---- the 24 of the design ------------------------------------------------------------------------


@plant(
    r"plant\.trainer\.losses\[\*\] → MeanBackward0 → " + SAVED,
    r"plant\.trainer\.losses\[\*\]",
)
def list_of_losses_with_graphs(space):
    space.net, space.trainer = model(), Bag()
    space.trainer.losses = []
    for _ in range(N):
        space.trainer.losses.append(loss_of(space.net))
    return clearing(space, "trainer.losses")


@plant(
    r"plant\.total → AddBackward0 → " + SAVED,
    r"plant\.total",
)
def running_sum_with_graph(space):
    space.net, space.total = model(), 0
    for _ in range(N):
        space.total = space.total + loss_of(space.net)
    return lambda: delattr(space, "total")


@plant(
    r"plant\.hooked hook _forward_hooks\[\*\] closure kept",
    r"plant\.hooked hook _forward_hooks\[\*\]",
)
def closures_of_forward_hooks(space):
    space.hooked = nn.Linear(8, 8)
    handles = []
    for _ in range(N):

        def add():
            kept = big()
            handles.append(space.hooked.register_forward_hook(lambda *_: kept.sum()))

        add()

    def edit():
        for handle in handles:
            handle.remove()

    return edit


@plant(r"plant\.errors\[\*\] traceback step local activations", r"plant\.errors\[\*\]")
def exceptions_in_a_list(space):
    space.errors = []

    def step():
        activations = big()
        raise ValueError(activations.shape)

    def run():
        for _ in range(N):
            try:
                step()
            except ValueError as error:
                space.errors.append(error)

    run()
    return clearing(space, "errors")


@plant(r"plant\.cached_mask\[\*\]", r"plant\.cached_mask\[\*\]")
def lru_cache(space):
    space.cached_mask = functools.lru_cache(maxsize=1000)(lambda n: torch.ones(n, 50))
    for i in range(N):
        space.cached_mask(100 + i)
    return functools.partial(lambda kept: kept.cached_mask.cache_clear(), space)


@plant(r"plant_metrics\.history\[\*\]", r"plant_metrics\.history\[\*\]")
def list_in_another_module(space):
    other = sys.modules["plant_metrics"] = types.ModuleType("plant_metrics")
    other.history = [big() for _ in range(N)]
    return clearing(other, "history")


@plant(r"plant\.retained\[\*\] → AddmmBackward0 saved mat1", r"plant\.retained\[\*\]")
def retained_graphs(space):
    space.net, space.retained = model(), {}
    for i in range(N):
        out = space.net(torch.randn(256, 64))
        out.square().mean().backward(retain_graph=True)
        space.retained[i] = out
    return clearing(space, "retained")


@plant(r"plant\.outputs\[\*\] → ScaleBackward\.big", r"plant\.outputs\[\*\]")
def attribute_of_a_context(space):
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.big = big()
            return a * 2

    space.outputs = [Scale.apply(torch.ones(1, requires_grad=True)) for _ in range(N)]
    return clearing(space, "outputs")


@plant(r"plant\.optimizer\.state\[\*\]\[exp_avg\]", r"plant\.optimizer\.state\[\*\]")
def optimizer_state_of_removed_parameters(space):
    space.optimizer = torch.optim.Adam([nn.Parameter(torch.zeros(1))])
    for _ in range(N):
        parameter = nn.Parameter(big())
        space.optimizer.add_param_group({"params": [parameter]})
        parameter.grad = torch.ones_like(parameter)
        space.optimizer.step()
        space.optimizer.param_groups.pop()
    space.optimizer.zero_grad()
    return clearing(space, "optimizer.state")


@plant(r"plant\.logger\.meters\[acc\]\.values\[\*\]", r"plant\.logger\.meters\[acc\]\.values\[\*\]")
def meters_of_a_logger(space):
    class Meter:
        def __init__(self):
            self.values = collections.deque()

    space.logger = Bag()
    space.logger.meters = collections.defaultdict(Meter)
    for _ in range(N):
        space.logger.meters["acc"].values.append(big())
    return clearing(space, "logger.meters['acc'].values")


@plant(r"plant\.local\.kept\[\*\]", r"plant\.local\.kept\[\*\]")
def thread_local(space):
    space.local = threading.local()
    ready, ends = threading.Event(), threading.Event()

    def work():
        space.local.kept = [big() for _ in range(N)]
        ready.set()
        ends.wait()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    ready.wait()

    def edit():
        ends.set()
        thread.join()

    return edit


@plant(r"plant\.gate.* local batch", r"plant\.gate.*\[\*\].*", share=0.9)
def tasks_that_wait(space):
    space.loop = asyncio.new_event_loop()
    space.gate = space.loop.create_future()

    async def consume():
        batch = big()
        await space.gate
        return batch

    async def main():
        for _ in range(N):
            space.loop.create_task(consume())
        await asyncio.sleep(0)

    space.loop.run_until_complete(main())

    def edit():
        for task in asyncio.all_tasks(space.loop):
            task.cancel()
        space.loop.run_until_complete(asyncio.sleep(0))
        space.loop.close()

    return edit


@plant(r"plant\.iterators\[\*\] local batch", r"plant\.iterators\[\*\]")
def suspended_generators(space):
    def batches():
        while True:
            batch = big()
            yield batch

    space.iterators = []
    for _ in range(N):
        space.iterators.append(batches())
        next(space.iterators[-1])
    return clearing(space, "iterators")


@plant(r"cycle Node\.data", r"cycle Node\.data|cycle Node")
def garbage_cycles(space):
    class Node:
        def __init__(self):
            self.me, self.data = self, big()

    for _ in range(N):
        Node()
    return gc.collect


@plant(r"plant\.arrays\[\*\] base", r"plant\.arrays\[\*\]")
def numpy_views(space):
    space.arrays = [big().numpy() for _ in range(N)]
    return clearing(space, "arrays")


@plant(r"plant\.views\[\*\]", r"plant\.views\[\*\]")
def small_views_of_large_storages(space):
    space.views = [big()[0, :1] for _ in range(N)]
    return clearing(space, "views")


@plant(r"plant\.store\[\*\]", r"plant\.store\[\*\]")
def store_of_a_pack_hook(space):
    space.net, space.store, space.sums = model(), {}, []

    def pack(tensor):
        space.store[len(space.store)] = tensor.detach().clone()
        return len(space.store) - 1

    def unpack(number):
        return space.store[number]

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        for _ in range(4):
            space.sums.append(loss_of(space.net))
    return clearing(space, "store")


@plant(r"plant\.prefetched\.queue\[\*\]\[1\]\[image\]", r"plant\.prefetched\.queue\[\*\]")
def queue_of_batches(space):
    space.prefetched = queue.Queue(maxsize=100)
    for _ in range(N):
        space.prefetched.put((0, {"image": big()}))
    return clearing(space, "prefetched.queue")


@plant(r"plant\.adversarial\[\*\](\.grad)?", r"plant\.adversarial\[\*\]")
def gradients_of_leaves(space):
    space.adversarial = []
    for _ in range(N):
        x = torch.randn(100, 100, requires_grad=True)
        (x * x).sum().backward()
        space.adversarial.append(x)
    return clearing(space, "adversarial")


@plant(
    r"plant\.outs\[\*\] → AddmmBackward0 hook post_hooks\[\*\] default kept",
    r"plant\.outs\[\*\]",
)
def hooks_of_nodes(space):
    space.net, space.outs = model(), []
    for _ in range(N):
        out = space.net(torch.randn(2, 64))
        kept = big()
        out.grad_fn.register_hook(lambda *_, kept=kept: None)
        space.outs.append(out)
    return clearing(space, "outs")


@plant(r"plant\.samples\[\*\]\.image", r"plant\.samples\[\*\]")
def objects_with_slots(space):
    class Sample:
        __slots__ = ("image", "label")

        def __init__(self):
            self.image = big()

    space.samples = [Sample() for _ in range(N)]
    return clearing(space, "samples")


@plant(r"plant\.Registry\.seen\[\*\]", r"plant\.Registry\.seen\[\*\]")
def dict_of_a_class(space):
    class Registry:
        seen: typing.ClassVar = {}

    space.Registry = Registry
    for i in range(N):
        Registry.seen[f"step{i}"] = big()
    return clearing(space, "Registry.seen")


class KeepingScript(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = torch.jit.Attribute([], list[torch.Tensor])

    def forward(self, x: torch.Tensor):
        self.kept.append(x * 2)
        return x


@plant(r"plant\.scripted.*kept\[\*\]", r"plant\.scripted.*kept\[\*\]")
def list_in_a_scripted_module(space):
    space.scripted = torch.jit.script(KeepingScript())
    for _ in range(N):
        space.scripted(torch.ones(100, 100))
    return lambda: delattr(space, "scripted")


# The local of a loop that runs is planted by the test itself.

# ---- 16 more -------------------------------------------------------------------------------------


@plant(
    r"plant\.net\.0 hook _forward_hooks\[.+\] closure activations\[\*\]",
    r"plant\.net\.0 hook _forward_hooks\[.+\].*",
)
def hook_left_on_a_module(space):
    space.net = model()

    def watch():
        activations = []
        return space.net[0].register_forward_hook(
            lambda m, i, out: activations.append(out.detach())
        )

    handle = watch()
    for _ in range(N):
        with torch.no_grad():
            space.net(torch.randn(256, 64))
    return handle.remove


@plant(
    r"plant\.scheduler\.lr_lambdas\[\w+\] closure losses\[\*\]",
    r"plant\.scheduler\.lr_lambdas\[\w+\] closure losses\[\*\]",
)
def closure_in_a_scheduler(space):
    def by_loss(losses):
        return lambda epoch: 1.0 if losses is not None else 0.0

    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))])
    losses = []
    space.scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, by_loss(losses))
    losses.extend(big() for _ in range(N))
    return clearing(space, "scheduler.lr_lambdas[0].__closure__[0].cell_contents")


@plant(r"plant\.callbacks\[\*\]\.args\[0\]", r"plant\.callbacks\[\*\]")
def arguments_of_partials(space):
    space.callbacks = [functools.partial(print, big()) for _ in range(N)]
    return clearing(space, "callbacks")


@plant(r"plant\.state\.best", r"plant\.state\.best")
def field_of_a_dataclass(space):
    @dataclasses.dataclass
    class State:
        step: int
        best: torch.Tensor

    space.state = State(1, torch.randn(1000, 1000))
    return lambda: delattr(space.state, "best")


@plant(
    r"plant\.lightning\.callback_metrics\[\*\] → MeanBackward0 → " + SAVED,
    r"plant\.lightning\.callback_metrics\[\*\]",
)
def metrics_of_a_trainer(space):
    class Trainer:
        def __init__(self):
            self.callback_metrics = {}

    space.net, space.lightning = model(), Trainer()
    for i in range(N):
        space.lightning.callback_metrics[f"train_loss_{i}"] = loss_of(space.net)
    return clearing(space, "lightning.callback_metrics")


@plant(
    r"plant\.trainer\.state\.log_history\[\*\]\[loss\]", r"plant\.trainer\.state\.log_history\[\*\]"
)
def logs_of_a_trainer(space):
    @dataclasses.dataclass
    class TrainerState:
        log_history: list

    space.trainer = Bag()
    space.trainer.state = TrainerState([])
    for step in range(N):
        space.trainer.state.log_history.append({"loss": big(), "step": step})
    return clearing(space, "trainer.state.log_history")


@plant(r"plant\.run\._backend\.history\._data\[\*\]", r"plant\.run\._backend\.history\._data\[\*\]")
def history_of_a_run(space):
    class Run:
        __slots__ = ("__weakref__", "_backend")

        def __init__(self):
            self._backend = Bag()
            self._backend.history = Bag()
            self._backend.history._data = collections.OrderedDict()

        def log(self, values):
            data = self._backend.history._data
            data[len(data)] = values["image"]

    space.run = Run()
    for _ in range(N):
        space.run.log({"image": big()})
    return clearing(space, "run._backend.history._data")


@plant(r"plant\.accelerator\._models\[\*\].*weight", r"plant\.accelerator\._models\[\*\]")
def models_of_an_accelerator(space):
    space.accelerator = Bag()
    space.accelerator._models = []
    for _ in range(N):
        space.accelerator._models.append(nn.Linear(100, 100))
    return clearing(space, "accelerator._models")


@plant(r"__main__\._\d*", r"__main__\._\d*", share=0.0)
def outputs_of_ipython(space):
    from IPython.core.interactiveshell import InteractiveShell

    before = set(sys.modules["__main__"].__dict__)
    space.shell = InteractiveShell()
    with contextlib.redirect_stdout(io.StringIO()):
        for _ in range(N):
            space.shell.run_cell("import torch; torch.randn(100, 100)", store_history=True)

    def edit():
        space.shell.reset(new_session=False)
        del space.shell
        for name in set(sys.modules["__main__"].__dict__) - before:
            del sys.modules["__main__"].__dict__[name]

    return edit


@plant(
    r"(sys\.last_value|sys\.last_exc|sys\.last_traceback) traceback step local activations",
    r"(sys\.last_value|sys\.last_exc|sys\.last_traceback) traceback step",
)
def last_traceback(space):
    def step():
        activations = torch.randn(1000, 1000)
        raise ValueError(activations.shape)

    try:
        step()
    except ValueError as error:
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__

    def edit():
        traceback.clear_frames(sys.last_traceback)
        sys.last_type = sys.last_value = sys.last_traceback = None

    return edit


@plant(r"plant\.memo\[\*\].*", r"plant\.memo\[\*\]", share=0.0)
def memo_of_a_deep_copy(space):
    space.memo = {}
    for _ in range(N):
        copy.deepcopy([big()], space.memo)
    return clearing(space, "memo")


@plant(r"plant\.results\[\*\]\._value(\[0\])?", r"plant\.results\[\*\]")
def results_of_a_pool(space):
    with ThreadPool(1) as pool:
        space.results = [pool.apply_async(big) for _ in range(N)]
        for result in space.results:
            result.wait()
        pool.close()
        pool.join()
    return clearing(space, "results")


@plant(r"plant\.owners\[\*\]", r"plant\.owners\[\*\]")
def weak_references_beside_a_list(space):
    space.owners = [big() for _ in range(N)]
    space.weak = [weakref.ref(each) for each in space.owners]
    space.by_id = weakref.WeakValueDictionary(enumerate(space.owners))
    space.all = weakref.WeakSet(space.owners)
    return clearing(space, "owners")


@plant(r".*table.*", r".*table.*", share=0.0)
def constants_of_compiled_code(space):
    def scale(x, table):
        return x * table

    def scale_by(table):
        return lambda x: scale(x, table)

    space.compiled = torch.compile(scale_by(torch.randn(1000, 1000)), backend="eager")
    space.compiled(torch.ones(1000, 1000))
    return lambda: (delattr(space, "compiled"), torch._dynamo.reset())


@plant(r"plant\.iterator\..* local images\[\*\]", r".* local images\[\*\]", share=0.9)
def iterator_of_a_loader(space):
    class Images(torch.utils.data.IterableDataset):
        def __iter__(self):
            images = [big() for _ in range(N)]
            for image in images:
                yield image.sum()

    loader = torch.utils.data.DataLoader(Images())
    space.iterator = iter(loader)
    next(space.iterator)
    return lambda: delattr(space, "iterator")


@plant(r"plant\.layer\.weight\.main_grad", r"plant\.layer\.weight\.main_grad")
def attribute_of_a_parameter(space):
    space.layer = nn.Linear(10, 10)
    space.layer.weight.main_grad = torch.zeros(1000, 1000)
    return lambda: delattr(space.layer.weight, "main_grad")


@plant(r"plant\.ddp\..*grad|native.*", r"plant\.ddp.*|native.*", share=0.0)
def buckets_of_ddp(space):
    from torch import distributed

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    layer = nn.Linear(500, 500)
    space.ddp = nn.parallel.DistributedDataParallel(layer, gradient_as_bucket_view=True)
    space.ddp(torch.ones(1, 500)).sum().backward()

    def edit():
        del space.ddp
        distributed.destroy_process_group()

    return edit
