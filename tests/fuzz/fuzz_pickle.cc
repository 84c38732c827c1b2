// Runs the pickle machine alone, with a record maker that recognizes nothing. No input may crash
// it, hang it or make it exceed its memory limit. The window is minimal, so that every opcode
// crosses its edge.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "accepted.h"
#include "base/check.h"
#include "readers/byte_source.h"
#include "readers/torch_snapshot/pickle_machine.h"

namespace {

using namespace plimsoll;
using namespace plimsoll::readers::torch_snapshot;

class NoRecords final : public RecordMaker {
 public:
  Value from_dict(std::span<const Value>, PickleArena&) override {
    return {Tag::kFreshDict, kNoMemo, 0};
  }
  Value from_list(std::span<const Value>, PickleArena&) override {
    return {Tag::kFreshList, kNoMemo, 0};
  }
  bool extend(Value&, std::span<const Value>, PickleArena&) override { return false; }
  Items to_items(const Value&, const PickleArena&) const override { return {}; }
  std::uint64_t memory_bytes() const override { return 0; }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto source = readers::view_memory(std::as_bytes(std::span(data, size)));
  PickleInput input(*source, 64);
  model::StringTable strings;
  PickleArena arena;
  NoRecords records;
  base::Progress progress;
  PickleMachine machine(input, strings, arena, records, progress,
                        MachineLimits{.memory_bytes = std::uint64_t{64} << 20});
  const auto result = machine.run();
  if (result.ok()) {
    plimsoll::fuzz::accept();
  } else {
    PLIMSOLL_CHECK(!result.error().message.empty());
  }
  return 0;
}
