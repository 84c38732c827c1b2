// DefinitionDecoder: the records of a block of definitions, passed to a visitor. Each has its
// length: fields that a later version appended, and kinds it added, are skipped. Texts and
// frames live until the visitor returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "format/block.h"
#include "format/encoder.h"
#include "format/records.h"
#include "format/wire.h"

namespace plimsoll::format {

// What an end block says.
struct End {
  std::int64_t time_ns = 0;
  std::uint64_t events = 0;
  std::uint64_t lost = 0;  // records that the writer had no memory for
};

struct NoDefinitions {
  void on_process(const Process&) {}
  void on_meta(std::string_view, std::string_view) {}
  void on_name(std::uint32_t, std::string_view) {}
  void on_stack(std::uint32_t, std::span<const Frame>) {}
  void on_site(std::uint32_t, const Site&) {}
  void on_tensor(std::uint32_t, const Tensor&) {}
  void on_device(std::uint8_t, const Device&) {}
  void on_setting(const Setting&) {}
  void on_notice(const Notice&) {}
};

// Reads fields from bytes that may end anywhere; what is not there is 0, and is_whole() says so.
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
  End end;
  end.time_ns = fields.signed_varint();
  end.events = fields.varint();
  end.lost = fields.varint();
  return end;
}

// What an attachment's block says; nothing if it cannot be.
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
  // False if a record is broken; those before it were told.
  template <typename Visitor>
  bool decode(std::span<const std::byte> payload, Visitor& visitor) {
    frames_.clear();
    unknown_records_ = 0;
    FieldReader records(payload);
    while (records.left() > 0) {
      const auto kind = static_cast<DefinitionKind>(records.u8());
      FieldReader fields(records.bytes(records.varint()));
      if (!records.is_whole() || !record(kind, fields, visitor)) return false;
    }
    return true;
  }

  // Of the last block: records of a later version that were skipped.
  std::uint64_t unknown_records() const noexcept { return unknown_records_; }

 private:
  template <typename Visitor>
  bool record(DefinitionKind kind, FieldReader& fields, Visitor& visitor) {
    switch (kind) {
      case DefinitionKind::kProcess: {
        Process process;
        process.pid = fields.varint();
        process.rank = fields.signed_varint();
        process.started_ns = fields.signed_varint();
        if (fields.is_whole()) visitor.on_process(process);
        break;
      }
      case DefinitionKind::kMeta: {
        const std::string_view key = fields.text(fields.varint());
        const std::string_view value = fields.rest();
        if (fields.is_whole()) visitor.on_meta(key, value);
        break;
      }
      case DefinitionKind::kName: {
        const std::uint32_t id = fields.u32();
        const std::string_view text = fields.rest();
        if (fields.is_whole()) visitor.on_name(id, text);
        break;
      }
      case DefinitionKind::kStack: {
        const std::uint32_t id = fields.u32();
        if (!read_frames(fields)) return false;
        visitor.on_stack(id, std::span<const Frame>(frames_));
        break;
      }
      case DefinitionKind::kSite: {
        const std::uint32_t id = fields.u32();
        const Site site = read_site(fields);
        if (fields.is_whole()) visitor.on_site(id, site);
        break;
      }
      case DefinitionKind::kTensor: {
        const std::uint32_t id = fields.u32();
        const Tensor tensor = read_tensor(fields);
        if (fields.is_whole()) visitor.on_tensor(id, tensor);
        break;
      }
      case DefinitionKind::kDevice: {
        const std::uint8_t id = fields.u8();
        Device device;
        device.type = fields.u8();
        device.ordinal = static_cast<std::int32_t>(fields.signed_varint());
        if (fields.is_whole()) visitor.on_device(id, device);
        break;
      }
      case DefinitionKind::kSetting: {
        const Setting setting = read_setting(fields);
        if (fields.is_whole()) visitor.on_setting(setting);
        break;
      }
      case DefinitionKind::kNotice: {
        const Notice notice = read_notice(fields);
        if (fields.is_whole()) visitor.on_notice(notice);
        break;
      }
      default:
        ++unknown_records_;
    }
    return fields.is_whole();
  }

  static Site read_site(FieldReader& fields) noexcept {
    Site site;
    site.layer = fields.u32();
    site.outer_op = fields.u32();
    site.inner_op = fields.u32();
    site.forward_op = fields.u32();
    site.stack = fields.u32();
    site.phase = fields.u8();
    site.device = fields.u8();
    if (fields.left() > 0) site.stream = fields.varint();
    if (fields.left() > 0) site.pool = fields.u32();
    return site;
  }

  static Tensor read_tensor(FieldReader& fields) noexcept {
    Tensor tensor;
    tensor.role = fields.u8();
    tensor.name = fields.u32();
    tensor.dtype = fields.u32();
    tensor.shape = fields.u32();
    return tensor;
  }

  static Setting read_setting(FieldReader& fields) noexcept {
    Setting setting;
    setting.name = fields.u32();
    setting.type = fields.u8();
    setting.value = fields.varint();
    if (setting.type == kIntegerSetting) {
      setting.value = static_cast<std::uint64_t>(unzigzag(setting.value));
    }
    return setting;
  }

  static Notice read_notice(FieldReader& fields) noexcept {
    Notice notice;
    notice.notice = fields.u8();
    notice.device = fields.u8();
    notice.count = fields.varint();
    notice.text = fields.u32();
    return notice;
  }

  // The frames of its own, then the outermost ones of the stack before.
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
