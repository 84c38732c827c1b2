"""The walk that finds what holds memory: planted holders, and the edits that end them."""

import collections
import contextlib
import functools
import gc
import os
import queue
import random
import re
import sys
import threading
import types
import typing
import unittest.mock
import weakref

import pytest
import torch
from holder_plants import PLANTS

from plimsoll._torch.adapter import load

(
    MODULE,
    FRAME,
    EXCEPTION,
    NATIVE,
    CYCLE,
    ATTRIBUTE,
    ITEM,
    LOCAL,
    CLOSURE,
    DEFAULT,
    GRAD_FN,
    NODE,
    SAVED,
    HOOK,
    GRADIENT,
    BASE,
    TRACEBACK,
    OTHER,
    PART,
) = range(19)
COMPLETE, TOO_MANY_OBJECTS, TOO_MANY_NODES, NO_MEMORY, TOO_LATE = range(5)


def found(*limits):
    return load(print).holders_as_python(*limits)


def text_of(links, number):
    """The chain up to a link, as a reader would write it."""
    text = ""
    while number:
        parent, kind, name, type_, *_ = links[number - 1]
        text = _text_of_link(kind, name, type_) + text
        number = parent
    return text


def _text_of_link(kind, name, type_):
    return {
        MODULE: name,
        FRAME: f"{name}()",
        EXCEPTION: name or "exception",
        NATIVE: f"native {name or type_}",
        CYCLE: f"cycle {type_}",
        ATTRIBUTE: f".{name}",
        PART: f".{name}",
        ITEM: f"[{name or '*'}]",
        LOCAL: f" local {name}",
        CLOSURE: f" closure {name}",
        DEFAULT: f" default {name}",
        GRAD_FN: f" → {type_}",
        NODE: f" → {type_}",
        SAVED: f" saved {name}",
        HOOK: f" hook {name}",
        GRADIENT: ".grad",
        BASE: " base",
        TRACEBACK: f" traceback {name.rpartition('.')[2]}",
        OTHER: f" → {type_}",
    }[kind]


class Live:
    """The live memory that the recorder has seen."""

    def __init__(self, recorder):
        self._recorder = recorder
        self.bytes = {}

    def update(self):
        """Return the bytes that were freed since the last call."""
        freed = 0
        for event in self._recorder.take():
            if event["kind"] in ("alloc", "adopt"):
                self.bytes[event["address"]] = event["size"]
            elif event["kind"] == "free":
                freed += self.bytes.pop(event["address"], 0)
        return freed


@pytest.fixture
def space():
    module = sys.modules["plant"] = types.ModuleType("plant")
    yield module
    module.__dict__.clear()
    del sys.modules["plant"]
    sys.modules.pop("plant_metrics", None)
    gc.enable()
    gc.collect()


def chains_of(result, live):
    """Bytes by the text of the chain that holds them."""
    chains = {}
    for address, _, link in result["held"]:
        if address in live:
            text = text_of(result["links"], link)
            chains[text] = chains.get(text, 0) + live[address]
    return chains


def cut_of(result, pattern):
    for link, *cut in result["cuts"]:
        if re.fullmatch(pattern, text_of(result["links"], link)):
            return cut
    return None


def explained(result, live):
    lines = [f"{size:9,}  {text}" for text, size in chains_of(result, live).items()]
    lines += [
        f"cut {text_of(result['links'], link)}: frees {freed:,}, leaves {left:,}; "
        f"other {text_of(result['links'], other)}, native {native}"
        for link, other, _, freed, _, left, native in result["cuts"]
    ]
    return "\n".join([f"end {result['end']}, {result['objects']} objects", *lines])


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_plants(recorder, space, plant):
    gc.collect()
    recorder.forget()
    gc.disable()
    live = Live(recorder)
    edit = plant.make(space)
    if plant.name != "garbage_cycles":
        gc.collect()
    live.update()
    result = found()
    chains = chains_of(result, live.bytes)
    text = explained(result, live.bytes)
    assert result["end"] == COMPLETE
    assert chains, text
    most = max(chains.values())
    assert any(re.match(plant.chain, each) for each in chains if chains[each] == most), text
    live.update()
    edit()
    if plant.name != "garbage_cycles":
        gc.collect()
    freed_bytes = live.update()
    cut = cut_of(result, plant.holder)
    assert cut is not None, text
    _, _, frees, _, left, is_native = cut
    assert plant.share * freed_bytes <= frees <= freed_bytes, f"edit frees {freed_bytes:,}\n{text}"
    if plant.share == 1:
        assert (left, is_native) == (0, 0), text


