"""The columns of a trace, as other libraries read them through the Arrow PyCapsule interface."""

import gc
import sqlite3
import weakref
from contextlib import closing

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch

import plimsoll

FACTS = ["events", "lifetimes", "segments", "blocks", "marks", "timeline"]
DIMENSIONS = ["sites", "stacks", "frames", "tensors", "steps", "settings", "readings"]
NAMES = FACTS + DIMENSIONS
BORROWED = {
    "events": ["action", "address", "size_bytes", "time_ns", "stack"],
    "lifetimes": ["alloc_event", "free_requested_event", "free_completed_event", "block"],
    "stacks": ["frames"],
}


@pytest.fixture(scope="module")
def trace(generated):
    return plimsoll.open(generated["planted-2.11"])


def table(trace, name):
    return pa.table(getattr(trace, name))


def values_of(chunk):
    if pa.types.is_dictionary(chunk.type):
        chunk = chunk.indices
    return chunk.buffers()[-1].address


@pytest.mark.parametrize("name", NAMES)
def test_pyarrow_reads_every_table(trace, name):
    ours = getattr(trace, name)
    read = pa.table(ours)
    read.validate(full=True)
    assert read.column_names == list(ours.columns)
    assert read.num_rows == len(ours)
    assert len(ours) > 0 or name in ("marks", "steps", "readings")  # a snapshot has none
    assert pa.schema(ours) == read.schema


def test_events_join_their_sites(trace):
    events, sites = table(trace, "events"), table(trace, "sites")
    joined = events.join(sites, "site", right_suffix="_of_site")
    assert joined.num_rows == events.num_rows
    assert joined["stack"].to_pylist() == joined["stack_of_site"].to_pylist()
    assert joined["stream"].to_pylist() == joined["stream_of_site"].to_pylist()
    assert sites.num_rows < events.num_rows


def test_lifetimes_name_rows_of_tensors(trace):
    tensors = table(trace, "tensors")
    assert pc.max(table(trace, "lifetimes")["tensor_row"]).as_py() < tensors.num_rows


@pytest.mark.parametrize("name", NAMES)
def test_polars_reads_the_same(trace, name):
    read = pl.DataFrame(getattr(trace, name))
    same = pl.from_arrow(table(trace, name))
    assert read.equals(same)
    assert read.to_dicts() == table(trace, name).to_pylist()


@pytest.mark.parametrize(
    ("name", "column"), [(name, column) for name in BORROWED for column in BORROWED[name]]
)
def test_columns_are_not_copied(trace, name, column):
    ours = getattr(trace, name)
    addresses = ours._addresses(column)
    assert [values_of(chunk) for chunk in pa.table(ours)[column].chunks] == addresses
    assert [values_of(chunk) for chunk in pa.table(ours)[column].chunks] == addresses


def test_columns_outlive_the_trace(generated):
    trace = plimsoll.open(generated["training"])
    expected = table(trace, "events")["size_bytes"].to_pylist()
    events = pa.table(trace.events)
    watch = weakref.ref(trace)
    del trace
    gc.collect()
    assert watch() is None
    assert events["size_bytes"].to_pylist() == expected


def test_unused_capsules_are_released(trace):
    for _ in range(3):
        trace.events.__arrow_c_stream__()
        trace.events.__arrow_c_schema__()
    gc.collect()
    assert len(trace.events) == len(pa.table(trace.events))


def test_totals_of_the_report_follow_from_the_columns(trace):
    totals = trace.devices[0]["requested_allocated"]
    change = 0
    held = totals["baseline_bytes"]
    peak = held
    events = table(trace, "events")
    for action, size in zip(
        events["action"].to_pylist(), events["size_bytes"].to_pylist(), strict=True
    ):
        change = {"alloc": size, "free_requested": -size}.get(action, 0)
        held += change
        peak = max(peak, held)
    assert (peak, held) == (totals["peak_bytes"], totals["end_bytes"])


def test_live_lifetimes_are_the_end(trace):
    rows = pl.DataFrame(trace.lifetimes)
    live = rows.filter(
        pl.col("free_requested_event").is_null()
        & pl.col("free_completed_event").is_null()
        & ~pl.col("is_pending_at_start")
    )
    end = trace.devices[0]["requested_allocated"]["end_bytes"]
    assert live["size_bytes"].sum() == end


def test_tables_join(trace):
    events = pl.DataFrame(trace.events).select("stack", "action", "size_bytes")
    stacks = pl.DataFrame(trace.stacks).explode("frames")
    frames = pl.DataFrame(trace.frames)
    lines = (
        events.filter(pl.col("action") == "alloc")
        .join(stacks, on="stack")
        .join(frames, left_on="frames", right_on="frame")
    )
    assert lines.height > 0
    assert lines.filter(pl.col("file").cast(pl.String).str.ends_with(".py")).height > 0


def test_stacks_have_the_line_that_reports_show(trace):
    lines = {row["line"] for row in trace.stacks}
    assert {row["key"] for row in trace.ask(top=1000).tables["by_line"]} <= lines


