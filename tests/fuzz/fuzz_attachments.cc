// Attaches arbitrary bytes to a recording as torch's own allocator history, and reads the
// recording, which must stay readable.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "accepted.h"
#include "base/check.h"
#include "base/progress.h"
#include "engine/load.h"
#include "format/encoder.h"
#include "plimsoll/recorder_c.h"

namespace {

class File final : public plimsoll::format::BlockOutput {
 public:
  File() : bytes(plimsoll::format::kPreludeBytes) {
    plimsoll::format::Encoder::prelude(bytes.data());
  }
  void write(const plimsoll::format::FinishedBlock& block) noexcept override {
    bytes.insert(bytes.end(), block.bytes.begin(), block.bytes.end());
  }
  std::vector<std::byte> bytes;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plimsoll;
  File file;
  format::Encoder encoder(file);
  encoder.define_device(1, {.type = PLIMSOLL_DEVICE_CUDA, .ordinal = 0});
  encoder.define_name(1, "aten::mm");
  encoder.define_site(1, {.device = 1});
  encoder.mark({1'500, 1, PLIMSOLL_MARK_OPERATOR, 1});
  encoder.alloc({2'000, 1, 1, 0, 139637976727552, 1000, false});
  encoder.mark({3'500, 1, PLIMSOLL_MARK_OPERATOR, 0});
  encoder.mark({4'000, 1, PLIMSOLL_MARK_STEP, 1});
  encoder.attachment("torch_snapshot", {reinterpret_cast<const std::byte*>(data), size});
  encoder.finish(10'000);
  base::Progress progress;
  const auto loaded = engine::load(file.bytes, "fuzzed", progress);
  PLIMSOLL_CHECK(loaded.ok());
  const bool is_read = std::ranges::none_of(loaded->diagnostics.all(), [](const auto& each) {
    return std::string_view(each.kind->name) == "attachment_unreadable";
  });
  if (is_read) plimsoll::fuzz::accept();
  for (const auto& device : loaded->trace.devices) {
    PLIMSOLL_CHECK(device.mark_events.size() == 1);
  }
  return 0;
}
