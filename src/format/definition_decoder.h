// DefinitionDecoder passes the records of a definition block to a visitor. Every record stores its
// length, so fields appended and kinds added by a later version are skipped. Texts and frames are
// valid until the visitor returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "format/block.h"
#include "format/fields.h"
#include "format/records.h"
#include "format/wire.h"

namespace plimsoll::format {

struct NoDefinitions {
  void on_meta(std::string_view, std::string_view) {}
  void on_name(std::uint32_t, std::string_view) {}
  void on_stack(std::uint32_t, std::span<const Frame>) {}
  void on_source_line(const SourceLine&) {}
#define PLIMSOLL_DEFINITION(Struct, method, number) \
  void on_##method(const Struct&) {}
#define PLIMSOLL_ID_DEFINITION(Struct, method, number, IdType, IdWire) \
  void on_##method(IdType, const Struct&) {}
#include "format/records.def"
};

// Reads fields from bytes that may end anywhere; a missing field is 0, and is_whole() is then
// false.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  std::uint64_t varint() noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      const std::uint64_t byte = u8();
      value |= (byte & 0x7F) << (shift < 64 ? shift : 63);
      if (byte < 0x80) break;
    }
    return value;
  }
  std::int64_t signed_varint() noexcept { return unzigzag(varint()); }
  std::uint32_t u32() noexcept { return static_cast<std::uint32_t>(varint()); }
  std::uint64_t u64() noexcept {  // fixed
    const std::span<const std::byte> number = bytes(sizeof(std::uint64_t));
    return number.size() == sizeof(std::uint64_t) ? load<std::uint64_t>(number.data()) : 0;
  }
  std::uint8_t u8() noexcept {
    if (bytes_.empty()) {
      is_whole_ = false;
      return 0;
    }
    const auto byte = std::to_integer<std::uint8_t>(bytes_.front());
    bytes_ = bytes_.subspan(1);
    return byte;
  }
  std::span<const std::byte> bytes(std::uint64_t count) noexcept {
    if (count > bytes_.size()) {
      is_whole_ = false;
      count = bytes_.size();
    }
    const auto taken = bytes_.first(static_cast<std::size_t>(count));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  std::string_view text(std::uint64_t count) noexcept {
    const auto taken = bytes(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  std::string_view rest() noexcept { return text(bytes_.size()); }
  std::size_t left() const noexcept { return bytes_.size(); }
  bool is_whole() const noexcept { return is_whole_; }

 private:
  std::span<const std::byte> bytes_;
  bool is_whole_ = true;
};

inline End read_end(std::span<const std::byte> payload) noexcept {
  FieldReader fields(payload);
  BlockState none;
  return take_fields<End>(fields, none);
}

// Parses the payload of an attachment block; returns nothing if it is invalid.
inline std::optional<AttachmentPiece> read_attachment(std::span<const std::byte> payload) noexcept {
  FieldReader fields(payload);
  AttachmentPiece piece;
  piece.id = fields.varint();
  piece.total_bytes = fields.varint();
  piece.offset = fields.varint();
  piece.name = fields.text(fields.varint());
  if (!fields.is_whole()) return {};
  piece.bytes = fields.bytes(fields.left());
  const bool is_in =
      piece.offset <= piece.total_bytes && piece.bytes.size() <= piece.total_bytes - piece.offset;
  return is_in ? std::optional(piece) : std::nullopt;
}

class DefinitionDecoder {
 public:
  // Returns false at a broken record; the records before it have been passed on.
  template <typename Visitor>
  bool decode(std::span<const std::byte> payload, Visitor& visitor) {
    frames_.clear();
    unknown_records_ = 0;
    FieldReader records(payload);
    while (records.left() > 0) {
      const std::uint8_t kind = records.u8();
      FieldReader fields(records.bytes(records.varint()));
      if (!records.is_whole() || !record(kind, fields, visitor)) return false;
    }
    return true;
  }

  // The number of records in the last block that were skipped because they are from a later
  // version.
  std::uint64_t unknown_records() const noexcept { return unknown_records_; }

 private:
  template <typename Visitor>
  bool record(std::uint8_t kind, FieldReader& fields, Visitor& visitor) {
    BlockState none;  // definitions have no previous record to be relative to
    switch (kind) {
      case number_of(DefinitionKind::kMeta): {
        const std::string_view key = fields.text(fields.varint());
        const std::string_view value = fields.rest();
        if (fields.is_whole()) visitor.on_meta(key, value);
        break;
      }
      case number_of(DefinitionKind::kName): {
        const std::uint32_t id = fields.u32();
        const std::string_view text = fields.rest();
        if (fields.is_whole()) visitor.on_name(id, text);
        break;
      }
      case number_of(DefinitionKind::kStack): {
        const std::uint32_t id = fields.u32();
        if (!read_frames(fields)) return false;
        visitor.on_stack(id, std::span<const Frame>(frames_));
        break;
      }
      case number_of(DefinitionKind::kSourceLine): {
        SourceLine line;
        line.file = fields.u32();
        line.line = fields.u32();
        line.hash = fields.u64();
        line.text = fields.rest();
        if (fields.is_whole()) visitor.on_source_line(line);
        break;
      }
#define PLIMSOLL_DEFINITION(Struct, method, number)        \
  case number_of(DefinitionKind::k##Struct): {             \
    const auto record = take_fields<Struct>(fields, none); \
    if (fields.is_whole()) visitor.on_##method(record);    \
    break;                                                 \
  }
#define PLIMSOLL_ID_DEFINITION(Struct, method, number, IdType, IdWire) \
  case number_of(DefinitionKind::k##Struct): {                         \
    IdType id = 0;                                                     \
    wire::IdWire::take(fields, none, id, id);                          \
    const auto record = take_fields<Struct>(fields, none);             \
    if (fields.is_whole()) visitor.on_##method(id, record);            \
    break;                                                             \
  }
#include "format/records.def"
      default:
        ++unknown_records_;
    }
    return fields.is_whole();
  }

  // The stack's own frames, then the outermost frames shared with the previous stack.
  bool read_frames(FieldReader& fields) {
    const std::uint64_t shared = fields.varint();
    const std::uint64_t own = fields.varint();
    const bool is_plausible = shared <= kMaxSharedFrames && shared <= frames_.size() &&
                              own <= kMaxFrames && own * 3 <= fields.left();
    if (!is_plausible) return false;
    frames_.erase(frames_.begin(), frames_.end() - static_cast<std::ptrdiff_t>(shared));
    Frame frame;
    own_.clear();
    for (std::uint64_t i = 0; i < own; ++i) {
      frame.file += static_cast<std::uint32_t>(fields.signed_varint());
      frame.function += static_cast<std::uint32_t>(fields.signed_varint());
      frame.line = fields.u32();
      own_.push_back(frame);
    }
    frames_.insert(frames_.begin(), own_.begin(), own_.end());
    return fields.is_whole();
  }

  std::vector<Frame> frames_;  // of the last stack
  std::vector<Frame> own_;
  std::uint64_t unknown_records_ = 0;
};

}  // namespace plimsoll::format
