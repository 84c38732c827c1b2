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
#include "readers/oom_message/message.h"

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

constexpr std::string_view kOfCuda =
    "this out-of-memory error has no numbers: the CUDA driver raised it outside of PyTorch's "
    "allocator, for its context, for pinned memory or for a library. See whether other processes "
    "use the device (nvidia-smi), and record the driver's allocations: plimsoll run --cuda-driver "
    "-- python SCRIPT";
constexpr std::string_view kOfHip =
    "this out-of-memory error has no numbers: the HIP runtime raised it outside of PyTorch's "
    "allocator, for its context, for pinned memory or for a library. See whether other processes "
    "use the device (rocm-smi)";
constexpr std::string_view kOfNccl =
    "this out-of-memory error of NCCL has no numbers: the driver had no memory for its buffers, "
    "which are outside of PyTorch's allocator. Leave some free "
    "(torch.cuda.set_per_process_memory_fraction), and let each rank use its own device "
    "(torch.cuda.set_device)";
constexpr std::string_view kOfCublas =
    "this out-of-memory error of cuBLAS has no numbers: the driver had no memory for its handle, "
    "which is outside of PyTorch's allocator. Leave some free: use a smaller batch, or stop other "
    "processes on the device (nvidia-smi)";
constexpr std::string_view kOfNvml =
    "PyTorch ran out of memory, but could not complete the message, so it has no numbers: its "
    "query "
    "of NVML for the processes of the device failed, as it can in containers and on partitions "
    "(MIG). See how much is free before the first allocation (torch.cuda.mem_get_info()), and "
    "record what fills the memory: plimsoll run SCRIPT";
constexpr std::string_view kOfKernel =
    "the kernel killed a process because the host memory of the machine or of its container ran "
    "out. Record what uses it, up to the kill: plimsoll run SCRIPT";
constexpr std::string_view kOfXla =
    "this is an out-of-memory error of XLA or TensorFlow. Plimsoll reads those of PyTorch";
constexpr std::string_view kSummary =
    "this is the table of torch.cuda.memory_summary(), which has totals only. Record what "
    "allocates "
    "them: plimsoll run SCRIPT";
constexpr std::string_view kCut =
    "this out-of-memory message is cut off before its first number. Pass a longer part of the log";

constexpr auto kOtherTexts = std::to_array<OtherText>({
    {"Cuda failure 'out of memory'", kOfNccl},
    {"Cuda failure 2 'out of memory'", kOfNccl},
    {"CUBLAS_STATUS_ALLOC_FAILED", kOfCublas},
    {"RESOURCE_EXHAUSTED", kOfXla},
    {"ResourceExhaustedError", kOfXla},
    {"_bfc) ran out of memory", kOfXla},
    {"CUDA error: out of memory", kOfCuda},
    {"HIP error: out of memory", kOfHip},
    {"CUDA_ERROR_OUT_OF_MEMORY", kOfCuda},
    {"Out of memory: Killed process", kOfKernel},
    {"oom_kill event", kOfKernel},
    {"PyTorch CUDA memory summary", kSummary},
    {"out of memory. Tried to allocate", kCut},
});

// Inside its allocator, PyTorch queries NVML only for an out-of-memory message.
bool has_failed_query_of_nvml(std::string_view text) {
  constexpr std::string_view kCheck = "NVML_SUCCESS == ";
  constexpr std::size_t kMostBytes = 512;
  for (std::size_t at = text.find(kCheck); at != text.npos; at = text.find(kCheck, at + 1)) {
    const std::string_view error = text.substr(at, kMostBytes);
    const std::string_view line = error.substr(0, error.find('\n'));
    if (line.find("INTERNAL ASSERT FAILED") != line.npos &&
        line.find("CUDACachingAllocator.cpp") != line.npos) {
      return true;
    }
  }
  return false;
}

std::string_view answer_for(std::string_view text) {
  if (has_failed_query_of_nvml(text)) return kOfNvml;
  for (const OtherText& other : kOtherTexts) {
    if (text.find(other.phrase) != text.npos) return other.answer;
  }
  return {};
}

// Removes escape sequences of terminals, such as colors around numbers ("\x1b[1;36m20.00\x1b[0m").
void remove_escape_sequences(std::string& text) {
  constexpr std::string_view kStart = "\x1b[";
  std::size_t end = text.find(kStart);
  if (end == text.npos) return;
  for (std::size_t at = end; at < text.size();) {
    if (!std::string_view(text).substr(at).starts_with(kStart)) {
      text[end++] = text[at++];
      continue;
    }
    at += kStart.size();
    while (at < text.size() && text[at] >= ' ' && text[at] < '@') ++at;  // parameters
    if (at < text.size()) ++at;                                          // the final letter
  }
  text.resize(end);
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
      remove_escape_sequences(text);
      return text;
    }
    if (text.size() + got > most) {
      return make_error(ErrorCode::kLimit, "this text is larger than " + std::to_string(most) +
                                               " bytes: pass only the part with the out-of-memory "
                                               "message");
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

class OomMessageReader final : public Reader {
 public:
  const char* name() const override { return "oom_message"; }

  Confidence sniff(std::span<const std::byte> head) const override {
    std::string text;
    base::TextDecoder decoder;
    decoder.feed({reinterpret_cast<const char*>(head.data()), head.size()}, text);
    decoder.finish(text);
    remove_escape_sequences(text);
    if (!is_text(text)) return Confidence::kNo;
    return find_messages(text).empty() ? Confidence::kMaybe : Confidence::kCertain;
  }

  Status read(ByteSource& source, ReadContext& context) const override {
    PLIMSOLL_TRY_ASSIGN(const std::string text, read_text(source, context));
    std::vector<Found> found = find_messages(text);
    if (found.empty()) {
      std::string what(answer_for(text));
      if (what.empty()) what = foreign_file(std::as_bytes(std::span(text)));
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
