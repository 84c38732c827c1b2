// Reads a whole snapshot: HTML or pickle, schema walk, builder, lifetimes, categories. The result
// must satisfy the invariants of the model.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "accepted.h"
#include "attribution/inferred_roles.h"
#include "base/check.h"
#include "model/live_set.h"
#include "model/user_line.h"
#include "readers/byte_source.h"
#include "readers/torch_snapshot/torch_snapshot_reader.h"

namespace {

using namespace plimsoll;

// Checks that every referenced row exists and that lifetimes are in order.
void check_promises(const model::Trace& trace) {
  for (const model::DeviceTrace& device : trace.devices) {
    for (const model::SiteId site : device.events.site) {
      PLIMSOLL_CHECK(site.index() < trace.sites.size());
    }
    PLIMSOLL_CHECK(device.first_segment + device.segment_count <= trace.segments.size());
    const model::Lifetimes& lifetimes = device.lifetimes;
    PLIMSOLL_CHECK(lifetimes.baseline_count <= lifetimes.size());
    for (std::size_t row = 0; row < lifetimes.size(); ++row) {
      PLIMSOLL_CHECK((lifetimes.alloc[row] == model::kNone) == (row < lifetimes.baseline_count));
      PLIMSOLL_CHECK(trace.stack(device, row).index() < trace.stacks.stack_count());
      PLIMSOLL_CHECK(trace.stream(device, row).index() < trace.streams.size());
      static_cast<void>(trace.address(device, row));
      if (lifetimes.free_completed[row] != model::kNone) {
        PLIMSOLL_CHECK(lifetimes.free_completed[row] < device.events.size());
      }
    }
    const auto live = model::live_set(device, model::Liveness::kActive, model::kBeforeFirst);
    PLIMSOLL_CHECK(live.size() <= lifetimes.baseline_count);
  }
  for (const model::Segment& segment : trace.segments) {
    PLIMSOLL_CHECK(segment.first_block + segment.block_count <= trace.blocks.size());
  }
  const model::UserLines lines(trace);
  for (std::uint32_t stack = 0; stack < trace.stacks.stack_count(); ++stack) {
    PLIMSOLL_CHECK(!lines.label(model::StackId{stack}).empty());
  }
}

// Checks that either all allocations have a category, or none.
void check_categories(const model::Trace& trace) {
  if (!trace.has_inferred_roles) return;
  for (const model::DeviceTrace& device : trace.devices) {
    for (std::size_t row = 0; row < device.lifetimes.size() && device.events.size() > 0; ++row) {
      PLIMSOLL_CHECK(trace.category(device, row) != model::StringId{});
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto source = readers::view_memory(std::as_bytes(std::span(data, size)), 61);
  base::Diagnostics diagnostics;
  base::Progress progress;
  model::TraceBuilder builder(diagnostics);
  readers::ReadContext context{builder, diagnostics, progress,
                               readers::Limits{std::uint64_t{64} << 20}};
  if (!readers::torch_snapshot::make()->read(*source, context)) return 0;
  auto trace = builder.finish("torch_snapshot", progress);
  if (!trace.ok()) return 0;
  check_promises(*trace);
  attribution::infer_roles(*trace);
  check_categories(*trace);
  fuzz::accept();
  return 0;
}