def test_running_frame(recorder):
    def train():
        kept = [torch.randn(100, 100) for _ in range(12)]
        result = found()
        del kept
        return result

    gc.collect()
    recorder.forget()
    result = train()
    live = {e["address"]: e["size"] for e in recorder.take() if e["kind"] == "alloc"}
    frame = f"{train.__qualname__}()" if sys.version_info >= (3, 11) else "train()"
    assert chains_of(result, live) == {f"{frame} local kept[*]": 480_000}
    _, freed_count, frees, left_count, _, is_native = cut_of(result, f".*{LOCAL_KEPT}")
    assert (freed_count, frees, left_count, is_native) == (12, 480_000, 0, 0)


LOCAL_KEPT = r" local kept\[\*\]"


def row(result, pattern):
    """The last link of the chain that matches."""
    (number,) = (
        i
        for i in range(1, len(result["links"]) + 1)
        if re.fullmatch(pattern, text_of(result["links"], i))
    )
    return result["links"][number - 1]


def test_a_second_holder_is_named(space):
    space.first = [torch.ones(100) for _ in range(5)]
    space.outer = types.SimpleNamespace(second=list(space.first))
    result = found()
    other, freed_count, _, left_count, left_bytes, is_native = cut_of(result, r"plant\.first\[\*\]")
    assert (freed_count, left_count, left_bytes, is_native) == (0, 5, 2000, 0)
    assert text_of(result["links"], other) == "plant.outer.second[*]"


def test_a_native_holder_is_noticed(space):
    space.kept = [torch.ones(100) for _ in range(5)]
    space.capsule = torch.utils.dlpack.to_dlpack(space.kept[0])
    cut = cut_of(found(), r"plant\.kept\[\*\]")
    assert cut == [0, 4, 1600, 1, 400, 1]


def test_a_model_holds_all_its_parameters(space):
    space.net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 1))
    space.net[1].cache = torch.ones(100)
    result = found()
    assert cut_of(result, r"plant\.net") == [0, 5, 4 * (64 * 64 + 64 + 64 + 1) + 400, 0, 0, 0]
    assert cut_of(result, r"plant\.net\.1\.cache") == [0, 1, 400, 0, 0, 0]


def test_lengths_and_limits(space):
    space.bounded = collections.deque([torch.ones(3), torch.ones(3)], maxlen=7)
    space.waiting = queue.Queue(maxsize=9)
    space.waiting.put(torch.ones(3))
    space.cached = functools.lru_cache(maxsize=11)(torch.ones)
    space.cached(1), space.cached(2), space.cached(3)
    space.table = {"a": torch.ones(1), "b": 1}
    result = found()
    assert row(result, r"plant\.bounded")[6:] == (2, 7)
    assert row(result, r"plant\.waiting")[6:] == (1, 9)
    assert row(result, r"plant\.cached")[6:] == (3, 11)
    assert row(result, r"plant\.table")[6:] == (2, 0)


def test_places_of_hooks_and_tracebacks(space):
    def make():
        kept = torch.ones(3)

        def hook(*_):
            return kept

        return hook

    def fail():
        value = torch.ones(4)
        raise ValueError(value.shape)

    hook = make()
    space.layer = torch.nn.Linear(2, 2)
    space.layer.register_forward_hook(hook)
    with contextlib.suppress(ZeroDivisionError):
        try:
            fail()
        except ValueError as error:
            space.error = error
    line = hook.__code__.co_firstlineno
    del hook
    result = found()
    assert row(result, r"plant\.layer hook _forward_hooks\[\*\]")[3:6] == (
        "function",
        __file__,
        line,
    )
    assert row(result, r"plant\.error traceback fail")[4:6] == (
        __file__,
        fail.__code__.co_firstlineno + 2,
    )


