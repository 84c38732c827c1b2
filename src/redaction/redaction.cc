#include "redaction/redaction.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "format/decoder.h"
#include "format/fields.h"
#include "format/wire.h"
#include "model/user_line.h"
#include "plimsoll/recorder_c.h"
#include "readers/plain_source.h"
#include "redaction/pseudonyms.h"

namespace plimsoll::redaction {
namespace {

using format::BlockKind;
using format::DefinitionKind;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kRedactionPieceBytes = 1 << 18;

// The values of these metadata keys do not identify who made the recording.
constexpr std::array<std::string_view, 11> kPublicKeys = {
    "plimsoll", "adapter",    "mode",       "pid",         "python",     "torch",
    "rank",     "local_rank", "world_size", "layer_calls", "collections"};

// Collects each name and what it is used for.
class Names : public format::NoRecords {
 public:
  void on_name(std::uint32_t id, std::string_view text) { texts_[id] = text; }
  void on_stack(std::uint32_t, std::span<const format::Frame> frames) {
    for (const format::Frame& frame : frames) frames_.insert({frame.file, frame.function});
  }
  // records.def states what each name is used for.
#define PLIMSOLL_DEFINITION(Struct, method, number) \
  void on_##method(const format::Struct& record) { use_names(record); }
#define PLIMSOLL_ID_DEFINITION(Struct, method, number, IdType, IdWire) \
  void on_##method(IdType, const format::Struct& record) { use_names(record); }
#define PLIMSOLL_EVENT(Struct, method, number, meaning) \
  void on_##method(const format::Struct& event) { use_names(event); }
#include "format/records.def"

  void on_attachment(const format::AttachmentPiece& piece) {
    if (piece.offset == 0) ++attachments_;
  }
  std::uint64_t attachments() const { return attachments_; }

  // The pseudonym of each name, or the name itself if it is kept.
  std::map<std::uint32_t, std::string> replaced(Pseudonyms& pseudonyms) {
    for (const auto& [file, function] : frames_) {
      use(file, NameUse::kFile);
      const bool is_torch = model::origin_of(text_of(file)) == model::FrameOrigin::kTorch;
      use(function, is_torch ? NameUse::kPublic : NameUse::kIdentifier);
    }
    std::map<std::uint32_t, std::string> names;
    for (const auto& [id, text] : texts_) names[id] = pseudonyms.of(text, uses_[id]);
    return names;
  }

 private:
  template <typename Record>
  void use_names(const Record& record) {
    format::visit_fields(format::Of<Record>(), [&](auto wire, auto member, const auto&) {
      if constexpr (requires { wire.kUse; }) use(record.*member, use_of(wire.kUse));
    });
    use_value(record);
  }
  static NameUse use_of(format::wire::NameUse use) {
    switch (use) {
      case format::wire::NameUse::kPublic:
        return NameUse::kPublic;
      case format::wire::NameUse::kOperator:
        return NameUse::kOperator;
      case format::wire::NameUse::kIdentifier:
        return NameUse::kIdentifier;
      case format::wire::NameUse::kText:
        break;
    }
    return NameUse::kText;
  }

  // Handles values that are names only if another field of the record says so.
  template <typename Record>
  void use_value(const Record&) {}
  void use_value(const format::Setting& setting) {
    if (setting.type == format::kTextSetting) use(setting.value, NameUse::kPublic);
  }
  void use_value(const format::HolderLink& link) {
    use(link.file, NameUse::kFile);
    const bool is_node = link.kind == PLIMSOLL_LINK_GRAD_FN || link.kind == PLIMSOLL_LINK_NODE;
    use(link.type, is_node ? NameUse::kOperator : NameUse::kIdentifier);
  }
  void use_value(const format::Function& function) {
    frames_.insert({function.file, function.name});
  }
  void use_value(const format::Mark& mark) {
    switch (mark.kind) {
      case PLIMSOLL_MARK_REGION_BEGIN:
      case PLIMSOLL_MARK_REGION_END:
        return use(mark.value, NameUse::kText);
      case PLIMSOLL_MARK_LAYER_BEGIN:
      case PLIMSOLL_MARK_LAYER_END:
      case PLIMSOLL_MARK_LAYER:
        return use(mark.value, NameUse::kIdentifier);
      case PLIMSOLL_MARK_OPERATOR:
        return use(mark.value, NameUse::kOperator);
      default:
        return;
    }
  }

