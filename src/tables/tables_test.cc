#include "tables/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "tests/support/trace_maker.h"

namespace plimsoll::tables {
namespace {

using model::Action;
using testing::ElementsAre;
using tests::TraceMaker;

TracePtr trace_of(TraceMaker& maker) {
  return std::make_shared<const model::Trace>(maker.finish());
}

Table table_of(const TracePtr& trace, std::string_view name) {
  auto table = make_table(name, trace);
  EXPECT_TRUE(table.ok()) << (table.ok() ? "" : table.error().message);
  return table.ok() ? std::move(table).value() : Table{};
}

std::size_t place(const Table& table, std::string_view name) {
  const auto found = std::ranges::find(table.fields, name, &Field::name);
  EXPECT_NE(found, table.fields.end()) << name;
  return static_cast<std::size_t>(found - table.fields.begin());
}

bool has(const Table& table, std::string_view name) {
  return std::ranges::count(table.fields, name, &Field::name) == 1;
}

const Column& column(const Table& table, std::string_view name, std::size_t batch = 0) {
  return table.batches[batch].columns[place(table, name)];
}

std::uint64_t number(const Field& field, const Column& column, std::size_t row) {
  switch (field.type) {
    case ColumnType::kBool:
      return static_cast<const std::uint8_t*>(column.values)[row / 8] >> row % 8 & 1u;
    case ColumnType::kUint8:
      return static_cast<const std::uint8_t*>(column.values)[row];
    case ColumnType::kUint32:
      return static_cast<const std::uint32_t*>(column.values)[row];
    case ColumnType::kUint64:
    case ColumnType::kInt64:
    case ColumnType::kUint32List:
      break;
  }
  return static_cast<const std::uint64_t*>(column.values)[row];
}

// The column as text, over all batches: "null", numbers, or entries of its dictionary.
std::vector<std::string> shown(const Table& table, std::string_view name) {
  const Field& field = table.fields[place(table, name)];
  std::vector<std::string> texts;
  for (const Batch& batch : table.batches) {
    const Column& cells = batch.columns[place(table, name)];
    for (std::size_t row = 0; row < batch.rows; ++row) {
      if (cells.validity != nullptr && (cells.validity[row / 8] >> row % 8 & 1) == 0) {
        texts.emplace_back("null");
        continue;
      }
      const std::uint64_t value = number(field, cells, row);
      texts.push_back(field.dictionary ? std::string((*field.dictionary)[value])
                                       : std::to_string(value));
    }
  }
  return texts;
}

TEST(tables, columns_of_the_model_are_borrowed) {
  TraceMaker maker;
  maker.alloc(0x100, 10).free(0x100, 10).alloc(0x200, 20);
  const TracePtr trace = trace_of(maker);
  const model::Events& events = trace->devices[0].events;

  const Table table = table_of(trace, "events");
  EXPECT_EQ(column(table, "action").values, events.action.data());
  EXPECT_EQ(column(table, "address").values, events.address.data());
  EXPECT_EQ(column(table, "size_bytes").values, events.size_bytes.data());
  EXPECT_EQ(column(table, "time_ns").values, events.time_ns.data());

  const model::Lifetimes& lifetimes = trace->devices[0].lifetimes;
  const Table rows = table_of(trace, "lifetimes");
  EXPECT_EQ(column(rows, "alloc_event").values, lifetimes.alloc.data());
  EXPECT_EQ(column(rows, "free_requested_event").values, lifetimes.free_requested.data());
  EXPECT_EQ(column(rows, "free_completed_event").values, lifetimes.free_completed.data());

  const Table stacks = table_of(trace, "stacks");
  EXPECT_EQ(column(stacks, "frames").values, trace->stacks.all_frame_ids().data());
  EXPECT_EQ(column(stacks, "frames").offsets, trace->stacks.starts().data());
}

TEST(tables, a_table_keeps_the_recording_alive) {
  TraceMaker maker;
  maker.alloc(0x100, 10);
  TracePtr trace = trace_of(maker);
  const std::weak_ptr<const model::Trace> watch = trace;
  {
    const Table table = table_of(trace, "events");
    trace.reset();
    EXPECT_FALSE(watch.expired());
    EXPECT_THAT(shown(table, "address"), ElementsAre("256"));
  }
  EXPECT_TRUE(watch.expired());
}

TEST(tables, events_are_numbered_on_their_device) {
  TraceMaker maker;
  maker.on({model::DeviceType::kCuda, 0}).alloc(0x100, 10).free(0x100, 10);
  maker.on({model::DeviceType::kCuda, 1});  // has a name but no events
  maker.on({model::DeviceType::kCuda, 2}).alloc(0x100, 30).alloc(0x200, 40);
  const Table table = table_of(trace_of(maker), "events");

  EXPECT_THAT(shown(table, "device"),
              ElementsAre("cuda:0", "cuda:0", "cuda:0", "cuda:2", "cuda:2"));
  EXPECT_THAT(shown(table, "event"), ElementsAre("0", "1", "2", "0", "1"));
  EXPECT_THAT(shown(table, "action"),
              ElementsAre("alloc", "free_requested", "free_completed", "alloc", "alloc"));
  EXPECT_THAT(shown(table, "stream"), ElementsAre("0", "0", "0", "0", "0"));
}

TEST(tables, a_bitmap_is_built_only_if_a_row_is_null) {
  TraceMaker timed;
  timed.alloc(0x100, 10);
  EXPECT_EQ(column(table_of(trace_of(timed), "events"), "time_ns").validity, nullptr);

  TraceMaker untimed;
  untimed.without_times().alloc(0x100, 10);
  const Table table = table_of(trace_of(untimed), "events");
  EXPECT_EQ(column(table, "time_ns").null_count, 1u);
  EXPECT_THAT(shown(table, "time_ns"), ElementsAre("null"));
}

TEST(tables, optional_columns_are_present_if_the_file_has_them) {
  TraceMaker plain;
  plain.alloc(0x100, 10);
  EXPECT_FALSE(has(table_of(trace_of(plain), "events"), "category"));

  TraceMaker maker;
  maker.string("not used in this column");
  model::Event event;
  event.action = Action::kAlloc;
  event.address = 0x100;
  maker.event(event);
  event.category = maker.string("gradient");
  maker.event(event);
  event.category = maker.string(
      "gr\xFC"
      "n");  // Latin-1
  maker.event(event).alloc(0x200, 2);
  const Table table = table_of(trace_of(maker), "events");
  EXPECT_THAT(shown(table, "category"), ElementsAre("null", "gradient", "gr\xEF\xBF\xBDn", "null"));
  EXPECT_LE(table.fields[place(table, "category")].dictionary->size(), 3u);
}

TEST(tables, lifetimes_have_the_last_uses_if_they_are_recorded) {
  tests::TraceMaker maker;
  maker.alloc_reported(1, 10, {.use = {.unused_from = 2, .silence = 7, .gap = 4}}).alloc(2, 10);
  const Table table = table_of(trace_of(maker), "lifetimes");
  const auto* const unused_from =
      static_cast<const std::uint32_t*>(column(table, "unused_from_event").values);
  EXPECT_EQ(unused_from[0], 2u);
  const auto* const gaps =
      static_cast<const std::uint64_t*>(column(table, "longest_gap_allocations").values);
  EXPECT_EQ(gaps[0], 8u);
}

TEST(tables, lifetimes_have_one_batch_per_device_and_nulls_for_absent_events) {
  TraceMaker maker;
  maker.on({model::DeviceType::kCuda, 0}).free(0x300, 30).alloc(0x100, 10).free(0x100, 10);
  maker.on({model::DeviceType::kCuda, 1}).event(Action::kFreeCompleted, 0x400, 40);
  maker.alloc(0x500, 50);
  const Table table = table_of(trace_of(maker), "lifetimes");

  EXPECT_EQ(table.batches.size(), 2u);
  EXPECT_THAT(shown(table, "device"), ElementsAre("cuda:0", "cuda:0", "cuda:1", "cuda:1"));
  EXPECT_THAT(shown(table, "alloc_event"), ElementsAre("null", "2", "null", "1"));
  EXPECT_THAT(shown(table, "free_requested_event"), ElementsAre("0", "3", "null", "null"));
  EXPECT_THAT(shown(table, "free_completed_event"), ElementsAre("1", "4", "0", "null"));
  EXPECT_THAT(shown(table, "is_pending_at_start"), ElementsAre("0", "0", "1", "0"));
  EXPECT_THAT(shown(table, "size_bytes"), ElementsAre("30", "10", "40", "50"));
}

TEST(tables, segments_and_blocks_refer_to_each_other) {
  TraceMaker maker;
  maker.on({model::DeviceType::kCuda, 0});
  maker.segment(0x1000, 4096,
                {TraceMaker::block(0x1000, 512, 500),
                 TraceMaker::block(0x1200, 3584, 7, model::BlockState::kInactive)});
  maker.on({model::DeviceType::kCuda, 1});
  maker.segment(0x9000, 512, {TraceMaker::block(0x9000, 512, 512)});
  const TracePtr trace = trace_of(maker);

  const Table segments = table_of(trace, "segments");
  EXPECT_THAT(shown(segments, "device"), ElementsAre("cuda:0", "cuda:1"));
  EXPECT_THAT(shown(segments, "size_bytes"), ElementsAre("4096", "512"));
  EXPECT_THAT(shown(segments, "block_count"), ElementsAre("2", "1"));

  const Table blocks = table_of(trace, "blocks");
  EXPECT_THAT(shown(blocks, "segment"), ElementsAre("0", "0", "1"));
  EXPECT_THAT(shown(blocks, "requested_bytes"), ElementsAre("500", "null", "512"));
  EXPECT_THAT(shown(blocks, "state"),
              ElementsAre("active_allocated", "inactive", "active_allocated"));
}

TEST(tables, stacks_are_lists_of_frames) {
  TraceMaker maker;
  const model::StackId stack = maker.stack({{"ops.py", 3, "add"}, {"train.py", 7, "main"}});
  maker.alloc(0x100, 10, stack);
  const TracePtr trace = trace_of(maker);

  const Table frames = table_of(trace, "frames");
  EXPECT_THAT(shown(frames, "file"), ElementsAre("ops.py", "train.py"));
  EXPECT_THAT(shown(frames, "function"), ElementsAre("add", "main"));
  EXPECT_THAT(shown(frames, "line"), ElementsAre("3", "7"));

  const Table stacks = table_of(trace, "stacks");
  EXPECT_THAT(shown(table_of(trace, "events"), "stack"), ElementsAre(std::to_string(stack.value)));
  const Column& list = column(stacks, "frames");
  EXPECT_EQ(list.null_count, 1u);  // stack 0: none was recorded
  EXPECT_THAT(std::span(list.offsets, stacks.rows() + 1), ElementsAre(0, 0, 0, 2));
}

TEST(tables, every_table_of_an_empty_trace_has_columns_and_no_rows) {
  TraceMaker maker;
  const TracePtr trace = trace_of(maker);
  for (const TableKind& kind : table_kinds()) {
    const Table table = table_of(trace, kind.name);
    EXPECT_FALSE(table.fields.empty()) << kind.name;
    EXPECT_FALSE(table.batches.empty()) << kind.name;
    const bool has_row_0 = kind.name == "sites" || kind.name == "tensors";
    EXPECT_EQ(table.rows(), kind.name == "stacks" ? 2u : has_row_0 ? 1u : 0u) << kind.name;
  }
}

TEST(tables, an_unknown_table_is_rejected_with_the_valid_names) {
  TraceMaker maker;
  const auto table = make_table("rows", trace_of(maker));
  ASSERT_FALSE(table.ok());
  EXPECT_THAT(table.error().message, testing::HasSubstr("events, lifetimes, segments"));
}

}  // namespace
}  // namespace plimsoll::tables
