"""Which memory each operator uses, what escapes, and which steps are observed."""

import ctypes
import io
import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from watching import Recorder

FORK = 15


@pytest.fixture
def recorder(library):
    recorder = Recorder(library).attach(uses="always")
    recorder.take()
    yield recorder
    recorder.detach()


def storage_word():
    """The offset of the data's address in torch's StorageImpl, found in a storage."""
    storage = torch.empty(100).untyped_storage()
    address = storage.data_ptr()
    for offset in range(0, 128, 8):
        if ctypes.c_uint64.from_address(storage._cdata + offset).value == address:
            return offset
    raise AssertionError("no address in StorageImpl")


WORD = storage_word()


def address_of(tensor):
    """The address of the tensor's memory, without a method that lets it escape."""
    return ctypes.c_uint64.from_address(tensor.untyped_storage()._cdata + WORD).value


def used(events):
    return {address for each in events if each["kind"] == "use" for address in each["addresses"]}


def escaped(events):
    return {each["address"] for each in events if each["kind"] == "escape"}


def uses_of(recorder, action):
    """The addresses that the operators of `action` use, and those that escape in it."""
    recorder.take()
    kept = action()
    events = recorder.take()
    del kept
    return used(events), escaped(events)


READERS = {
    "add": lambda x: x + 1,
    "in place": lambda x: x.add_(1),
    "out": lambda x: torch.mul(torch.ones(8, 8), 2, out=x),
    "list": lambda x: torch.cat([torch.ones(8, 8), x]),
    "optional list": lambda x: torch.ones(8, 8)[:, (x[0] > 0)],
    "item": lambda x: x[0, 0].item(),
    "sum": lambda x: x.sum(),
    "resize": lambda x: x.resize_(200),
    "copies behind a view's schema": lambda x: x.t().contiguous(),
    "reshape that copies": lambda x: x.t().reshape(-1),
    "to another dtype": lambda x: x.to(torch.float64),
    "foreach": lambda x: torch._foreach_add_([torch.ones(8, 8), x], 1.0),
    "many": lambda x: torch._foreach_add([torch.ones(2)] * 150 + [x], 1.0),
    "deep copy": lambda x: __import__("copy").deepcopy(x),
    "from_dlpack": lambda x: torch.from_dlpack(x).sum(),
    "fft": torch.fft.rfft,
    "vmap": torch.func.vmap(lambda row: row.sin().sum()),
    "jagged": lambda x: torch.nested.nested_tensor([x], layout=torch.jagged),
}


@pytest.mark.parametrize("case", READERS)
def test_an_operator_uses_its_arguments(recorder, case):
    x = torch.randn(8, 8)
    address = address_of(x)
    seen, _ = uses_of(recorder, lambda: READERS[case](x))
    assert address in seen


def test_a_view_uses_the_tensor_of_indices_that_it_reads(recorder):
    indices, x = torch.tensor([1, 3]), torch.randn(8, 8)
    addresses = address_of(indices), address_of(x)
    seen, _ = uses_of(recorder, lambda: torch.tensor_split(x, indices))
    assert addresses[0] in seen
    assert addresses[1] not in seen


VIEWS = {
    "view": lambda x: x.view(64),
    "transpose": lambda x: x.t(),
    "detach": lambda x: x.detach(),
    "slice": lambda x: x[1:3, ::2],
    "expand": lambda x: x[None].expand(3, 8, 8),
    "like another": lambda x: (torch.ones(8, 8).view_as(x), torch.ones(8).expand_as(x)),
    "split": lambda x: x.split(2),
    "contiguous already": lambda x: x.contiguous(),
    "empty_like": torch.empty_like,
    "zeros_like": torch.zeros_like,
    "requires_grad": lambda x: x.requires_grad_(),
    "shape": lambda x: (x.shape, x.stride(), x.dtype),
}


@pytest.mark.parametrize("case", VIEWS)
def test_a_view_uses_nothing(recorder, case):
    x = torch.randn(8, 8)
    address = address_of(x)
    seen, lost = uses_of(recorder, lambda: VIEWS[case](x))
    assert address not in seen
    assert not lost


