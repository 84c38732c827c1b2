"""Programs that use memory in many ways, for the overwrite proof: overwriting memory after its last
recorded use must not change what they return."""

from __future__ import annotations

import copy
import io

import torch
from tests.causes.registry import PROGRAMS, standalone
from tests.causes.training import step_of
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

BEFORE = frozenset(PROGRAMS)


def mlp(width: int = 64, depth: int = 3) -> nn.Sequential:
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*layers, nn.Linear(width, 8))


def trained(model, loss_of, steps: int = 4, optimizer=torch.optim.SGD, **options):
    """Trains, and returns the parameters and the last loss."""
    chosen = optimizer(model.parameters(), lr=1e-2, **options)
    for _ in range(steps):
        loss = loss_of(model, torch.randn(32, 64))
        step_of(chosen, loss)
    return [*model.parameters(), loss]


def square(model, x):
    return model(x).square().mean()


@standalone("uses")
def checkpointed():
    def loss_of(model, x):
        return checkpoint(model, x, use_reentrant=False).square().mean()

    return trained(mlp(), loss_of)


@standalone("uses")
def checkpointed_with_reentrance():
    def loss_of(model, x):
        return checkpoint(model, x.requires_grad_(), use_reentrant=True).square().mean()

    return trained(mlp(), loss_of)


@standalone("uses")
def checkpointed_in_segments():
    def loss_of(model, x):
        return checkpoint_sequential(model, 3, x, use_reentrant=False).square().mean()

    return trained(mlp(), loss_of)


@standalone("uses")
def checkpointed_with_dropout():
    """The recomputation sets the state of the generator."""
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5), nn.Linear(64, 8))

    def loss_of(model, x):
        return checkpoint(model, x, use_reentrant=False, preserve_rng_state=True).square().mean()

    return trained(model, loss_of)


@standalone("uses")
def saved_tensors_packed():
    """Hooks store the saved tensors as half precision."""

    def loss_of(model, x):
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float())
        with hooks:
            return square(model, x)

    return trained(mlp(), loss_of)


@standalone("uses")
def hooks_of_modules_and_tensors():
    model, seen = mlp(), []
    model[0].register_forward_hook(lambda module, args, out: seen.append(out.detach().mean()))
    model[0].register_full_backward_hook(lambda module, into, out: seen.append(out[0].norm()))
    model[2].weight.register_hook(lambda gradient: gradient * 0.5)

    def loss_of(model, x):
        hidden = model[:2](x)
        hidden.register_hook(lambda gradient: gradient.clamp(-1, 1))
        return model[2:](hidden).square().mean()

    return [*trained(model, loss_of), torch.stack([each.detach() for each in seen])]


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        ctx.kept = x * 2
        return x * scale

    @staticmethod
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        return gradient * scale, (gradient * x + 0 * ctx.kept).sum()


@standalone("uses")
def custom_function():
    scale = nn.Parameter(torch.ones(()))

    def loss_of(model, x):
        return Scaled.apply(model(x), scale).square().mean()

    return [*trained(mlp(), loss_of), scale.grad]


@standalone("uses")
def views_and_updates_in_place():
    base = torch.randn(64, 64)
    view = base.t()[8:40].view(32, 64)
    del base
    view.mul_(2).add_(1)
    part = view.narrow(1, 0, 16)
    out = torch.empty(0)
    torch.add(part, 1, out=out)
    grown = torch.arange(8.0)
    grown.resize_(4096).fill_(3)
    swapped = torch.empty(0).set_(grown)
    index = torch.randint(32, (8,))
    view[index] = 0
    view.index_add_(0, index, torch.ones(8, 64))
    return out, swapped, view.unfold(0, 4, 2), view.expand(2, 32, 64)


@standalone("uses")
def optimizers():
    results = []
    for chosen in (torch.optim.Adam, torch.optim.RMSprop, torch.optim.Rprop, torch.optim.Adagrad):
        for foreach in (False, True):
            results += trained(mlp(), square, optimizer=chosen, foreach=foreach)
    results += trained(mlp(), square, optimizer=torch.optim.AdamW, fused=True)
    return results


@standalone("uses")
def lbfgs():
    model, x = mlp(), torch.randn(32, 64)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = square(model, x)
        loss.backward()
        return loss

    for _ in range(4):
        optimizer.step(closure)
    return list(model.parameters())


