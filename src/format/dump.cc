#include "format/dump.h"

#include <array>
#include <bit>
#include <charconv>
#include <utility>

#include "format/decoder.h"

namespace plimsoll::format {
namespace {

constexpr std::size_t kOutputBytes = 1 << 16;

const char* word_of(BlockKind kind) {
  switch (kind) {
    case BlockKind::kDefinitions:
      return "definitions";
    case BlockKind::kEvents:
      return "events";
    case BlockKind::kEnd:
      return "end";
    case BlockKind::kAttachment:
      return "attachment";
    case BlockKind::kFileState:
      return "file_state";
  }
  return "unknown";
}

const char* word_of(RecordingState state) {
  switch (state) {
    case RecordingState::kRunning:
      return "running";
    case RecordingState::kEnded:
      return "ended";
    case RecordingState::kFailed:
      return "failed";
  }
  return "unknown";
}

// Numbers that recorder_c.h gives a name to; later ones stay numbers.
template <std::size_t kCount>
std::string word_of(const std::array<const char*, kCount>& words, unsigned number) {
  return number < kCount ? words[number] : std::to_string(number);
}
constexpr std::array kPhases = {"other", "forward", "backward", "optimizer", "data"};
constexpr std::array kRoles = {"known",           "parameter", "gradient",
                               "optimizer_state", "buffer",    "input"};
constexpr std::array kMarks = {"step",         "region_begin",  "region_end", "backward_begin",
                               "backward_end", "out_of_memory", "layer",      "operator",
                               "phase",        "layer_begin",   "layer_end",  "own_steps"};
constexpr std::array kSegmentActions = {"alloc", "free", "map", "unmap"};
constexpr std::array kFigures = {"total",   "free",           "driver",
                                 "own",     "context",        "nccl",
                                 "process", "process_untold", "processes_untold"};
constexpr std::array kSettingTypes = {"truth", "integer", "number", "text"};
constexpr std::array kNotices = {"none",
                                 "sizes_mended",
                                 "sums_unexplained",
                                 "sizes_unproved",
                                 "history_stands_in",
                                 "device_unseen",
                                 "failures_untold",
                                 "names_refused",
                                 "details_lost",
                                 "report_failed",
                                 "children_unrecorded"};
constexpr std::array kDevices = {"cpu", "cuda", "hip", "xpu", "pinned_host", "other"};

}  // namespace

class Dump::Lines : public NoRecords {
 public:
  explicit Lines(Output output) : output_(std::move(output)), decoder_(*this) {}

  Decoder<Lines>& decoder() { return decoder_; }
  void write_out() {
    if (!text_.empty()) output_(text_);
    text_.clear();
  }
  void tell_prelude() {
    if (std::exchange(is_prelude_told_, true)) return;
    begin("plimsoll trace");
    field("version", decoder_.prelude().version);
    field("readable_from", decoder_.prelude().oldest_readable);
    end();
  }
  void tell_damage() {
    const Damage& damage = decoder_.damage();
    if (damage.is_prelude_damaged) begin("damaged prelude"), end();
    if (damage.blocks > 0) {
      begin("damaged");
      field("blocks", damage.blocks);
      field("events", damage.events);
      field("first_at", damage.first_offset);
      end();
    }
    if (damage.unknown_kinds + decoder_.unknown_records() > 0) {
      begin("passed over");
      field("blocks", damage.unknown_kinds);
      field("records", decoder_.unknown_records());
      end();
    }
    if (decoder_.is_ended()) return;
    begin("cut");
    field("bytes", damage.cut_bytes);
    field("events", damage.cut_events);
    end();
  }