def test_uses_of_an_operator_end_with_it(recorder):
    x = torch.randn(8, 8)
    recorder.take()
    x.matmul(x)
    kinds = [each["kind"] for each in recorder.take()]
    assert kinds.index("use") < kinds.index("alloc") < kinds.index("end_uses")
    assert kinds.count("end_uses") == 1


def test_a_node_uses_what_it_has_saved_until_it_ends(recorder):
    x = torch.randn(8, 8, requires_grad=True)
    y = x.exp()
    address, total = address_of(y), y.sum()
    recorder.take()
    total.backward()
    events = recorder.take()
    node = next(e for e in events if e["kind"] == "use" and address in e["addresses"])
    assert node["outer_op"] == "ExpBackward0"
    after = events[events.index(node) :]
    ends = [e["outer_op"] for e in after if e["kind"] == "end_uses"]
    assert ends[0] == "ExpBackward0"
    assert ends.count("ExpBackward0") == 1


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * gradient


def test_a_function_uses_its_arguments(recorder):
    x = torch.randn(8, 8, requires_grad=True)
    address = address_of(x)
    y = Cube.apply(x)
    assert address in used(recorder.take())
    y.sum().backward()
    assert address in used(recorder.take())


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_uses_its_arguments_again(recorder, reentrant):
    from torch.utils.checkpoint import checkpoint

    net, x = nn.Sequential(nn.Linear(8, 8), nn.Tanh()), torch.randn(2, 8, requires_grad=True)
    y = checkpoint(net, x, use_reentrant=reentrant).sum()
    recorder.take()
    y.backward()
    assert address_of(x) in used(recorder.take())


def test_a_sparse_tensor_uses_its_parts(recorder):
    dense = torch.randn(8, 8)
    coo = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), torch.randn(2), (8, 8))
    csr = torch.eye(8).to_sparse_csr()
    parts = {address_of(each) for each in (coo._indices(), coo._values())}
    rows = {address_of(e) for e in (csr.crow_indices(), csr.col_indices(), csr.values())}
    seen, _ = uses_of(recorder, lambda: (coo @ dense, csr @ dense))
    assert parts | rows <= seen


def test_an_opaque_tensor_uses_its_memory(recorder):
    recorder.take()
    opaque = torch.randn(8, 8).to_mkldnn()
    made = {each["address"] for each in recorder.take() if each["kind"] == "alloc"}
    seen, _ = uses_of(recorder, opaque.to_dense)
    assert made & seen


ESCAPES = {
    "numpy": lambda x: x.numpy(),
    "numpy of a view": lambda x: x.t()[1:].numpy(),
    "array": lambda x: x.__array__(),
    "tolist": lambda x: x.tolist(),
    "print": repr,
    "format": lambda x: f"{x}",
    "data_ptr": lambda x: x.data_ptr(),
    "const_data_ptr": lambda x: x.const_data_ptr(),
    "storage": lambda x: x.untyped_storage().data_ptr(),
    "storage items": lambda x: x.untyped_storage()[3],
    "storage list": lambda x: x.untyped_storage()[:4].tolist(),
    "dlpack": torch.utils.dlpack.to_dlpack,
    "__dlpack__": lambda x: x.__dlpack__(),
    "save": lambda x: torch.save(x, io.BytesIO()),
    "old save": lambda x: torch.save(x, io.BytesIO(), _use_new_zipfile_serialization=False),
    "pickle": lambda x: __import__("pickle").dumps(x),
    "share": lambda x: x.share_memory_(),
}


@pytest.mark.parametrize("case", ESCAPES)
def test_what_python_reads_itself_escapes(recorder, case):
    x = torch.randn(8, 8)
    address = address_of(x)
    _, lost = uses_of(recorder, lambda: ESCAPES[case](x))
    assert address in lost


def save_record(x):
    storage = x.untyped_storage()
    torch._C.PyTorchFileWriter(io.BytesIO()).write_record("x", storage, storage.nbytes())


CALLS = {
    "resize of a storage": lambda x: x.untyped_storage().resize_(4096),
    "apply_": lambda x: x.apply_(lambda value: value + 1),
    "map_": lambda x: torch.ones(8, 8).map_(x, lambda a, b: a + b),
    "_pickle_save": lambda x: torch._C._pickle_save([x]),
    "write_record": save_record,
}