@standalone("uses")
def autocast_with_clipping():
    def loss_of(model, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = square(model, x)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        return loss

    return trained(mlp(), loss_of)


@standalone("uses")
def gradients_accumulated():
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        for _ in range(3):
            square(model, torch.randn(16, 64)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    return list(model.parameters())


@standalone("uses")
def average_of_weights():
    model = mlp()
    average = copy.deepcopy(model).requires_grad_(False)

    def loss_of(model, x):
        with torch.no_grad():
            torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 0.1)
        return functional.mse_loss(model(x), average(x))

    return [*trained(model, loss_of), *average.parameters()]


@standalone("uses")
def double_backward():
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in range(3):
        x = torch.randn(16, 64, requires_grad=True)
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        step_of(optimizer, (slope.norm(dim=1) - 1).square().mean())
    return list(model.parameters())


@standalone("uses")
def function_transforms():
    model = mlp()
    parameters = {name: each.detach() for name, each in model.named_parameters()}

    def loss(parameters, x):
        return functional_call(model, parameters, (x[None],)).square().mean()

    return vmap(grad(loss), in_dims=(None, 0))(parameters, torch.randn(8, 64))


@standalone("uses")
def recurrent():
    model, head = nn.LSTM(64, 32, num_layers=2, batch_first=True), nn.Linear(32, 1)
    state = None
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()])
    for _ in range(4):
        out, state = model(torch.randn(4, 16, 64), state)
        state = tuple(each.detach() for each in state)
        step_of(optimizer, head(out).square().mean())
    return [*model.parameters(), *state]


@standalone("uses")
def attention_and_normalisation():
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)

    def loss_of(model, x):
        return model(x.view(4, 8, 64)).square().mean()

    return trained(layer, loss_of)


@standalone("uses")
def convolutions_with_statistics():
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten()
    )

    def loss_of(model, x):
        return model(x.view(32, 1, 8, 8)).square().mean()

    return [*trained(model, loss_of), *model.buffers()]


@standalone("uses")
def sparse_tensors():
    matrix = torch.sparse_coo_tensor(torch.randint(64, (2, 200)), torch.randn(200), (64, 64))
    x = torch.randn(64, 8, requires_grad=True)
    for _ in range(3):
        matrix = matrix.coalesce()
        torch.sparse.mm(matrix, x).square().mean().backward()
    table = nn.Embedding(100, 8, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters())
    for _ in range(3):
        step_of(optimizer, table(torch.randint(100, (16,))).square().mean())
    return x.grad, table.weight, matrix.to_dense()


@standalone("uses")
def read_without_an_operator():
    """numpy, lists, printed text and files read memory that no operator uses."""
    array = torch.randn(16).numpy()
    shared = torch.from_numpy(array)
    listed = torch.randn(8)
    text = io.StringIO()
    print(listed, file=text)
    file = io.BytesIO()
    saved = torch.randn(256)
    torch.save(saved, file)
    for _ in range(4):
        trained(mlp(), square, steps=1)
    file.seek(0)
    torch.save(saved, io.BytesIO())
    return float(array.sum()) + sum(listed.tolist()) + float(shared.sum()) + torch.load(file).sum()


@standalone("uses")
def exchanged_by_capsule():
    made = torch.randn(32)
    other = torch.from_dlpack(made)
    for _ in range(2):
        trained(mlp(), square, steps=1)
    return other, made


@standalone("uses")
def state_of_the_generator():
    state = torch.get_rng_state()
    trained(mlp(), square, steps=2)
    torch.set_rng_state(state)
    return torch.randn(8)


@standalone("uses")
def einsum_fft_and_decompositions():
    x = torch.randn(16, 16, 16)
    y = torch.einsum("abc,bcd->ad", x, x)
    spectrum = torch.fft.rfft(x).abs()
    u, s, v = torch.linalg.svd(y)
    return y, spectrum, s, torch.linalg.solve(y + 16 * torch.eye(16), u), v.sort().values


@standalone("uses")
def batches_of_a_loader():
    data = torch.utils.data.TensorDataset(torch.randn(64, 64), torch.randint(8, (64,)))
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        step_of(optimizer, functional.cross_entropy(model(x), y))
    return list(model.parameters())


@standalone("uses")
def exceptions_in_operators():
    x = torch.randn(8, 8)
    for _ in range(3):
        try:
            x @ torch.randn(7, 7)
        except RuntimeError:
            x = x + 1
    return x


@standalone("uses")
def script():
    model = torch.jit.trace(mlp(), torch.randn(2, 64))
    return trained(model, square)


NAMES = [name for name in PROGRAMS if name not in BEFORE]