def test_exceptions_that_are_handled(space):
    def fail():
        activations = torch.ones(5)
        raise ValueError(activations.shape)

    try:
        fail()
    except ValueError:
        result = found()
    assert row(result, r"exception traceback fail local activations")[3] == "Tensor"


def test_functions_that_the_exception_which_ends_the_program_has_left(space):
    def fail():
        activations = torch.ones(5)
        raise ValueError(activations.shape)

    try:
        fail()
    except ValueError as error:
        caught = error
    result = found(0, 0, 0, caught)
    line = fail.__code__.co_firstlineno + 2
    assert row(result, r".*fail\(\)")[4:6] == (__file__, line)
    assert row(result, r".*fail\(\) local activations")[3] == "Tensor"


def test_objects_of_plimsoll_are_left_out(space):
    own = sys.modules["plimsoll_of_test"] = types.ModuleType("plimsoll_of_test")
    own.kept, own.shared = torch.ones(61), torch.ones(62)
    space.shared = own.shared
    addresses = own.kept.untyped_storage().data_ptr(), own.shared.untyped_storage().data_ptr()
    own = None
    result = found()
    del sys.modules["plimsoll_of_test"]
    held = {address: text_of(result["links"], link) for address, _, link in result["held"]}
    assert addresses[0] not in held
    assert held[addresses[1]] == "plant.shared"


def test_the_recorder_gets_the_links(recorder, space):
    space.kept = [torch.ones(50), torch.ones(50)]
    recorder.take()
    assert recorder.find_holders()
    (event,) = (each for each in recorder.take() if each["kind"] == "holders")
    assert event["end"] == COMPLETE
    assert event["held"] >= 2
    assert event["cuts"] >= 1
    module = event["links"].index("plant//0") + 1
    kept = event["links"].index(f"kept/list/{module}") + 1
    assert f"/Tensor/{kept}" in event["links"]


# ---- nothing is disturbed ------------------------------------------------------------------------


class Tripped(type):
    """A class of classes; every method of it and of its instances notes that it ran."""

    ran: typing.ClassVar = []

    def __eq__(cls, other):
        Tripped.ran.append("type.__eq__")
        return cls is other

    def __hash__(cls):
        Tripped.ran.append("type.__hash__")
        return 1

    def __getattribute__(cls, name):
        Tripped.ran.append(f"type.__getattribute__ {name}")
        return type.__getattribute__(cls, name)

    def __instancecheck__(cls, other):
        Tripped.ran.append("type.__instancecheck__")
        return False

    def __repr__(cls):
        Tripped.ran.append("type.__repr__")
        return "Wire"


def note(name, result=None):
    def method(self, *args):
        Tripped.ran.append(name)
        return result

    return method


class Wire(metaclass=Tripped):
    def __init__(self, data):
        self.data = data

    def __getattribute__(self, name):
        Tripped.ran.append(f"__getattribute__ {name}")
        return object.__getattribute__(self, name)

    __eq__ = note("__eq__", True)
    __hash__ = note("__hash__", 1)
    __repr__ = note("__repr__", "wire")
    __del__ = note("__del__")
    __len__ = note("__len__", 1)
    __iter__ = note("__iter__", iter(()))
    __bool__ = note("__bool__", True)
    __class__ = property(note("__class__", int))
    tensor = property(note("property"))


class WireDict(dict):
    items = note("items", ())
    keys = note("keys", ())
    values = note("values", ())
    get = note("get")
    __getitem__ = note("__getitem__")
    __iter__ = note("__iter__", iter(()))
    __len__ = note("__len__", 0)
    __contains__ = note("__contains__", False)


class WireText(str):
    __hash__ = str.__hash__
    __eq__ = note("str.__eq__", False)
    __str__ = note("str.__str__", "")
    __repr__ = note("str.__repr__", "")


class WireTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        Tripped.ran.append("__torch_function__")
        return super().__torch_function__(function, types, args, kwargs or {})