  void on_block(const Block& block) {
    tell_prelude();
    begin("block");
    field("at", block.offset);
    word("kind", word_of(block.head.kind));
    field("events", block.head.events);
    field("bytes", kBlockHeadBytes + block.payload.size());
    end();
  }
  void on_file_state(const FileState& state) {
    begin("recording");
    word("state", format::word_of(state.state));
    if (state.error != 0) field("error", state.error);
    field("time", state.time_ns);
    field("written_until", state.written_until_ns);
    field("events", state.events);
    if (state.missing > 0) field("missing", state.missing);
    if (state.evicted > 0) {
      field("evicted", state.evicted);
      field("evicted_until", state.evicted_until_ns);
    }
    field("longest_wait", state.longest_wait_ns);
    end();
  }
  void on_process(const Process& process) {
    begin("process");
    field("pid", process.pid);
    field("rank", process.rank);
    field("started", process.started_ns);
    end();
  }
  void on_meta(std::string_view key, std::string_view value) {
    begin("meta");
    quoted("key", key);
    quoted("value", value);
    end();
  }
  void on_name(std::uint32_t id, std::string_view text) {
    begin("name");
    field("id", id);
    quoted("text", text);
    end();
  }
  void on_stack(std::uint32_t id, std::span<const Frame> frames) {
    begin("stack");
    field("id", id);
    text_ += " frames=";
    const char* separator = "";
    for (const Frame& frame : frames) {
      text_ += std::exchange(separator, ",");
      number(frame.file);
      text_ += ':';
      number(frame.line);
      text_ += ':';
      number(frame.function);
    }
    end();
  }
  void on_site(std::uint32_t id, const Site& site) {
    begin("site");
    field("id", id);
    field("layer", site.layer);
    field("outer_op", site.outer_op);
    field("inner_op", site.inner_op);
    field("forward_op", site.forward_op);
    field("stack", site.stack);
    word("phase", format::word_of(kPhases, site.phase));
    field("device", site.device);
    if (site.stream != 0) field("stream", site.stream);
    if (site.pool != 0) field("pool", site.pool);
    end();
  }
  void on_tensor(std::uint32_t id, const Tensor& tensor) {
    begin("tensor");
    field("id", id);
    word("role", format::word_of(kRoles, tensor.role));
    field("name", tensor.name);
    field("dtype", tensor.dtype);
    field("shape", tensor.shape);
    end();
  }
  void on_device(std::uint8_t id, const Device& device) {
    begin("device");
    field("id", id);
    word("type", format::word_of(kDevices, device.type));
    field("ordinal", device.ordinal);
    end();
  }

  void on_setting(const Setting& setting) {
    begin("setting");
    field("name", setting.name);
    word("type", format::word_of(kSettingTypes, setting.type));
    if (setting.type == kIntegerSetting) {
      field("value", static_cast<std::int64_t>(setting.value));
    } else if (setting.type == kNumberSetting) {
      field("value", std::bit_cast<double>(setting.value));
    } else {
      field("value", setting.value);
    }
    end();
  }
  void on_notice(const Notice& notice) {
    begin("notice");
    word("what", format::word_of(kNotices, notice.notice));
    field("device", notice.device);
    field("count", notice.count);
    field("text", notice.text);
    end();
  }

