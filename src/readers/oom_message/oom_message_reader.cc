#include "readers/oom_message/oom_message_reader.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "readers/foreign_file.h"
#include "readers/oom_message/message.h"

namespace plimsoll::readers::oom_message {
namespace {

// A log of this size is read into memory as a whole.
constexpr std::size_t kMostLogBytes = std::size_t{1} << 30;
constexpr std::size_t kPieceBytes = std::size_t{64} << 10;

// Logs may have any encoding, but most of each is ASCII.
bool is_text(std::string_view head) {
  const auto is_control = [](char c) {
    return (c >= '\0' && c < '\t') || (c > '\r' && c < '\x1b');
  };
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  const auto ascii = static_cast<std::size_t>(std::ranges::count_if(head, is_ascii));
  return ascii * 2 > head.size() && std::ranges::none_of(head, is_control);
}

Result<std::string> read_text(ByteSource& source, const ReadContext& context) {
  const std::size_t most = std::min<std::size_t>(kMostLogBytes, context.limits.memory_bytes / 2);
  std::string text;
  std::vector<std::byte> piece(kPieceBytes);
  for (;;) {
    if (context.progress.interrupted()) {
      return make_error(ErrorCode::kInterrupted, "stopped while reading");
    }
    PLIMSOLL_TRY_ASSIGN(const std::size_t got, source.read(piece));
    if (got == 0) return text;
    if (text.size() + got > most) {
      return make_error(ErrorCode::kLimit, "this text is larger than " + std::to_string(most) +
                                               " bytes: pass only the part with the out-of-memory "
                                               "message");
    }
    text.append(reinterpret_cast<const char*>(piece.data()), got);
  }
}

model::StackId stack_of(std::span<const CodeLine> traceback, model::TraceBuilder& builder) {
  if (traceback.empty()) return model::kNoStack;
  std::vector<model::FrameId> frames;
  for (const CodeLine& line : traceback) {
    model::Frame frame;
    frame.file = builder.strings().intern(line.file);
    frame.function = builder.strings().intern(line.function);
    frame.line = line.line;
    frames.push_back(builder.stacks().intern_frame(frame));
  }
  return builder.stacks().intern_stack(frames);
}

void add(Found found, model::TraceBuilder& builder) {
  model::OomMessage& message = found.message;
  // The totals of a device are those of its last message.
  builder.set_before(message.device, message.allocated_bytes.value_or(0),
                     message.reserved_bytes.value_or(0));
  model::Event event;
  event.action = model::Action::kOom;
  event.size_bytes = message.requested_bytes;
  event.address = message.free_bytes.value_or(0);
  event.stack = stack_of(found.traceback, builder);
  event.shortage =
      builder.add_shortage({message.limit_bytes.value_or(0), message.total_bytes.value_or(0)});
  builder.add_event(message.device, event);
  builder.add_oom_message(std::move(message));
}

class OomMessageReader final : public Reader {
 public:
  const char* name() const override { return "oom_message"; }

  Confidence sniff(std::span<const std::byte> head) const override {
    const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
    if (!is_text(text)) return Confidence::kNo;
    return find_messages(text).empty() ? Confidence::kMaybe : Confidence::kCertain;
  }

  Status read(ByteSource& source, ReadContext& context) const override {
    PLIMSOLL_TRY_ASSIGN(const std::string text, read_text(source, context));
    std::vector<Found> found = find_messages(text);
    if (found.empty()) {
      const std::string what = foreign_file(std::as_bytes(std::span(text)));
      return make_error(ErrorCode::kUnsupported,
                        what.empty() ? "this text has no out-of-memory message of PyTorch. A text "
                                       "log of Plimsoll's monitor: plimsoll analyze FILE"
                                     : what);
    }
    for (Found& each : found) add(std::move(each), context.builder);
    return {};
  }
};

}  // namespace

std::unique_ptr<Reader> make() { return std::make_unique<OomMessageReader>(); }

}  // namespace plimsoll::readers::oom_message