@pytest.mark.parametrize("case", CALLS)
def test_a_call_that_is_no_operator_uses_what_it_reads(recorder, case):
    x = torch.randn(8, 8)
    address = address_of(x)
    recorder.take()
    CALLS[case](x)
    events = recorder.take()
    assert address in used(events)
    assert [e["begin"] for e in events if e["kind"] == "use_region"] == [1, 0]


KEEPERS = {
    "per channel": lambda x: torch.quantize_per_channel(x, *channels(torch.int64), torch.qint8),
    "packed": lambda x: torch.ops.quantized.embedding_bag_prepack(
        torch.quantize_per_channel(x, *channels(torch.float32), torch.quint8)
    ),
}


def channels(dtype):
    """Scales, zero points and the axis."""
    return torch.ones(8), torch.zeros(8, dtype=dtype), 0


@pytest.mark.parametrize("case", KEEPERS)
def test_what_a_quantized_result_keeps_escapes(recorder, case):
    x = torch.randn(8, 8)
    recorder.take()
    kept = KEEPERS[case](x)
    operators = 2 if case == "packed" else 1
    assert sum(each["kind"] == "escape_uses" for each in recorder.take()) == operators
    del kept


def test_a_range_keeps_nothing(recorder):
    recorder.take()
    with torch.autograd.profiler.record_function("range"):
        pass
    assert "escape_uses" not in [each["kind"] for each in recorder.take()]


