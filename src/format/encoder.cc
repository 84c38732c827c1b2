#include "format/encoder.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "format/wire.h"

namespace plimsoll::format {
namespace {

// A record and the ones before it that set time, thread and serial.
constexpr std::size_t kEventRoom = 2 * kMaxEventBytes;

std::byte first_byte(EventKind kind) noexcept {
  return static_cast<std::byte>(static_cast<unsigned>(kind) << 2 |
                                static_cast<unsigned>(Family::kOther));
}

std::byte* put_bytes(std::byte* at, const void* bytes, std::size_t size) noexcept {
  if (size > 0) std::memcpy(at, bytes, size);  // an empty text may have no address
  return at + size;
}

std::uint64_t difference(std::int64_t later, std::int64_t earlier) noexcept {
  return static_cast<std::uint64_t>(later) - static_cast<std::uint64_t>(earlier);
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

// The length is known now: the fields move up to it.
void Encoder::end_definition(const std::byte* end) noexcept {
  std::byte* const record = definitions_.data() + definition_at_;
  const std::byte* const fields = record + 1 + kMaxVarintBytes;
  const auto length = static_cast<std::size_t>(end - fields);
  std::byte* const at = put_varint(record + 1, length);
  std::memmove(at, fields, length);
  definitions_.set_end(at + length);
}

void Encoder::process(const Process& process) noexcept {
  std::byte* at = begin_definition(DefinitionKind::kProcess, 3 * kMaxVarintBytes);
  if (at == nullptr) return;
  at = put_varint(at, process.pid);
  at = put_varint(at, zigzag(process.rank));
  at = put_varint(at, zigzag(process.started_ns));
  end_definition(at);
}

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

// How many of the outermost frames are those of the last stack.
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

void Encoder::define_site(std::uint32_t id, const Site& site) noexcept {
  std::byte* at = begin_definition(DefinitionKind::kSite, 10 * kMaxVarintBytes);
  if (at == nullptr) return;
  at = put_varint(at, id);
  at = put_varint(at, site.layer);
  at = put_varint(at, site.outer_op);
  at = put_varint(at, site.inner_op);
  at = put_varint(at, site.forward_op);
  at = put_varint(at, site.stack);
  *at++ = static_cast<std::byte>(site.phase);
  *at++ = static_cast<std::byte>(site.device);
  if (site.stream != 0 || site.pool != 0) {
    at = put_varint(at, site.stream);
    at = put_varint(at, site.pool);
  }
  end_definition(at);
}

void Encoder::define_tensor(std::uint32_t id, const Tensor& tensor) noexcept {
  std::byte* at = begin_definition(DefinitionKind::kTensor, 5 * kMaxVarintBytes);
  if (at == nullptr) return;
  at = put_varint(at, id);
  *at++ = static_cast<std::byte>(tensor.role);
  at = put_varint(at, tensor.name);
  at = put_varint(at, tensor.dtype);
  at = put_varint(at, tensor.shape);
  end_definition(at);
}

void Encoder::define_device(std::uint8_t id, const Device& device) noexcept {
  std::byte* at = begin_definition(DefinitionKind::kDevice, 3 * kMaxVarintBytes);
  if (at == nullptr) return;
  *at++ = static_cast<std::byte>(id);
  *at++ = static_cast<std::byte>(device.type);
  at = put_varint(at, zigzag(device.ordinal));
  end_definition(at);
}

void Encoder::setting(const Setting& setting) noexcept {
  std::byte* at = begin_definition(DefinitionKind::kSetting, 3 * kMaxVarintBytes);
  if (at == nullptr) return;
  at = put_varint(at, setting.name);
  *at++ = static_cast<std::byte>(setting.type);
  at = put_varint(at, setting.type == kIntegerSetting
                          ? zigzag(static_cast<std::int64_t>(setting.value))
                          : setting.value);
  end_definition(at);
}

void Encoder::notice(const Notice& notice) noexcept {
  std::byte* at = begin_definition(DefinitionKind::kNotice, 3 * kMaxVarintBytes);
  if (at == nullptr) return;
  *at++ = static_cast<std::byte>(notice.notice);
  *at++ = static_cast<std::byte>(notice.device);
  at = put_varint(at, notice.count);
  at = put_varint(at, notice.text);
  end_definition(at);
}

// ---- events -----------------------------------------------------------------------------------

std::byte* Encoder::begin_event(std::uint64_t serial, std::uint64_t address) noexcept {
  ++events_;
  if (block_.size() > 0) {
    std::byte* const at = block_.room(kEventRoom);
    if (at == nullptr) ++lost_;
    return at;
  }
  // Room for the whole block at once: it is asked for once in a recording.
  std::byte* at = block_.room(kBlockHeadBytes + kPayloadBytes + 2 * kEventRoom);
  if (at == nullptr) {
    ++lost_;
    return nullptr;
  }
  at += kBlockHeadBytes;
  at = put_varint(at, zigzag(time_ns_));
  at = put_varint(at, thread_);
  at = put_varint(at, serial);
  at = put_varint(at, address);
  next_serial_ = serial;
  sites_.begin_block(address);
  block_events_ = 0;
  block_.set_end(at);
  return at;
}

std::byte* Encoder::begin_timed(std::int64_t time_ns, std::uint32_t thread, std::uint64_t serial,
                                std::uint64_t address) noexcept {
  if (block_.size() == 0) {
    time_ns_ = time_ns;
    thread_ = thread;
  }
  std::byte* at = begin_event(serial, address);
  if (at == nullptr) return nullptr;
  if (thread != thread_) {
    *at++ = first_byte(EventKind::kSetThread);
    at = put_varint(at, thread);
    thread_ = thread;
  }
  if (time_ns < time_ns_) {
    *at++ = first_byte(EventKind::kSetTime);
    at = put_varint(at, zigzag(static_cast<std::int64_t>(difference(time_ns, time_ns_))));
    time_ns_ = time_ns;
  }
  return at;
}

std::byte* Encoder::put_time(std::byte* at, std::int64_t time_ns) noexcept {
  at = put_varint(at, difference(time_ns, time_ns_));
  time_ns_ = time_ns;
  return at;
}

void Encoder::end_event(const std::byte* end) noexcept {
  block_.set_end(end);
  ++block_events_;
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
  if (event.slack_bytes != state.slack_bytes) flags |= kOtherSlack;
  *at++ = static_cast<std::byte>(flags);
  at = put_time(at, event.time_ns);
  if (!is_predicted) at = put_varint(at, event.site);
  if ((flags & kSameSize) == 0) at = put_varint(at, event.size_bytes);
  if (step != 0) {
    const auto signed_step = static_cast<std::int64_t>(step);
    at = put_varint(at, zigzag(is_in_units ? signed_step / kAddressUnit : signed_step));
  }
  if ((flags & kOtherSlack) != 0) {
    at = put_varint(at, zigzag(static_cast<std::int64_t>(event.slack_bytes)));
  }
  return at;
}

void Encoder::alloc(const Alloc& event) noexcept {
  std::byte* at = begin_timed(event.time_ns, event.thread, event.serial, event.address);
  if (at == nullptr) return;
  SiteState* const state = sites_.at(event.site);
  if (state == nullptr) {
    block_.set_end(at);  // what was set for it holds for the next one, too
    ++lost_;
    return;
  }
  if (event.serial != next_serial_) {
    *at++ = first_byte(EventKind::kSetSerial);
    at = put_varint(at, zigzag(static_cast<std::int64_t>(event.serial - next_serial_)));
  }
  at = put_alloc(at, event, *state);
  sites_.remember(state, event);
  next_serial_ = event.serial + 1;
  end_event(at);
}

void Encoder::free(const Free& event) noexcept {
  std::byte* at = begin_timed(event.time_ns, event.thread, next_serial_, 0);
  if (at == nullptr) return;
  if (event.serial == kNoSerial) {
    *at++ = first_byte(EventKind::kFreeUnknown);
    at = put_time(at, event.time_ns);
    at = put_varint(at, event.address);
    end_event(at);
    return;
  }
  end_event(put_free(at, Family::kFree, event));
}

std::byte* Encoder::put_free(std::byte* at, Family family, const Free& event) noexcept {
  const std::uint64_t steps = back(event.serial);
  const std::uint64_t inlined = std::min(steps, kBackFollows);
  *at++ = static_cast<std::byte>(static_cast<unsigned>(family) | (event.in_op ? kInOp : 0) |
                                 static_cast<unsigned>(inlined) << kBackShift);
  at = put_time(at, event.time_ns);
  if (inlined == kBackFollows) at = put_varint(at, steps - kBackFollows);
  return at;
}

void Encoder::free_requested(const FreeRequested& event) noexcept {
  std::byte* at = begin_timed(event.time_ns, event.thread, next_serial_, 0);
  if (at == nullptr) return;
  const Free free{event.time_ns, event.thread, event.serial, 0, event.in_op};
  end_event(put_free(at, Family::kFreeRequested, free));
}

void Encoder::segment(const Segment& event) noexcept {
  std::byte* at = begin_timed(event.time_ns, event.thread, next_serial_, 0);
  if (at == nullptr) return;
  *at++ = first_byte(EventKind::kSegment);
  at = put_time(at, event.time_ns);
  at = put_varint(at, event.site);
  *at++ = static_cast<std::byte>(event.action);
  *at++ = static_cast<std::byte>(event.device);
  at = put_varint(at, event.address);
  at = put_varint(at, event.size_bytes);
  end_event(at);
}

void Encoder::out_of_memory(const OutOfMemory& event) noexcept {
  std::byte* at = begin_timed(event.time_ns, event.thread, next_serial_, 0);
  if (at == nullptr) return;
  *at++ = first_byte(EventKind::kOutOfMemory);
  at = put_time(at, event.time_ns);
  at = put_varint(at, event.site);
  at = put_varint(at, event.size_bytes);
  at = put_varint(at, event.device_free_bytes);
  at = put_varint(at, event.limit_bytes);
  at = put_varint(at, event.device_total_bytes);
  end_event(at);
}

// Readers that do not know it pass over it, so it changes nothing of what later records build on.
void Encoder::device_figure(const DeviceFigure& event) noexcept {
  std::byte* at = begin_event(next_serial_, 0);
  if (at == nullptr) return;
  std::array<std::byte, 6 * kMaxVarintBytes> fields;
  std::byte* field = fields.data();
  field = put_varint(field, zigzag(static_cast<std::int64_t>(difference(event.time_ns, time_ns_))));
  *field++ = static_cast<std::byte>(event.device);
  *field++ = static_cast<std::byte>(event.figure);
  field = put_varint(field, event.value);
  field = put_varint(field, event.pid);
  field = put_varint(field, event.name);
  const auto length = static_cast<std::size_t>(field - fields.data());
  *at++ = first_byte(EventKind::kDeviceFigure);
  at = put_varint(at, length);
  end_event(put_bytes(at, fields.data(), length));
}

void Encoder::tag(const Tag& event) noexcept {
  std::byte* at = begin_event(next_serial_, 0);
  if (at == nullptr) return;
  *at++ = first_byte(EventKind::kTag);
  at = put_varint(at, back(event.serial));
  at = put_varint(at, event.tensor);
  end_event(at);
}

void Encoder::set_phase(const SetPhase& event) noexcept {
  std::byte* at = begin_event(next_serial_, 0);
  if (at == nullptr) return;
  *at++ = first_byte(EventKind::kSetPhase);
  at = put_varint(at, back(event.serial));
  *at++ = static_cast<std::byte>(event.phase);
  end_event(at);
}

void Encoder::mark(const Mark& event) noexcept {
  std::byte* at = begin_timed(event.time_ns, event.thread, next_serial_, 0);
  if (at == nullptr) return;
  *at++ = first_byte(EventKind::kMark);
  at = put_time(at, event.time_ns);
  *at++ = static_cast<std::byte>(event.kind);
  at = put_varint(at, event.value);
  end_event(at);
}

void Encoder::dropped(const Dropped& event) noexcept {
  std::byte* at = begin_timed(event.time_ns, event.thread, next_serial_, 0);
  if (at == nullptr) return;
  *at++ = first_byte(EventKind::kDropped);
  at = put_time(at, event.time_ns);
  at = put_varint(at, event.count);
  end_event(at);
}

void Encoder::evicted(const Evicted& event) noexcept {
  std::byte* at = begin_event(next_serial_, 0);
  if (at == nullptr) return;
  *at++ = first_byte(EventKind::kEvicted);
  at = put_varint(at, event.count);
  end_event(at);
}

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
  at = put_varint(at, zigzag(time_ns));
  at = put_varint(at, events_);
  at = put_varint(at, lost_);
  block_.set_end(at);
  close(block_, BlockKind::kEnd, 0);
}

}  // namespace plimsoll::format
