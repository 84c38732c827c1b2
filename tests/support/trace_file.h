// A trace file in memory, written by the encoder and parsed into values: for tests of code that
// writes or reads trace files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "format/decoder.h"
#include "format/encoder.h"
#include "format/fields.h"

namespace plimsoll::tests {

// Collects what an encoder writes.
class TraceFile final : public format::BlockOutput {
 public:
  TraceFile() : bytes_(format::kPreludeBytes) { format::Encoder::prelude(bytes_.data()); }

  void write(const format::FinishedBlock& block) noexcept override {
    blocks_.push_back({bytes_.size(), block.kind});
    bytes_.insert(bytes_.end(), block.bytes.begin(), block.bytes.end());
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

  struct Place {
    std::size_t offset;
    format::BlockKind kind;
  };
  const std::vector<Place>& blocks() const { return blocks_; }

 private:
  std::vector<std::byte> bytes_;
  std::vector<Place> blocks_;
};

// Any event of records.def.
template <typename... Events>
struct EventList {
  using Variant = std::variant<Events...>;
  template <typename More>
  using With = EventList<Events..., More>;
};
using AnyEvent = EventList<>
#define PLIMSOLL_FAMILY(Struct, method, number) ::With<format::Struct>
#define PLIMSOLL_EVENT(Struct, method, number, meaning) ::With<format::Struct>
#include "format/records.def"
    ::Variant;

inline std::string n(auto value) { return " " + std::to_string(value); }

// Every field of a record as text: equal texts mean equal records. Optional fields are omitted if
// none of them is set.
template <typename Record>
std::string fields_text(const Record& record) {
  std::string text;
  std::string later;
  bool has_later = false;
  format::visit_fields(format::Of<Record>(), [&](auto wire, auto member, const format::FieldText&) {
    const bool is_later = format::kIsLater<decltype(wire)>;
    (is_later ? later : text) += n(record.*member);
    has_later = has_later || (is_later && record.*member != 0);
  });
  return has_later ? text + later : text;
}

struct RecordText {
#define PLIMSOLL_FAMILY(Struct, method, number) \
  std::string operator()(const format::Struct& event) const { return #method + fields_text(event); }
#define PLIMSOLL_EVENT(Struct, method, number, meaning) \
  std::string operator()(const format::Struct& event) const { return #method + fields_text(event); }
#include "format/records.def"
};

inline std::string text_of(const AnyEvent& event) { return std::visit(RecordText{}, event); }
inline std::vector<std::string> texts_of(const std::vector<AnyEvent>& events) {
  std::vector<std::string> texts;
  for (const AnyEvent& event : events) texts.push_back(text_of(event));
  return texts;
}

inline void encode(format::Encoder& encoder, const AnyEvent& event) {
  struct Give {
    format::Encoder& encoder;
#define PLIMSOLL_FAMILY(Struct, method, number) \
  void operator()(const format::Struct& event) const { encoder.method(event); }
#define PLIMSOLL_EVENT(Struct, method, number, meaning) \
  void operator()(const format::Struct& event) const { encoder.method(event); }
#include "format/records.def"
  };
  std::visit(Give{encoder}, event);
}

// The content of a file: definitions and events separately, each as text.
struct ReadBack : format::NoRecords {
#define PLIMSOLL_FAMILY(Struct, method, number) \
  void on_##method(const format::Struct& e) { event(e); }
#define PLIMSOLL_EVENT(Struct, method, number, meaning) \
  void on_##method(const format::Struct& e) { event(e); }
#define PLIMSOLL_DEFINITION(Struct, method, number) \
  void on_##method(const format::Struct& record) { define(#method + fields_text(record)); }
#define PLIMSOLL_ID_DEFINITION(Struct, method, number, IdType, IdWire) \
  void on_##method(IdType id, const format::Struct& record) {          \
    define(#method + n(id) + fields_text(record));                     \
  }
#include "format/records.def"

  void on_meta(std::string_view key, std::string_view value) {
    define("meta " + std::string(key) + "=" + std::string(value));
  }
  void on_name(std::uint32_t id, std::string_view text) {
    define("name" + n(id) + " " + std::string(text));
  }
  void on_stack(std::uint32_t id, std::span<const format::Frame> frames) {
    define(stack_text(id, frames));
  }
  void on_source_line(const format::SourceLine& line) {
    define("source_line" + n(line.file) + n(line.line) + n(line.hash) + " " +
           std::string(line.text));
  }
  void on_end(const format::End& end) { ends.push_back(n(end.time_ns) + n(end.events)); }

  static std::string stack_text(std::uint32_t id, std::span<const format::Frame> frames) {
    std::string text = "stack" + n(id);
    for (const auto& frame : frames) {
      text += ";" + n(frame.file) + n(frame.function) + n(frame.line);
    }
    return text;
  }
  void event(const AnyEvent& e) { events.push_back(text_of(e)); }
  void define(std::string text) { definitions.push_back(std::move(text)); }

  std::vector<std::string> definitions;
  std::vector<std::string> events;
  std::vector<std::string> ends;
};

struct ReadFile {
  ReadBack read;
  format::BlockStream::Kind kind{};
  format::Damage damage;
  bool is_ended = false;
  std::uint64_t unknown_records = 0;
};

// Pushes `bytes` in pieces of `piece` bytes.
inline ReadFile read_file(std::span<const std::byte> bytes, std::size_t piece = SIZE_MAX) {
  ReadFile file;
  format::Decoder<ReadBack> decoder(file.read);
  while (!bytes.empty()) {
    const std::size_t count = std::min(piece, bytes.size());
    // A copy of exactly this size, so that the sanitizer detects reads beyond it.
    const std::vector<std::byte> copy(bytes.begin(),
                                      bytes.begin() + static_cast<std::ptrdiff_t>(count));
    decoder.push(copy);
    bytes = bytes.subspan(count);
  }
  decoder.finish();
  file.kind = decoder.kind();
  file.damage = decoder.damage();
  file.is_ended = decoder.is_ended();
  file.unknown_records = decoder.unknown_records();
  return file;
}

}  // namespace plimsoll::tests
