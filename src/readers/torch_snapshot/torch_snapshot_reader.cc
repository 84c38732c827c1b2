#include "readers/torch_snapshot/torch_snapshot_reader.h"

#include <algorithm>
#include <string_view>

#include "readers/torch_snapshot/html_source.h"
#include "readers/torch_snapshot/pickle_machine.h"
#include "readers/torch_snapshot/snapshot_records.h"
#include "readers/torch_snapshot/snapshot_walk.h"

namespace plimsoll::readers::torch_snapshot {
namespace {

std::string_view text_of(std::span<const std::byte> head) {
  return {reinterpret_cast<const char*>(head.data()), head.size()};
}

bool is_html(std::string_view head) {
  const std::size_t start = head.find_first_not_of(" \t\r\n");
  return start != head.npos && head[start] == '<';
}

bool is_pickle(std::string_view head) {
  return head.size() >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
}

class TorchSnapshotReader final : public Reader {
 public:
  const char* name() const override { return "torch_snapshot"; }

  Confidence sniff(std::span<const std::byte> head) const override {
    const std::string_view text = text_of(head);
    if (is_pickle(text)) return Confidence::kCertain;
    if (is_html(text)) {
      return text.find("base64") != text.npos ? Confidence::kCertain : Confidence::kMaybe;
    }
    // A pickle of an unsupported protocol gets its own message rather than "unknown format".
    return !text.empty() && text[0] == '\x80' ? Confidence::kMaybe : Confidence::kNo;
  }

  Status read(ByteSource& source, ReadContext& context) const override {
    std::vector<std::byte> head(64);
    PLIMSOLL_TRY_ASSIGN(const std::size_t got, source.read(head));
    head.resize(got);
    const bool is_page = is_html(text_of(head));
    std::unique_ptr<ByteSource> bytes = prepend(std::move(head), source);
    std::unique_ptr<ByteSource> unpacked = is_page ? unpack_html(*bytes) : nullptr;

    PickleInput input(is_page ? *unpacked : *bytes);
    PickleArena arena;
    SnapshotRecords records(context.builder, context.diagnostics);
    PickleMachine machine(input, context.builder.strings(), arena, records, context.progress,
                          MachineLimits{.memory_bytes = context.limits.memory_bytes});
    PLIMSOLL_TRY_ASSIGN(const Value root, machine.run());
    return SnapshotWalk(arena, records, context.builder, context.diagnostics).walk(root);
  }
};

}  // namespace

std::unique_ptr<Reader> make() { return std::make_unique<TorchSnapshotReader>(); }

}  // namespace plimsoll::readers::torch_snapshot
