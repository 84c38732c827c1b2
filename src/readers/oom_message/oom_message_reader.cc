#include "readers/oom_message/oom_message_reader.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text_decoder.h"
#include "readers/foreign_file.h"
#include "readers/oom_message/known_texts.h"
#include "readers/oom_message/log_text.h"
#include "readers/oom_message/message.h"
#include "readers/oom_message/traceback.h"

namespace plimsoll::readers::oom_message {
namespace {

// A log of this size is read into memory as a whole.
constexpr std::size_t kMostLogBytes = std::size_t{1} << 30;
constexpr std::size_t kPieceBytes = std::size_t{64} << 10;

// What a text may contain instead of a message, and what to do then.
struct OtherText {
  std::string_view phrase;
  std::string_view answer;
};

constexpr std::string_view kSummary =
    "this is the table of torch.cuda.memory_summary(), which has totals only. Record what "
    "allocates them: plimsoll run SCRIPT";
constexpr std::string_view kCut =
    "this out-of-memory message is cut off before its first number. Pass a longer part of the log";
constexpr std::string_view kQuoted =
    "this text quotes an out-of-memory message within a sentence. If it is yours, pass the message "
    "as a line of its own";

constexpr auto kOtherTexts = std::to_array<OtherText>({
    {"PyTorch CUDA memory summary", kSummary},
    {"out of memory. Tried to allocate", kCut},
});

// What this reader knows, for a text that has nothing of it.
constexpr std::string_view kUnknown =
    "this text has none of the messages about memory that Plimsoll knows: those of PyTorch, vLLM, "
    "SGLang, NCCL, cuBLAS, cuDNN, bitsandbytes, Transformers, Accelerate, Ray, DataLoader workers, "
    "NumPy, CuPy, RMM, llama.cpp, ONNX Runtime, Triton, XLA, TensorFlow, the CUDA and HIP drivers, "
    "Slurm, Kubernetes, torchrun and the Linux kernel. If it has another one, record the program: "
    "plimsoll run SCRIPT";

std::string_view answer_for(std::string_view text) {
  if (quotes_message(text)) return kQuoted;
  for (const OtherText& other : kOtherTexts) {
    if (text.find(other.phrase) != text.npos) return other.answer;
  }
  return {};
}

// Most of each text is ASCII.
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
  base::TextDecoder decoder;
  std::vector<std::byte> piece(kPieceBytes);
  for (;;) {
    if (context.progress.interrupted()) {
      return make_error(ErrorCode::kInterrupted, "stopped while reading");
    }
    PLIMSOLL_TRY_ASSIGN(const std::size_t got, source.read(piece));
    if (got == 0) {
      decoder.finish(text);
      return prepared_log(std::move(text));
    }
    if (text.size() + got > most) {
      return make_error(ErrorCode::kLimit,
                        "this text is larger than " + std::to_string(most) +
                            " bytes: pass only the part with the out-of-memory message");
    }
    decoder.feed({reinterpret_cast<const char*>(piece.data()), got}, text);
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

bool has_message(std::string_view text) {
  return !find_messages(text).empty() || !find_known_texts(text).empty();
}

// PyTorch's messages, and known texts about other kinds of devices: on the same device, a text of
// another program is a consequence or the cause of a message that has more numbers.
std::vector<Found> find_all(std::string_view text) {
  std::vector<Found> found = find_messages(text);
  for (FoundKnown& known : find_known_texts(text)) {
    const auto is_about_same = [&](const Found& other) {
      return other.message.device.type == known.message.device.type;
    };
    if (std::ranges::any_of(found, is_about_same)) continue;
    const std::size_t from = known.at - std::min(known.at, kLongestTracebackBytes);
    found.push_back({std::move(known.message), traceback_of(text.substr(from, known.at - from))});
  }
  return found;
}

class OomMessageReader final : public Reader {
 public:
  const char* name() const override { return "oom_message"; }

  Confidence sniff(std::span<const std::byte> head) const override {
    std::string text;
    base::TextDecoder decoder;
    decoder.feed({reinterpret_cast<const char*>(head.data()), head.size()}, text);
    decoder.finish(text);
    const bool is_json = begins_as_json_log(text);
    text = prepared_log(std::move(text));
    if (!is_text(text)) return Confidence::kNo;
    return is_json || has_message(text) ? Confidence::kCertain : Confidence::kMaybe;
  }

  Status read(ByteSource& source, ReadContext& context) const override {
    PLIMSOLL_TRY_ASSIGN(const std::string text, read_text(source, context));
    std::vector<Found> found = find_all(text);
    if (found.empty()) {
      std::string what(answer_for(text));
      if (what.empty()) what = foreign_file(std::as_bytes(std::span(text)));
      return make_error(ErrorCode::kUnsupported, what.empty() ? std::string(kUnknown) : what);
    }
    for (Found& each : found) add(std::move(each), context.builder);
    return {};
  }
};

}  // namespace

std::unique_ptr<Reader> make() { return std::make_unique<OomMessageReader>(); }

}  // namespace plimsoll::readers::oom_message
