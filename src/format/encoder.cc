#include "format/encoder.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "format/wire.h"

namespace plimsoll::format {
namespace {

// One record, plus the records before it that set time, thread and serial.
constexpr std::size_t kEventRoom = 3 * kMaxEventBytes;

std::byte first_byte(EventKind kind) noexcept {
  return static_cast<std::byte>(static_cast<unsigned>(kind) << 2 |
                                static_cast<unsigned>(Family::kOther));
}

std::byte* put_bytes(std::byte* at, const void* bytes, std::size_t size) noexcept {
  if (size > 0)
    std::memcpy(at, bytes, size);  // memcpy must not get the null pointer of an empty
                                   // text
  return at + size;
}

// For define(): a record that consists of an id and fields.
template <typename IdType, typename IdWire, typename Record>
struct WithId {
  IdType id;
  const Record& record;
};

template <typename Record>
constexpr std::size_t most_bytes(const Record&) noexcept {
  std::size_t fields = 0;
  visit_fields(Of<Record>(), [&](auto, auto, const FieldText&) { ++fields; });
  return fields * kMaxVarintBytes;
}
template <typename IdType, typename IdWire, typename Record>
constexpr std::size_t most_bytes(const WithId<IdType, IdWire, Record>& both) noexcept {
  return kMaxVarintBytes + most_bytes(both.record);
}

template <typename IdType, typename IdWire, typename Record>
std::byte* put_fields(std::byte* at, BlockState& state,
                      const WithId<IdType, IdWire, Record>& both) noexcept {
  at = IdWire::put(at, state, both.record, both.id);
  return format::put_fields(at, state, both.record);
}

}  // namespace

// ---- bytes ------------------------------------------------------------------------------------

GrowingBytes::~GrowingBytes() { std::free(data_); }

std::byte* GrowingBytes::room(std::size_t bytes) noexcept {
  if (bytes > capacity_ - size_) {
    const std::size_t capacity = std::max(size_ + bytes, capacity_ + capacity_ / 2);
    void* moved = std::realloc(data_, capacity);
    if (moved == nullptr) return nullptr;
    data_ = static_cast<std::byte*>(moved);
    capacity_ = capacity;
  }
  return data_ + size_;
}

// ---- definitions ------------------------------------------------------------------------------

std::byte* Encoder::begin_definition(DefinitionKind kind, std::size_t most_bytes) noexcept {
  if (definitions_.size() >= kBlockHeadBytes + kPayloadBytes) close_definitions();
  const bool is_new = definitions_.size() == 0;
  const std::size_t head = is_new ? kBlockHeadBytes : 0;
  std::byte* at = definitions_.room(head + 1 + kMaxVarintBytes + most_bytes);
  if (at == nullptr) {
    ++lost_;
    return nullptr;
  }
  if (is_new) last_frames_.clear();
  at += head;
  definition_at_ = static_cast<std::size_t>(at - definitions_.data());
  *at = static_cast<std::byte>(kind);
  return at + 1 + kMaxVarintBytes;
}

// The length is now known: move the fields up to it.
void Encoder::end_definition(const std::byte* end) noexcept {
  std::byte* const record = definitions_.data() + definition_at_;
  const std::byte* const fields = record + 1 + kMaxVarintBytes;
  const auto length = static_cast<std::size_t>(end - fields);
  std::byte* const at = put_varint(record + 1, length);
  std::memmove(at, fields, length);
  definitions_.set_end(at + length);
}

template <typename Record>
void Encoder::define(DefinitionKind kind, const Record& record) noexcept {
  std::byte* const at = begin_definition(kind, most_bytes(record));
  if (at == nullptr) return;
  BlockState none;  // definitions have no previous record to be relative to
  end_definition(put_fields(at, none, record));
}

#define PLIMSOLL_DEFINITION(Struct, method, number) \
  void Encoder::method(const Struct& record) noexcept { define(DefinitionKind::k##Struct, record); }
#define PLIMSOLL_ID_DEFINITION(Struct, method, number, IdType, IdWire)                   \
  void Encoder::define_##method(IdType id, const Struct& record) noexcept {              \
    define(DefinitionKind::k##Struct, WithId<IdType, wire::IdWire, Struct>{id, record}); \
  }
#include "format/records.def"

void Encoder::meta(std::string_view key, std::string_view value) noexcept {
  key = key.substr(0, kMaxTextBytes / 2);
  value = value.substr(0, kMaxTextBytes / 2);
  std::byte* at =
      begin_definition(DefinitionKind::kMeta, kMaxVarintBytes + key.size() + value.size());
  if (at == nullptr) return;
  at = put_varint(at, key.size());
  at = put_bytes(at, key.data(), key.size());
  at = put_bytes(at, value.data(), value.size());
  end_definition(at);
}

void Encoder::define_name(std::uint32_t id, std::string_view text) noexcept {
  text = text.substr(0, kMaxTextBytes);
  std::byte* at = begin_definition(DefinitionKind::kName, kMaxVarintBytes + text.size());
  if (at == nullptr) return;
  at = put_varint(at, id);
  at = put_bytes(at, text.data(), text.size());
  end_definition(at);
}

void Encoder::source_line(const SourceLine& line) noexcept {
  const std::string_view text = line.text.substr(0, kMaxTextBytes);
  std::byte* at = begin_definition(DefinitionKind::kSourceLine,
                                   2 * kMaxVarintBytes + sizeof(line.hash) + text.size());
  if (at == nullptr) return;
  at = put_varint(at, line.file);
  at = put_varint(at, line.line);
  at = store(at, line.hash);
  at = put_bytes(at, text.data(), text.size());
  end_definition(at);
}

// The number of outermost frames shared with the last stack.
std::size_t Encoder::shared_frames(std::span<const Frame> frames) const noexcept {
  const std::size_t last = last_frames_.size() / sizeof(Frame);
  const std::size_t most = std::min({frames.size(), last, kMaxSharedFrames});
  const std::byte* const last_end = last_frames_.data() + last_frames_.size();
  std::size_t shared = 0;
  for (; shared < most; ++shared) {
    const Frame& frame = frames[frames.size() - 1 - shared];
    if (std::memcmp(&frame, last_end - (shared + 1) * sizeof(Frame), sizeof(Frame)) != 0) break;
  }
  return shared;
}

void Encoder::keep_frames(std::span<const Frame> frames) noexcept {
  last_frames_.clear();
  frames = frames.last(std::min(frames.size(), kMaxSharedFrames));
  std::byte* const at = last_frames_.room(frames.size_bytes());
  if (at != nullptr) last_frames_.set_end(put_bytes(at, frames.data(), frames.size_bytes()));
}

void Encoder::define_stack(std::uint32_t id, std::span<const Frame> frames) noexcept {
  frames = frames.first(std::min(frames.size(), kMaxFrames));
  const std::size_t frame_bytes = 3 * varint_bytes(zigzag(-std::int64_t{UINT32_MAX}));
  std::byte* at =
      begin_definition(DefinitionKind::kStack, 3 * kMaxVarintBytes + frames.size() * frame_bytes);
  if (at == nullptr) return;
  const std::size_t shared = shared_frames(frames);
  at = put_varint(at, id);
  at = put_varint(at, shared);
  at = put_varint(at, frames.size() - shared);
  Frame last;
  for (const Frame& frame : frames.first(frames.size() - shared)) {
    at = put_varint(at, zigzag(std::int64_t{frame.file} - last.file));
    at = put_varint(at, zigzag(std::int64_t{frame.function} - last.function));
    at = put_varint(at, frame.line);
    last = frame;
  }
  end_definition(at);
  keep_frames(frames);
}

// ---- events -----------------------------------------------------------------------------------

std::byte* Encoder::begin_event(std::uint64_t serial, std::uint64_t address) noexcept {
  ++events_;
  if (block_.size() > 0) {
    std::byte* const at = block_.room(kEventRoom);
    if (at == nullptr) ++lost_;
    return at;
  }
  // Reserve space for a whole block, so that the buffer is allocated once per recording.
  std::byte* at = block_.room(kBlockHeadBytes + kPayloadBytes + 2 * kEventRoom);
  if (at == nullptr) {
    ++lost_;
    return nullptr;
  }
  at += kBlockHeadBytes;
  at = put_varint(at, zigzag(state_.time_ns));
  at = put_varint(at, state_.thread);
  at = put_varint(at, serial);
  at = put_varint(at, address);
  state_.next_serial = serial;
  sites_.begin_block(address);
  block_events_ = 0;
  if (has_uses_) prediction_.begin_block();
  pending_uses_.count = 0;
  block_.set_end(at);
  return at;
}

std::byte* Encoder::begin_timed(std::int64_t time_ns, std::uint32_t thread, std::uint64_t serial,
                                std::uint64_t address) noexcept {
  if (block_.size() == 0) {
    state_.time_ns = time_ns;
    state_.thread = thread;
  }
  std::byte* at = begin_event(serial, address);
  if (at == nullptr) return nullptr;
  if (thread != state_.thread) {
    *at++ = first_byte(EventKind::kSetThread);
    at = put_varint(at, thread);
    state_.thread = thread;
  }
  if (time_ns < state_.time_ns) {
    *at++ = first_byte(EventKind::kSetTime);
    at = put_varint(at, zigzag(static_cast<std::int64_t>(state_.time_since(time_ns))));
    state_.time_ns = time_ns;
  }
  return at;
}

void Encoder::end_event(const std::byte* end) noexcept {
  block_.set_end(end);
  ++block_events_;
  if (pending_uses_.count == EndUses::kMost) put_uses();
  if (block_.size() >= kBlockHeadBytes + kPayloadBytes) close_events();
}

std::byte* Encoder::put_alloc(std::byte* at, const Alloc& event, SiteState& state) noexcept {
  const std::uint64_t step = event.address - state.address;
  const bool is_in_units = step % kAddressUnit == 0;
  const bool is_predicted = event.site == sites_.predicted_site();
  unsigned flags = static_cast<unsigned>(Family::kAlloc);
  if (event.size_bytes == state.size_bytes) flags |= kSameSize;
  if (step == 0) flags |= kSameAddress;
  if (!is_in_units) flags |= kAddressInBytes;
  if (event.is_adopted) flags |= kAdopted;
  if (is_predicted) flags |= kPredictedSite;
  if (event.padding_bytes != state.padding_bytes) flags |= kOtherPadding;
  *at++ = static_cast<std::byte>(flags);
  at = wire::Time::put(at, state_, event, event.time_ns);
  if (!is_predicted) at = put_varint(at, event.site);
  if ((flags & kSameSize) == 0) at = put_varint(at, event.size_bytes);
  if (step != 0) {
    const auto signed_step = static_cast<std::int64_t>(step);
    at = put_varint(at, zigzag(is_in_units ? signed_step / kAddressUnit : signed_step));
  }
  if ((flags & kOtherPadding) != 0) {
    at = put_varint(at, zigzag(static_cast<std::int64_t>(event.padding_bytes)));
  }
  return at;
}

void Encoder::alloc(const Alloc& event) noexcept {
  std::byte* at = begin_timed(event.time_ns, event.thread, event.serial, event.address);
  if (at == nullptr) return;
  SiteState* const state = sites_.at(event.site);
  if (state == nullptr) {
    block_.set_end(at);  // these settings also apply to the next record
    ++lost_;
    return;
  }
  if (event.serial != state_.next_serial) {
    *at++ = first_byte(EventKind::kSetSerial);
    at = put_varint(at, zigzag(static_cast<std::int64_t>(event.serial - state_.next_serial)));
  }
  at = put_alloc(at, event, *state);
  sites_.remember(state, event);
  state_.next_serial = event.serial + 1;
  end_event(at);
}

void Encoder::free(const Free& event) noexcept { free(event, {}); }
void Encoder::free_requested(const FreeRequested& event) noexcept { free_requested(event, {}); }

void Encoder::free(const Free& event, const EndUse& use) noexcept {
  std::byte* at = begin_timed(event.time_ns, event.thread, state_.next_serial, 0);
  if (at == nullptr) return;
  if (event.serial == kNoSerial) {
    *at++ = first_byte(EventKind::kFreeUnknown);
    at = wire::Time::put(at, state_, event, event.time_ns);
    at = put_varint(at, event.address);
    end_event(at);
    return;
  }
  end_event(put_free(at, Family::kFree, event, use));
}

std::byte* Encoder::put_free(std::byte* at, Family family, const Free& event,
                             const EndUse& use) noexcept {
  const std::uint64_t steps = state_.back(event.serial);
  const std::uint64_t inlined = std::min(steps, kBackFollows);
  *at++ = static_cast<std::byte>(static_cast<unsigned>(family) | (event.in_op ? kInOp : 0) |
                                 static_cast<unsigned>(inlined) << kBackShift);
  at = wire::Time::put(at, state_, event, event.time_ns);
  if (inlined == kBackFollows) at = put_varint(at, steps - kBackFollows);
  if (event.in_op) return at;
  if (use.age_plus_one != 0 && !has_uses_) {
    has_uses_ = true;
    prediction_.begin_block();
  }
  if (has_uses_) {
    prediction_.freed(steps);
    pending_uses_.entries[pending_uses_.count++] = use;
  }
  return at;
}

// The uses of the frees since the last such record. It belongs to these and is not counted.
void Encoder::put_uses() noexcept {
  const EndUses pending = std::exchange(pending_uses_, {});
  if (pending.count == 0) return;
  std::byte* const at = block_.room(kEventRoom);
  if (at == nullptr) {
    ++lost_;
    return;
  }
  std::array<std::byte, UsePrediction::kMostBytes> fields;
  static_assert(1 + kMaxVarintBytes + sizeof(fields) <= kEventRoom);
  const std::byte* const end = prediction_.put(fields.data(), pending);
  block_.set_end(put_skippable(at, EventKind::kUses, {fields.data(), end}));
}

void Encoder::free_requested(const FreeRequested& event, const EndUse& use) noexcept {
  std::byte* at = begin_timed(event.time_ns, event.thread, state_.next_serial, 0);
  if (at == nullptr) return;
  const Free free{event.time_ns, event.thread, event.serial, 0, event.in_op};
  end_event(put_free(at, Family::kFreeRequested, free, use));
}

template <typename Event>
void Encoder::put_event(EventKind kind, const Event& event) noexcept {
  // Records that set thread and time may precede it.
  static_assert(2 * (1 + kMaxVarintBytes) + 1 + most_bytes(Event()) <= kEventRoom);
  std::byte* at = nullptr;
  if constexpr (has_field<wire::Time, Event>()) {
    at = begin_timed(event.time_ns, event.thread, state_.next_serial, 0);
  } else {
    at = begin_event(state_.next_serial, 0);
  }
  if (at == nullptr) return;
  *at++ = first_byte(kind);
  end_event(put_fields(at, state_, event));
}

// Readers skip unknown kinds, so such a record must not change the state that later ones build on.
template <typename Event>
void Encoder::put_skippable(EventKind kind, const Event& event) noexcept {
  static_assert(!has_field<wire::Time, Event>() && !has_field<wire::Thread, Event>());
  std::byte* at = begin_event(state_.next_serial, 0);
  if (at == nullptr) return;
  std::array<std::byte, most_bytes(Event())> fields;
  const std::byte* const end = put_fields(fields.data(), state_, event);
  end_event(put_skippable(at, kind, {fields.data(), end}));
}

std::byte* Encoder::put_skippable(std::byte* at, EventKind kind,
                                  std::span<const std::byte> fields) noexcept {
  *at++ = first_byte(kind);
  return put_bytes(put_varint(at, fields.size()), fields.data(), fields.size());
}

#define PLIMSOLL_EVENT(Struct, method, number, meaning) \
  void Encoder::method(const Struct& event) noexcept { put_event(EventKind::k##Struct, event); }
#define PLIMSOLL_SKIPPABLE_EVENT(Struct, method, number, meaning) \
  void Encoder::method(const Struct& event) noexcept { put_skippable(EventKind::k##Struct, event); }
#include "format/records.def"

void Encoder::attachment(std::string_view name, std::span<const std::byte> bytes) noexcept {
  flush();
  name = name.substr(0, kMaxAttachmentName);
  const std::uint64_t id = ++attachments_;
  GrowingBytes block;
  std::size_t offset = 0;
  do {
    const auto piece =
        bytes.subspan(offset, std::min(kAttachmentPieceBytes, bytes.size() - offset));
    std::byte* at = block.room(kBlockHeadBytes + 4 * kMaxVarintBytes + name.size() + piece.size());
    if (at == nullptr) {
      ++lost_;
      return;
    }
    at = put_varint(at + kBlockHeadBytes, id);
    at = put_varint(at, bytes.size());
    at = put_varint(at, offset);
    at = put_varint(at, name.size());
    at = put_bytes(at, name.data(), name.size());
    block.set_end(put_bytes(at, piece.data(), piece.size()));
    close(block, BlockKind::kAttachment, 0);
    offset += piece.size();
  } while (offset < bytes.size());
}

// ---- blocks -----------------------------------------------------------------------------------

void Encoder::close(GrowingBytes& block, BlockKind kind, std::uint32_t events) noexcept {
  BlockHead head;
  head.kind = kind;
  head.payload_bytes = static_cast<std::uint32_t>(block.size() - kBlockHeadBytes);
  head.events = events;
  write_block_head(block.data(), head);
  output_.write(FinishedBlock{kind, events, {block.data(), block.size()}});
  block.clear();
}

void Encoder::close_definitions() noexcept {
  if (definitions_.size() > 0) close(definitions_, BlockKind::kDefinitions, 0);
}

void Encoder::close_events() noexcept {
  close_definitions();
  put_uses();
  if (block_events_ > 0) close(block_, BlockKind::kEvents, block_events_);
  block_.clear();
  block_events_ = 0;
}

void Encoder::flush() noexcept { close_events(); }

void Encoder::finish(std::int64_t time_ns) noexcept {
  flush();
  std::byte* at = block_.room(kBlockHeadBytes + 3 * kMaxVarintBytes);
  if (at == nullptr) return;
  at += kBlockHeadBytes;
  BlockState none;
  block_.set_end(put_fields(at, none, End{time_ns, events_, lost_}));
  close(block_, BlockKind::kEnd, 0);
}

}  // namespace plimsoll::format
