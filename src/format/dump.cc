#include "format/dump.h"

#include <array>
#include <bit>
#include <charconv>
#include <type_traits>
#include <utility>

#include "format/decoder.h"
#include "format/fields.h"

namespace plimsoll::format {
namespace {

constexpr std::size_t kOutputBytes = 1 << 16;

std::string_view name_of(BlockKind kind) {
  switch (kind) {
#define PLIMSOLL_BLOCK(name, number, word) \
  case BlockKind::name:                    \
    return #word;
#include "format/records.def"
  }
  return "unknown";
}

}  // namespace

class Dump::Lines : public NoRecords {
 public:
  explicit Lines(Output output) : output_(std::move(output)), decoder_(*this) {}

  Decoder<Lines>& decoder() { return decoder_; }
  void write_out() {
    if (!text_.empty()) output_(text_);
    text_.clear();
  }
  void report_prelude() {
    if (std::exchange(is_prelude_reported_, true)) return;
    begin("plimsoll trace");
    field("version", decoder_.prelude().version);
    field("readable_from", decoder_.prelude().oldest_readable);
    end();
  }
  void report_damage() {
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
      begin("skipped");
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
    report_prelude();
    begin("block");
    field("at", block.offset);
    word("kind", name_of(block.head.kind));
    field("events", block.head.events);
    field("bytes", kBlockHeadBytes + block.payload.size());
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
  void on_source_line(const SourceLine& source) {
    begin("source_line");
    field("file", source.file);
    field("line", source.line);
    key("hash");
    text_ += "0x";
    number(source.hash, 16);
    quoted("text", source.text);
    end();
  }
#define PLIMSOLL_BLOCK_RECORD(Struct, method, word) \
  void on_##method(const Struct& record) { line(#word, record); }
#define PLIMSOLL_DEFINITION(Struct, method, number) \
  void on_##method(const Struct& record) { line(#method, record); }
#define PLIMSOLL_ID_DEFINITION(Struct, method, number, IdType, IdWire) \
  void on_##method(IdType id, const Struct& record) {                  \
    begin(#method);                                                    \
    field("id", id);                                                   \
    fields(record);                                                    \
    end();                                                             \
  }
#define PLIMSOLL_EVENT(Struct, method, number, meaning) \
  void on_##method(const Struct& event) { line(#method, event); }
#include "format/records.def"

  void on_alloc(const Alloc& alloc) {
    begin(alloc.is_adopted ? "adopt" : "alloc");
    field("serial", alloc.serial);
    field("time", alloc.time_ns);
    field("thread", alloc.thread);
    field("site", alloc.site);
    address(alloc.address);
    field("size", alloc.size_bytes);
    if (alloc.padding_bytes != 0) field("padding", static_cast<std::int64_t>(alloc.padding_bytes));
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
  // Age and gap of each use: "3:2,?,0:0!"; unknown; never used.
  void on_uses(const EndUses& uses) {
    begin("uses");
    key("ended");
    for (std::size_t i = 0; i < uses.count; ++i) {
      const EndUse& use = uses.entries[i];
      if (i > 0) text_ += ',';
      if (use.age_plus_one == 0) {
        text_ += '?';
        continue;
      }
      number(use.age_plus_one - 1);
      text_ += ':';
      number(use.gap & ~kNeverUsed & 0xFF);
      if ((use.gap & kNeverUsed) != 0) text_ += '!';
    }
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

 private:
  void begin(std::string_view record) { text_ += record; }
  void end() {
    text_ += '\n';
    if (text_.size() >= kOutputBytes) write_out();
  }
  template <typename Record>
  void line(std::string_view name, const Record& record) {
    begin(name);
    fields(record);
    end();
  }
  template <typename Record>
  void fields(const Record& record) {
    visit_fields(Of<Record>(), [&](auto wire, auto member, const FieldText& text) {
      using Wire = decltype(wire);
      const auto value = record.*member;
      if (!kIsShownIfZero<Wire> && value == decltype(value){}) return;
      if constexpr (requires { Wire::kNames; }) {
        // Numbers named in recorder_c.h; later ones are printed as numbers.
        const auto row = static_cast<std::size_t>(value);
        word(text.key, row < Wire::kNames.size() ? Wire::kNames[row] : std::to_string(row));
      } else if constexpr (std::is_same_v<Wire, wire::Address>) {
        address(value);
      } else if constexpr (std::is_same_v<Wire, wire::SettingValue>) {
        setting_value(text.key, record, value);
      } else {
        field(text.key, value);
      }
    });
  }
  template <typename Record>
  void setting_value(std::string_view name, const Record& record, std::uint64_t value) {
    if (record.type == kIntegerSetting) return field(name, static_cast<std::int64_t>(value));
    if (record.type == kNumberSetting) return field(name, std::bit_cast<double>(value));
    field(name, value);
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
  // Prints bytes that could move the cursor, end the line or break UTF-8 as \xNN.
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
  bool is_prelude_reported_ = false;
};

Dump::Dump(Output output) : lines_(std::make_unique<Lines>(std::move(output))) {}
Dump::~Dump() = default;

bool Dump::check_kind() {
  switch (lines_->decoder().kind()) {
    case BlockStream::Kind::kUnknown:
      return true;
    case BlockStream::Kind::kTrace:
      lines_->report_prelude();
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
  lines_->report_damage();
  lines_->write_out();
  return true;
}

}  // namespace plimsoll::format