@pytest.fixture
def wires(space):
    space.wire = Wire(torch.ones(10))
    space.dict = WireDict()
    dict.__setitem__(space.dict, WireText("key"), torch.ones(11))
    dict.__setitem__(space.dict, Wire(1), torch.ones(12))
    space.tensor = torch.ones(13).as_subclass(WireTensor)
    space.tensor.more = torch.ones(14)
    space.weak = weakref.ref(space.wire, lambda _: Tripped.ran.append("weakref"))
    leaf = torch.ones(15, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: [tensor.detach().clone()], lambda packed: Tripped.ran.append("unpack")
    ):
        space.out = (leaf * leaf).sum()
    out = leaf * 2
    out.register_hook(lambda _: Tripped.ran.append("hook"))
    space.hooked = out
    Tripped.ran.clear()
    yield space
    space.__dict__.clear()
    gc.collect()


def test_no_code_of_the_program_runs(wires):
    result = found()
    assert Tripped.ran == []
    texts = {text_of(result["links"], i + 1) for i in range(len(result["links"]))}
    assert "plant.wire.data" in texts
    assert "plant.dict[key]" in texts or "plant.dict[*]" in texts
    assert "plant.tensor.more" in texts
    assert "plant.out → SumBackward0 → MulBackward0 saved self[0]" in texts


def test_nothing_is_changed(wires):
    found()
    gc.collect()
    gc.disable()
    objects = gc.get_objects()
    before = list(map(sys.getrefcount, objects))
    count, allocated = len(gc.get_objects()), gc.get_count()[0]
    result = found()
    del result
    assert abs(gc.get_count()[0] - allocated) < 100
    assert len(gc.get_objects()) == count
    after = list(map(sys.getrefcount, objects))
    gc.enable()
    assert [
        (type(objects[i]), before[i], after[i]) for i in range(len(before)) if before[i] != after[i]
    ] == []


def test_copies_on_write_stay_unwritten(space):
    space.source = torch.ones(1000)
    space.lazy = torch._lazy_clone(space.source)
    assert torch._C._is_cow_tensor(space.lazy)
    found()
    assert torch._C._is_cow_tensor(space.lazy)
    assert torch._C._is_cow_tensor(space.source)


def test_deleted_locals_are_freed():
    kept = torch.ones(10)
    weak = weakref.ref(kept)
    found()
    del kept
    assert weak() is None


@pytest.mark.parametrize("state", ["enabled", "disabled", "frozen"])
def test_states_of_the_collector(space, state):
    space.kept = [torch.ones(50), torch.ones(50)]
    if state == "disabled":
        gc.disable()
    if state == "frozen":
        gc.freeze()
    try:
        result = found()
        assert gc.isenabled() == (state != "disabled")
    finally:
        gc.unfreeze()
        gc.enable()
    assert row(result, r"plant\.kept")[6] == 2