  void on_alloc(const Alloc& alloc) {
    begin(alloc.is_adopted ? "adopt" : "alloc");
    field("serial", alloc.serial);
    field("time", alloc.time_ns);
    field("thread", alloc.thread);
    field("site", alloc.site);
    address(alloc.address);
    field("size", alloc.size_bytes);
    if (alloc.slack_bytes != 0) field("slack", static_cast<std::int64_t>(alloc.slack_bytes));
    end();
  }
  void on_free(const Free& free) {
    begin("free");
    if (free.serial != kNoSerial) field("serial", free.serial);
    field("time", free.time_ns);
    field("thread", free.thread);
    if (free.serial == kNoSerial) address(free.address);
    if (free.in_op) text_ += " in_op";
    end();
  }
  void on_free_requested(const FreeRequested& free) {
    begin("free_requested");
    field("serial", free.serial);
    field("time", free.time_ns);
    field("thread", free.thread);
    if (free.in_op) text_ += " in_op";
    end();
  }
  void on_segment(const Segment& segment) {
    begin("segment");
    word("action", format::word_of(kSegmentActions, segment.action));
    field("time", segment.time_ns);
    field("thread", segment.thread);
    field("site", segment.site);
    field("device", segment.device);
    address(segment.address);
    field("size", segment.size_bytes);
    end();
  }
  void on_out_of_memory(const OutOfMemory& failed) {
    begin("out_of_memory");
    field("time", failed.time_ns);
    field("thread", failed.thread);
    field("site", failed.site);
    field("size", failed.size_bytes);
    field("device_free", failed.device_free_bytes);
    field("limit", failed.limit_bytes);
    field("device_total", failed.device_total_bytes);
    end();
  }
  void on_device_figure(const DeviceFigure& told) {
    begin("device_figure");
    word("figure", format::word_of(kFigures, told.figure));
    field("time", told.time_ns);
    field("device", told.device);
    field("value", told.value);
    if (told.pid != 0) field("pid", told.pid);
    if (told.name != 0) field("name", told.name);
    end();
  }
  void on_tag(const Tag& tag) {
    begin("tag");
    field("serial", tag.serial);
    field("tensor", tag.tensor);
    end();
  }
  void on_set_phase(const SetPhase& set) {
    begin("set_phase");
    field("serial", set.serial);
    word("phase", format::word_of(kPhases, set.phase));
    end();
  }
  void on_mark(const Mark& mark) {
    begin("mark");
    word("kind", format::word_of(kMarks, mark.kind));
    field("value", mark.value);
    field("time", mark.time_ns);
    field("thread", mark.thread);
    end();
  }
  void on_dropped(const Dropped& dropped) {
    begin("dropped");
    field("count", dropped.count);
    field("time", dropped.time_ns);
    field("thread", dropped.thread);
    end();
  }
  void on_evicted(const Evicted& evicted) {
    begin("evicted");
    field("count", evicted.count);
    end();
  }
  void on_attachment(const AttachmentPiece& piece) {
    begin("attachment");
    field("id", piece.id);
    quoted("name", piece.name);
    field("offset", piece.offset);
    field("bytes", piece.bytes.size());
    field("of", piece.total_bytes);
    end();
  }
  void on_end(const End& told) {
    begin("end");
    field("time", told.time_ns);
    field("events", told.events);
    field("lost", told.lost);
    end();
  }

 private:
  void begin(std::string_view record) { text_ += record; }
  void end() {
    text_ += '\n';
    if (text_.size() >= kOutputBytes) write_out();
  }
  template <typename Number>
  void number(Number value, int base = 10) {
    std::array<char, 24> digits{};
    const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value, base);
    text_.append(digits.data(), result.ptr);
  }
  void key(std::string_view name) {
    text_ += ' ';
    text_ += name;
    text_ += '=';
  }
  template <typename Number>
  void field(std::string_view name, Number value) {
    key(name);
    number(value);
  }
  void field(std::string_view name, double value) {
    key(name);
    std::array<char, 32> digits{};
    const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    text_.append(digits.data(), result.ptr);
  }
  void address(std::uint64_t value) {
    key("address");
    text_ += "0x";
    number(value, 16);
  }
  void word(std::string_view name, std::string_view value) {
    key(name);
    text_ += value;
  }
  // Bytes that could move the cursor, end the line or break UTF-8 by themselves as \xNN.
  void quoted(std::string_view name, std::string_view value) {
    key(name);
    text_ += '"';
    for (const char c : value) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x20 || byte >= 0x7F || c == '"' || c == '\\') {
        constexpr std::string_view kHex = "0123456789abcdef";
        text_ += "\\x";
        text_ += kHex[byte >> 4];
        text_ += kHex[byte & 0xF];
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  Output output_;
  std::string text_;
  Decoder<Lines> decoder_;
  bool is_prelude_told_ = false;
};

Dump::Dump(Output output) : lines_(std::make_unique<Lines>(std::move(output))) {}
Dump::~Dump() = default;

bool Dump::check_kind() {
  switch (lines_->decoder().kind()) {
    case BlockStream::Kind::kUnknown:
      return true;
    case BlockStream::Kind::kTrace:
      lines_->tell_prelude();
      return true;
    case BlockStream::Kind::kNoTrace:
      error_ = "this is not a trace file of Plimsoll";
      return false;
    case BlockStream::Kind::kTooNew:
      error_ = "the trace needs format version " +
               std::to_string(lines_->decoder().prelude().oldest_readable) +
               " to read; this Plimsoll reads version " + std::to_string(kVersion);
      return false;
  }
  return true;
}

bool Dump::push(std::span<const std::byte> piece) {
  lines_->decoder().push(piece);
  return check_kind();
}

bool Dump::finish() {
  lines_->decoder().finish();
  if (!check_kind()) return false;
  lines_->tell_damage();
  lines_->write_out();
  return true;
}

}  // namespace plimsoll::format
