// The tables `segments` and `blocks`: the allocator's final state. Empty if the file has none.

#include <string>
#include <vector>

#include "tables/table_builder.h"
#include "tables/tables.h"

namespace plimsoll::tables {
namespace {

std::shared_ptr<const Dictionary> dictionary_of(std::initializer_list<std::string_view> words) {
  auto dictionary = std::make_shared<Dictionary>();
  for (std::string_view word : words) TableBuilder::append(*dictionary, word);
  return dictionary;
}

// For each segment, the row of its device in Trace::devices.
std::vector<std::size_t> devices_of_segments(const model::Trace& trace) {
  std::vector<std::size_t> numbers(trace.segments.size());
  for (std::size_t number = 0; number < trace.devices.size(); ++number) {
    const model::DeviceTrace& device = trace.devices[number];
    for (std::size_t i = 0; i < device.segment_count; ++i) {
      numbers[device.first_segment + i] = number;
    }
  }
  return numbers;
}

std::vector<std::uint32_t> segments_of_blocks(const model::Trace& trace) {
  std::vector<std::uint32_t> rows(trace.blocks.size(), model::kNone);
  for (std::size_t segment = 0; segment < trace.segments.size(); ++segment) {
    const model::Segment& holder = trace.segments[segment];
    for (std::size_t i = 0; i < holder.block_count; ++i) {
      rows[holder.first_block + i] = static_cast<std::uint32_t>(segment);
    }
  }
  return rows;
}

void add_sizes(TableBuilder& table, const model::Segment* rows) {
  const auto add = [&](const char* name, const char* description,
                       std::uint64_t model::Segment::* member) {
    table.add(name, description,
              table.compute<std::uint64_t>([&](std::size_t row) { return rows[row].*member; }));
  };
  add("address", "address of the first byte", &model::Segment::address);
  add("size_bytes", "bytes reserved from the driver", &model::Segment::total_size);
  add("allocated_bytes", "bytes of its allocated blocks", &model::Segment::allocated_size);
  add("active_bytes", "bytes of its allocated and pending blocks", &model::Segment::active_size);
  add("requested_bytes", "requested bytes in its allocated blocks",
      &model::Segment::requested_size);
}

}  // namespace

Table segment_table(const TracePtr& recording) {
  TableBuilder table("segments", recording);
  const model::Trace& trace = table.trace();
  const model::Segment* const rows = trace.segments.data();
  const std::vector<std::size_t> devices = devices_of_segments(trace);
  table.begin_batch(trace.segments.size());
  table.add("device", "name of the device, such as cuda:0",
            table.devices([&](std::size_t row) { return devices[row]; }));
  add_sizes(table, rows);
  table.add("stream", "handle of the stream, 0 for the default",
            table.compute<std::uint64_t>(
                [&](std::size_t row) { return trace.streams[rows[row].stream.index()]; }));
  BatchColumn types =
      table.compute<model::SegmentType>([&](std::size_t row) { return rows[row].type; });
  types.dictionary = dictionary_of({"unknown", "small", "large"});
  table.add("type", "type of the segment: small, large or unknown", std::move(types));
  table.add("is_expandable", "true for an expandable segment",
            table.flags([&](std::size_t row) { return rows[row].is_expandable; }));
  table.add("stack", "row of the table stacks",
            table.compute<model::StackId>([&](std::size_t row) { return rows[row].stack; }));
  table.add("first_block", "row of its first block in the table blocks",
            table.compute<std::uint32_t>([&](std::size_t row) { return rows[row].first_block; }));
  table.add("block_count", "number of its blocks",
            table.compute<std::uint32_t>([&](std::size_t row) { return rows[row].block_count; }));
  return table.finish();
}

Table block_table(const TracePtr& recording) {
  TableBuilder table("blocks", recording);
  const model::Trace& trace = table.trace();
  const model::Block* const rows = trace.blocks.data();
  const std::vector<std::uint32_t> segments = segments_of_blocks(trace);
  const auto has_no_segment = [&](std::size_t row) { return segments[row] == model::kNone; };
  table.begin_batch(trace.blocks.size());
  table.add("segment", "row of the table segments",
            table.with_nulls(table.compute<std::uint32_t>([&](auto row) { return segments[row]; }),
                             has_no_segment));
  table.add("address", "address of the first byte",
            table.compute<std::uint64_t>([&](std::size_t row) { return rows[row].address; }));
  table.add("size_bytes", "size of the block, after rounding",
            table.compute<std::uint64_t>([&](std::size_t row) { return rows[row].size; }));
  BatchColumn asked =
      table.compute<std::uint64_t>([&](auto row) { return rows[row].requested_size; });
  table.add("requested_bytes", "bytes that the program requested; null when inactive",
            table.with_nulls(std::move(asked), [&](std::size_t row) {
              return rows[row].state == model::BlockState::kInactive;
            }));
  BatchColumn states =
      table.compute<model::BlockState>([&](std::size_t row) { return rows[row].state; });
  states.dictionary = dictionary_of({"inactive", "active_allocated", "active_pending_free"});
  table.add("state", "as in PyTorch's snapshots", std::move(states));
  table.add("stack", "row of the table stacks",
            table.compute<model::StackId>([&](std::size_t row) { return rows[row].stack; }));
  return table.finish();
}

}  // namespace plimsoll::tables