def test_a_program_whose_threads_change_it(space):
    space.containers = [[], {}, collections.deque(), set()]
    ends = threading.Event()

    def change():
        rows, table, waiting, members = space.containers
        while not ends.is_set():
            rows.append(torch.ones(2))
            table[len(table)] = rows[-1:]
            waiting.append(Wire(1))
            members.add(len(rows))
            if len(rows) > 50:
                for each in space.containers:
                    each.clear()
            sum(i for i in range(100))

    threads = [threading.Thread(target=change) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            assert found()["end"] in (COMPLETE, TOO_MANY_NODES)
    finally:
        ends.set()
        for thread in threads:
            thread.join()
    assert found()["end"] == COMPLETE


def churn(space, ends):
    """Changes, as fast as it can, all kinds of objects that a walk reads."""
    while not ends.is_set():
        x = torch.ones(8, requires_grad=True)
        kind = type("Kind", (), {"kept": x})
        space.made = [kind(), {f"key {i}": x * i for i in range(9)}, weakref.ref(kind)]
        space.made[0].__dict__.update(space.made[1])
        frames = (each for each in [x.sin()])
        next(frames)
        space.frames = frames
        space.array = x.detach().numpy()[1:]
        handle = x.register_hook(lambda gradient: gradient)
        with contextlib.suppress(ZeroDivisionError):
            try:
                space.loss = (x * x).sum() / (1 // 0)
            except ZeroDivisionError as error:
                space.error = error
                raise
        (x.exp() * x).sum().backward()
        handle.remove()
        space.cycle = [x]
        space.cycle.append(space.cycle)
        space.__dict__.pop(random.choice(["made", "frames", "array", "error"]), None)
        if random.random() < 0.01:
            gc.collect()


def test_threads_that_change_everything_while_walks_run(space):
    # PLIMSOLL_WALKS=10000 takes about ten minutes.
    count = int(os.environ.get("PLIMSOLL_WALKS", "30"))
    ends = threading.Event()
    threads = [threading.Thread(target=churn, args=(space, ends)) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        seen = {
            found(0 if i % 10 == 0 else random.randrange(1, 60_000))["end"] for i in range(count)
        }
    finally:
        ends.set()
        for thread in threads:
            thread.join()
    assert seen <= {COMPLETE, TOO_MANY_OBJECTS, TOO_MANY_NODES, TOO_LATE}
    assert found()["end"] == COMPLETE


def test_a_backward_on_another_thread(space):
    inside, ends = threading.Event(), threading.Event()
    x = torch.ones(3, requires_grad=True)

    def wait(_):
        inside.set()
        ends.wait()

    out = (x * x).sum()
    out.register_hook(wait)
    space.kept = (torch.ones(60, requires_grad=True) * 2).sin()
    thread = threading.Thread(target=out.backward)
    thread.start()
    inside.wait()
    try:
        result = found()
    finally:
        ends.set()
        thread.join()
    assert result["end"] == TOO_MANY_NODES
    assert not any(kind in (GRAD_FN, NODE, SAVED) for _, kind, *_ in result["links"])
    assert found()["end"] == COMPLETE


def test_limits(space):
    assert found(1000)["end"] == TOO_MANY_OBJECTS
    assert found(0, 0, 1)["end"] == TOO_LATE
    space.out = torch.ones(3, requires_grad=True)
    for _ in range(100):
        space.out = space.out * 2
    result = found(0, 10)
    assert (result["end"], result["nodes"]) == (TOO_MANY_NODES, 10)


def test_hostile_objects(space):
    class Module(types.ModuleType):
        pass

    sys.modules["hostile"] = Module.__new__(Module)
    sys.modules["no module"] = Wire(1)
    sys.modules["nothing"] = None
    deep = [torch.ones(70)]
    for _ in range(100_000):
        deep = [deep]
    space.deep = deep
    space.proxy = weakref.proxy(space)
    space.loop = [space]
    space.mock = unittest.mock.MagicMock()
    try:
        result = found()
    finally:
        for name in ("hostile", "no module", "nothing"):
            del sys.modules[name]
        while isinstance(deep, list):
            deep = deep.pop()
    assert result["end"] == COMPLETE
    assert row(result, r"plant\.deep")


# ---- against a slow reference --------------------------------------------------------------------


def word(number):
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


@pytest.mark.parametrize("seed", range(20))
def test_random_heaps(space, seed):
    """Dicts that refer to each other at random: the shortest chains, and the memory of each cut."""
    random_ = random.Random(seed)
    vertices = [{} for _ in range(120)]
    for vertex in vertices:
        for target in random_.sample(range(len(vertices)), random_.randint(0, 2)):
            vertex[word(target)] = vertices[target]
    tensors = {}
    for number in random_.sample(range(len(vertices)), 30):
        vertices[number]["t"] = torch.ones(7)
        tensors[vertices[number]["t"].untyped_storage().data_ptr()] = vertices[number]["t"]
    ids = {id(vertex): vertex for vertex in vertices}
    space.first, space.second = vertices[0], vertices[1]
    lengths, reached = {}, [(vertices[0], 1), (vertices[1], 1)]
    seen = {id(vertices[0]), id(vertices[1])}
    for vertex, length in reached:
        for target in gc.get_referents(vertex):
            if isinstance(target, torch.Tensor):
                address = target.untyped_storage().data_ptr()
                lengths[address] = min(length + 1, lengths.get(address, length + 1))
            elif id(target) in ids and id(target) not in seen:
                seen.add(id(target))
                reached.append((target, length + 1))
    addresses = set(tensors)
    target = vertex = None
    # Keeps the vertices where no root leads.
    del vertices[:], reached[:]
    ids.clear()
    tensors.clear()
    result = found()
    known = {}
    for address, _, link in result["held"]:
        if address in addresses and text_of(result["links"], link).startswith("plant."):
            known[address] = text_of(result["links"], link).count("[") + 1
    assert known == lengths