def test_saved_tensors_are_in_use_until_the_node_ends(recorder):
    class Halve(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x / 2

        @staticmethod
        def backward(ctx, gradient):
            recorder.take()
            address = address_of(ctx.saved_tensors[0])
            assert address in used(recorder.take())
            return gradient

    x = torch.randn(8, requires_grad=True) * 2
    Halve.apply(x).sum().backward()


def test_saved_tensors_escape_outside_the_backward(recorder):
    x = torch.randn(8, requires_grad=True) * 2
    y = Cube.apply(x)
    _, lost = uses_of(recorder, lambda: y.grad_fn.saved_tensors)
    assert address_of(x) in lost


def test_collectives_read_later_unless_they_are_synchronous(recorder):
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        x, y = torch.ones(8), torch.ones(8)
        _, lost = uses_of(recorder, lambda: dist.all_reduce(x, async_op=True).wait())
        assert address_of(x) in lost
        seen, lost = uses_of(recorder, lambda: dist.all_reduce(y))
        assert address_of(y) in seen - lost
    finally:
        dist.destroy_process_group()


def test_a_generators_state_escapes(recorder):
    state = torch.get_rng_state()
    _, lost = uses_of(recorder, lambda: torch.set_rng_state(state))
    assert address_of(state) in lost


def test_results_and_exceptions_stay(recorder):
    x = torch.arange(4.0)
    assert x.tolist() == [0, 1, 2, 3]
    assert x.numpy().sum() == 6
    with pytest.raises(RuntimeError, match="requires grad"):
        x.clone().requires_grad_().numpy()
    with pytest.raises(TypeError):
        x.numpy(1, 2, 3)
    with pytest.raises(TypeError):
        torch._C._to_dlpack()
    assert torch.Tensor.numpy.__name__ == "numpy"
    assert x.untyped_storage()[7] == 63


def test_nothing_is_exchanged_after_detaching(recorder):
    recorder.detach()
    x = torch.randn(4)
    recorder.take()
    x.tolist(), x.numpy(), x.untyped_storage()[0], x.data_ptr(), x + 1
    assert not recorder.take()


@pytest.mark.parametrize(("mode", "uses"), [("full", "never"), ("lite", "always")])
def test_without_uses_nothing_is_reported(library, mode, uses):
    recorder = Recorder(library).attach(mode, uses)
    try:
        recorder.take()
        x = torch.randn(8)
        (x + 1).tolist()
        kinds = {each["kind"] for each in recorder.take()}
        assert not kinds & {"observe_uses", "use", "end_uses", "escape"}
    finally:
        recorder.detach()


def observed_steps(library, uses, count, step):
    """Numbers of the steps, from 1, in which operators report uses."""
    recorder = Recorder(library).attach(uses=uses)
    try:
        found = []
        for number in range(1, count + 1):
            recorder.take()
            step()
            if any(each["kind"] == "use" for each in recorder.take()):
                found.append(number)
        return found
    finally:
        recorder.detach()


def train_step(work=lambda: None):
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step():
        net(torch.ones(2, 4)).sum().backward()
        work()
        optimizer.step()

    return step


def test_sampled_steps_are_the_first_three_and_every_64th(library):
    assert observed_steps(library, "sampled", 130, train_step()) == [1, 2, 3, 64, 128]


def test_auto_observes_all_steps_if_they_are_long(library):
    # The tested decision depends on the clock, so a step waits for far longer than it must.
    import time

    step = train_step(lambda: time.sleep(0.05))
    assert observed_steps(library, "auto", 8, step) == list(range(1, 9))


def test_a_step_in_the_middle_of_spans_is_marked(library):
    recorder = Recorder(library).attach(uses="sampled")
    try:
        step = train_step()
        events = []
        for _ in range(64):
            step()
            events += [e["on"] for e in recorder.take() if e["kind"] == "observe_uses"]
        assert events == [1, 0, 1, 0]
    finally:
        recorder.detach()


def test_a_fork_is_marked(recorder):
    recorder.take()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert [e for e in recorder.take() if e["kind"] == "mark" and e["mark"] == FORK]
    subprocess.run([sys.executable, "-c", ""], check=True)
    assert not [e for e in recorder.take() if e["kind"] == "mark" and e["mark"] == FORK]


@pytest.mark.slow
def test_a_compiled_graph_uses_its_arguments(recorder):
    def loss(a, b):
        return ((a - b).sigmoid() * a.exp()).sum()

    compiled = torch.compile(loss)
    w = torch.randn(8, 16, requires_grad=True)
    for _ in range(2):
        target = torch.randn(8, 16)
        recorder.take()
        value = compiled(w, target)
        assert {address_of(w), address_of(target)} <= used(recorder.take())
        value.backward()
        # The backward reads what the forward has saved: the arguments.
        assert {address_of(w), address_of(target)} <= used(recorder.take())


@pytest.mark.slow
def test_a_compiled_graph_uses_what_it_allocates(recorder):
    compiled = torch.compile(lambda x, w: (torch.relu(x) * 2 + 1, (w @ w).sum() * x))
    x, w = torch.randn(8, 16), torch.randn(16, 16)
    compiled(x, w)
    recorder.take()
    compiled(x, w)
    events = recorder.take()
    regions = [i for i, each in enumerate(events) if each["kind"] == "use_region"]
    allocated = [i for i, each in enumerate(events) if each["kind"] == "alloc"]
    assert regions[0] < allocated[0] < allocated[-1] < regions[-1]


@pytest.mark.slow
def test_an_aotinductor_model_uses_its_arguments(recorder, tmp_path):
    import torch._inductor

    class Scale(nn.Module):
        def forward(self, x):
            return torch.relu(x) * 2

    x = torch.randn(8, 8)
    path = torch._inductor.aoti_compile_and_package(
        torch.export.export(Scale(), (x,)), package_path=str(tmp_path / "scale.pt2")
    )
    model = torch._inductor.aoti_load_package(path)
    seen, _ = uses_of(recorder, lambda: model(x))
    assert address_of(x) in seen


@pytest.mark.slow
def test_saving_a_scripted_module_interrupts_the_observation(recorder):
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = torch.randn(8, 8)

        def forward(self, x):
            return x + self.rows

    scripted = torch.jit.script(Table())
    recorder.take()
    torch.jit.save(scripted, io.BytesIO())
    assert [e["on"] for e in recorder.take() if e["kind"] == "observe_uses"] == [0, 1]


@pytest.mark.slow
def test_a_scripted_function_uses_its_arguments(recorder):
    def gated(x, w):
        y = torch.tanh(x @ w)
        return y * y + torch.sigmoid(y)

    scripted = torch.jit.script(gated)
    x, w = torch.randn(16, 16, requires_grad=True), torch.randn(16, 16)
    for _ in range(4):
        recorder.take()
        scripted(x, w).sum().backward()
        assert {address_of(x), address_of(w)} <= used(recorder.take())