  void use(std::uint64_t id, NameUse how) {
    if (id == 0 || id > UINT32_MAX) return;
    uses_[static_cast<std::uint32_t>(id)] |= static_cast<unsigned>(how);
  }
  std::string_view text_of(std::uint32_t id) const {
    const auto found = texts_.find(id);
    return found == texts_.end() ? std::string_view() : found->second;
  }
  std::map<std::uint32_t, std::string> texts_;
  std::map<std::uint32_t, unsigned> uses_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> frames_;  // file, function
  std::uint64_t attachments_ = 0;
};

void put(Bytes& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}
void put(Bytes& out, std::string_view text) { put(out, std::as_bytes(std::span(text))); }
void put_varint(Bytes& out, std::uint64_t value) {
  std::array<std::byte, format::kMaxVarintBytes> bytes;
  const std::byte* const end = format::put_varint(bytes.data(), value);
  out.insert(out.end(), static_cast<const std::byte*>(bytes.data()), end);
}

// The fields of a name or of a metadata entry, with its text replaced.
Bytes other_fields(DefinitionKind kind, std::span<const std::byte> fields,
                   const std::map<std::uint32_t, std::string>& names) {
  format::FieldReader reader(fields);
  Bytes out;
  if (kind == DefinitionKind::kName) {
    const std::uint32_t id = reader.u32();
    const auto found = names.find(id);
    put_varint(out, id);
    if (found != names.end()) put(out, found->second);
    return out;
  }
  const std::string_view key = reader.text(reader.varint());
  const bool is_public = std::ranges::find(kPublicKeys, key) != kPublicKeys.end();
  put_varint(out, key.size());
  put(out, key);
  put(out, is_public ? reader.rest() : std::string_view("redacted"));
  return out;
}

// Rewrites a payload of definitions, record by record.
Bytes other_definitions(std::span<const std::byte> payload,
                        const std::map<std::uint32_t, std::string>& names) {
  Bytes out;
  format::FieldReader records(payload);
  while (records.left() > 0 && records.is_whole()) {
    const std::uint8_t kind = records.u8();
    const std::span<const std::byte> fields = records.bytes(records.varint());
    if (kind == number_of(DefinitionKind::kSourceLine)) continue;
    Bytes other;
    std::span<const std::byte> now = fields;
    for (const auto with_text : {DefinitionKind::kName, DefinitionKind::kMeta}) {
      if (kind != number_of(with_text)) continue;
      other = other_fields(with_text, fields, names);
      now = other;
    }
    out.push_back(static_cast<std::byte>(kind));
    put_varint(out, now.size());
    put(out, now);
  }
  return out;
}

class Writer {
 public:
  Writer(const std::function<bool(std::string_view)>& write,
         std::map<std::uint32_t, std::string> names)
      : write_(write), names_(std::move(names)) {}

  // Returns false if the output accepts no more.
  bool write(const format::Block& block) {
    if (block.head.kind == BlockKind::kAttachment) return true;
    Bytes bytes(format::kBlockHeadBytes);
    if (block.head.kind == BlockKind::kDefinitions) {
      put(bytes, other_definitions(block.payload, names_));
    } else {
      put(bytes, block.payload);
    }
    format::BlockHead head = block.head;
    head.payload_bytes = static_cast<std::uint32_t>(bytes.size() - format::kBlockHeadBytes);
    format::write_block_head(bytes.data(), head);
    return write_bytes(bytes);
  }
  bool write_prelude(const format::Prelude& prelude) {
    Bytes bytes(format::kPreludeBytes);
    format::write_prelude(bytes.data(), prelude);
    return write_bytes(bytes);
  }

 private:
  bool write_bytes(const Bytes& bytes) const {
    return write_({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

  const std::function<bool(std::string_view)>& write_;
  std::map<std::uint32_t, std::string> names_;
};

// Passes the whole file to `take` piece by piece, until `take` returns false.
Status read_all(const std::string& path,
                const std::function<bool(std::span<const std::byte>)>& take) {
  PLIMSOLL_TRY_ASSIGN(const std::unique_ptr<readers::ByteSource> source, readers::open_plain(path));
  Bytes piece(kRedactionPieceBytes);
  while (true) {
    const auto got = source->read(piece);
    if (!got) return make_error(got.error().code, path + ": " + got.error().message);
    if (*got == 0 || !take(std::span(piece).first(*got))) return {};
  }
}

Error not_to_redact(const std::string& path, const std::string& why) {
  return make_error(ErrorCode::kUnsupported, path + ": " + why);
}

}  // namespace

Result<bool> is_native(const std::string& path) {
  format::NoRecords nothing;
  format::Decoder<format::NoRecords> decoder(nothing);
  PLIMSOLL_TRY(read_all(path, [&](std::span<const std::byte> piece) {
    decoder.push(piece);
    return decoder.kind() == format::BlockStream::Kind::kUnknown;
  }));
  return decoder.kind() != format::BlockStream::Kind::kNoTrace &&
         decoder.kind() != format::BlockStream::Kind::kUnknown;
}

Result<Redaction> redact(const std::string& path,
                         const std::function<bool(std::string_view)>& write) {
  Names names;
  format::Decoder<Names> decoder(names);
  PLIMSOLL_TRY(read_all(path, [&](std::span<const std::byte> piece) {
    decoder.push(piece);
    return decoder.kind() != format::BlockStream::Kind::kNoTrace;
  }));
  decoder.finish();
  if (decoder.kind() != format::BlockStream::Kind::kTrace) {
    return not_to_redact(path, "it is no recording of plimsoll: redact it with --to FORMAT");
  }
  if (decoder.unknown_records() + decoder.damage().unknown_kinds > 0) {
    return not_to_redact(path, "it was written by a later Plimsoll, which is needed to redact it");
  }
  Pseudonyms pseudonyms;
  auto replaced = names.replaced(pseudonyms);
  Redaction done;
  done.names = pseudonyms.given();
  done.damaged_blocks = decoder.damage().blocks;
  done.attachments = names.attachments();

  Writer writer(write, std::move(replaced));
  format::BlockStream blocks;
  bool is_taken = writer.write_prelude(decoder.prelude());
  const auto write_blocks = [&] {
    while (is_taken) {
      const auto block = blocks.next();
      if (!block) break;
      is_taken = writer.write(*block);
    }
    return is_taken;
  };
  PLIMSOLL_TRY(read_all(path, [&](std::span<const std::byte> piece) {
    blocks.push(piece);
    return write_blocks();
  }));
  blocks.finish();
  write_blocks();
  return done;
}

}  // namespace plimsoll::redaction