def test_sql_rebuilds_the_table_of_layers(tmp_path):
    path = tmp_path / "train.plim"
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8), torch.nn.BatchNorm1d(8)
    )
    optimizer = torch.optim.Adam(model.parameters())
    with plimsoll.record(str(path)):
        for _ in range(3):
            model(torch.randn(32, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    trace = plimsoll.open(str(path))
    tables = trace.ask(device="cpu").tables
    layers = {
        row["layer"]: (row["own"]["bytes"], row["own"]["count"])
        for row in tables["layers"]
        if row["own"]["count"] > 0
    }
    assert layers["Sequential.0"][0] >= 3 * (64 * 128 + 128) * 4  # with Adam's state
    (point,) = tables["points_in_time"]
    with closing(sqlite3.connect(":memory:")) as database:
        pd.DataFrame(pl.DataFrame(trace.lifetimes).to_pandas()).to_sql("lifetimes", database)
        rows = database.execute(
            """
            SELECT coalesce(layer, ''), sum(size_bytes), count(*) FROM lifetimes
            WHERE coalesce(alloc_event, -1) <= :event AND NOT is_pending_at_start
              AND coalesce(free_requested_event, 1 << 40) > :event
            GROUP BY layer
            """,
            {"event": point["event"]},
        ).fetchall()
    assert {layer: (size, count) for layer, size, count in rows} == layers
    # Events have the same layers.
    allocated = pl.DataFrame(trace.events).filter(pl.col("action") == "alloc")
    born = pl.DataFrame(trace.lifetimes).filter(pl.col("alloc_event").is_not_null())
    both = allocated.join(born, left_on="event", right_on="alloc_event")
    assert both["layer"].to_list() == both["layer_right"].to_list()


class Experts(torch.nn.Module):
    """A mixture of experts that also returns what its gate computed."""

    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(16, 4)
        self.experts = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
            for _ in range(4)
        )

    def forward(self, x):
        logits = self.gate(x)
        weights, chosen = logits.softmax(-1).topk(2)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, place = torch.where(chosen == number)
            result = result.index_add(0, rows, expert(x[rows]) * weights[rows, place, None])
        return result, logits


def test_what_backward_keeps_is_what_hooks_of_saved_tensors_see(tmp_path):
    model, x = Experts(), torch.randn(128, 16)
    own = {each.untyped_storage().data_ptr() for each in [x, *model.parameters()]}
    saved = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = (storage.nbytes(), tensor.detach())
        return tensor.detach()  # the graph must not retain itself

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(x)[0].square().mean()
    count, size = len(saved), sum(size for size, _ in saved.values())
    saved.clear()
    del loss
    path = tmp_path / "experts.plim"
    with plimsoll.record(str(path)):
        for _ in range(2):
            result, logits = model(x)
            loss = result.square().mean()
            loss.backward()
    (kept,) = plimsoll.open(str(path)).ask(device="cpu").tables["saved"]
    assert (kept["count"], kept["bytes"]) == (count, size)
    assert logits.untyped_storage().nbytes() == 2048


def test_what_operators_return_has_a_shape(tmp_path):
    path = tmp_path / "attention.plim"
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    with plimsoll.record(str(path)):
        for _ in range(2):
            x = layer(torch.randn(4, 32, 64))
            (x.sin() * x.cos()).sum().backward()
    rows = plimsoll.open(str(path)).ask(device="cpu", top=1000).tables["by_tensor"]
    unknown = sum(row["bytes"] for row in rows if row["key"] == "[unknown]")
    assert unknown <= 0.02 * sum(row["bytes"] for row in rows)
    assert any("float32 [4, 32, 64]" in row["key"] for row in rows)


def test_blocks_fill_their_segments(trace):
    blocks = table(trace, "blocks").group_by("segment").aggregate([("size_bytes", "sum")])
    sums = dict(
        zip(blocks["segment"].to_pylist(), blocks["size_bytes_sum"].to_pylist(), strict=True)
    )
    sizes = table(trace, "segments")["size_bytes"].to_pylist()
    assert [sums[row] for row in range(len(sizes))] == sizes


def test_a_recording_without_events_has_empty_tables(generated):
    trace = plimsoll.open(generated["empty"])
    assert len(trace.events) == 0
    assert table(trace, "events").num_rows == 0
    assert pl.DataFrame(trace.events).height == 0


def test_sums_in_arrow(trace):
    events = table(trace, "events")
    allocs = events.filter(pc.equal(events["action"].cast(pa.string()), "alloc"))
    assert allocs.num_rows > 0


def test_repr_names_the_columns(trace):
    assert repr(trace.frames).startswith("<plimsoll.Table 'frames': ")
    assert "file, function, line" in repr(trace.frames)


def test_values_come_as_pythons_own_objects_too(generated):
    trace = plimsoll.open(generated["planted-2.11"])
    for table in (trace.events, trace.lifetimes, trace.segments, trace.stacks, trace.frames):
        assert table.to_pydict() == pa.table(table).to_pydict()


def test_rows_come_as_dicts(trace):
    rows = list(trace.frames)
    assert rows == pa.table(trace.frames).to_pylist()


def test_tables_become_data_frames(trace):
    for table in (trace.events, trace.frames):
        frame = table.to_pandas()
        assert list(frame.columns) == list(table.columns)
        assert len(frame) == len(table)
        assert pd.DataFrame(table).equals(frame)


def test_a_summary_has_at_least_one_row(tmp_path):
    with plimsoll.record(tmp_path / "run.plim", adapter="none") as recording:
        pass
    for top in (0, -1):
        with pytest.raises(plimsoll.InvalidArgumentError, match=r"top=.*positive"):
            recording.report().summary(top=top)
