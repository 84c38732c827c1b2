// Encoder: makes the bytes of a trace file from definitions and events. It knows nothing of
// processes, threads and files: its caller says what is new and takes each block when it is full.
//
// Promises: no exception, and no memory beyond two payloads and 32 bytes a site. If even that is
// not to be had, records are left out and counted. Definitions reach the output before the events
// that use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "format/block.h"
#include "format/records.h"
#include "format/site_memory.h"

namespace plimsoll::format {

// What the process is, for the head of the file.
struct Process {
  std::uint64_t pid = 0;
  std::int64_t rank = -1;       // of a distributed run; -1: not known, or none
  std::int64_t started_ns = 0;  // when the recording began, since the Unix epoch
};

// A whole block with its head, as it is written to the file. The bytes live until write() returns.
struct FinishedBlock {
  BlockKind kind{};
  std::uint32_t events = 0;
  std::span<const std::byte> bytes;
};

class BlockOutput {
 public:
  virtual void write(const FinishedBlock& block) noexcept = 0;

 protected:
  ~BlockOutput() = default;
};

// Bytes that grow, and say so when they cannot.
class GrowingBytes {
 public:
  GrowingBytes() = default;
  GrowingBytes(const GrowingBytes&) = delete;
  GrowingBytes& operator=(const GrowingBytes&) = delete;
  ~GrowingBytes();

  // Room for so many bytes behind the end, or null.
  std::byte* room(std::size_t bytes) noexcept;
  void set_end(const std::byte* end) noexcept { size_ = static_cast<std::size_t>(end - data_); }
  void clear() noexcept { size_ = 0; }
  std::byte* data() noexcept { return data_; }
  const std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

class Encoder {
 public:
  explicit Encoder(BlockOutput& output) noexcept : output_(output) {}
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  // What every file begins with, before the first block: kPreludeBytes written to `at`.
  static void prelude(std::byte* at) noexcept { write_prelude(at, Prelude{}); }
  void process(const Process& process) noexcept;
  void meta(std::string_view key, std::string_view value) noexcept;  // any time

  // Any time before the first event that uses them; a site may name a stack that comes later.
  void define_name(std::uint32_t id, std::string_view text) noexcept;
  void define_stack(std::uint32_t id, std::span<const Frame> frames) noexcept;
  void define_site(std::uint32_t id, const Site& site) noexcept;
  void define_tensor(std::uint32_t id, const Tensor& tensor) noexcept;
  void define_device(std::uint8_t id, const Device& device) noexcept;
  void setting(const Setting& setting) noexcept;  // any time, after its names
  void notice(const Notice& notice) noexcept;     // the same

  // Any order of serials, threads and times round-trips exactly; ascending ones are small.
  void alloc(const Alloc& event) noexcept;
  void free(const Free& event) noexcept;
  void free_requested(const FreeRequested& event) noexcept;
  void segment(const Segment& event) noexcept;
  void out_of_memory(const OutOfMemory& event) noexcept;
  void device_figure(const DeviceFigure& event) noexcept;
  void tag(const Tag& event) noexcept;
  void set_phase(const SetPhase& event) noexcept;
  void mark(const Mark& event) noexcept;
  void dropped(const Dropped& event) noexcept;
  void evicted(const Evicted& event) noexcept;

  // Any time; closes what has been begun. Where there is no memory for a piece it ends there, and
  // readers leave out what is not whole.
  void attachment(std::string_view name, std::span<const std::byte> bytes) noexcept;

  // Closes the blocks that have been begun, if there are any.
  void flush() noexcept;
  // flush(), and the block that says that the recording was stopped. Nothing may follow.
  void finish(std::int64_t time_ns) noexcept;

  std::uint64_t events() const noexcept { return events_; }  // given so far
  std::uint64_t lost() const noexcept { return lost_; }      // records left out for want of memory
  std::uint64_t pending_events() const noexcept { return block_events_; }
  // What flush() would write, about; 0: nothing is waiting.
  std::size_t pending_bytes() const noexcept { return definitions_.size() + block_.size(); }

 private:
  // Where a definition's fields begin, or null; they need `most_bytes` at most.
  std::byte* begin_definition(DefinitionKind kind, std::size_t most_bytes) noexcept;
  void end_definition(const std::byte* end) noexcept;
  std::size_t shared_frames(std::span<const Frame> frames) const noexcept;
  void keep_frames(std::span<const Frame> frames) noexcept;

  // Where an event's record begins, the block and what the record builds on being there; or null.
  std::byte* begin_event(std::uint64_t serial, std::uint64_t address) noexcept;
  std::byte* begin_timed(std::int64_t time_ns, std::uint32_t thread, std::uint64_t serial,
                         std::uint64_t address) noexcept;
  std::byte* put_time(std::byte* at, std::int64_t time_ns) noexcept;
  std::byte* put_free(std::byte* at, Family family, const Free& event) noexcept;
  std::byte* put_alloc(std::byte* at, const Alloc& event, SiteState& state) noexcept;
  void end_event(const std::byte* end) noexcept;
  std::uint64_t back(std::uint64_t serial) const noexcept { return next_serial_ - 1 - serial; }

  void close(GrowingBytes& block, BlockKind kind, std::uint32_t events) noexcept;
  void close_definitions() noexcept;
  void close_events() noexcept;

  BlockOutput& output_;
  GrowingBytes definitions_;  // empty, or a head and a payload
  std::size_t definition_at_ = 0;
  GrowingBytes last_frames_;  // of the last stack in this block of definitions
  GrowingBytes block_;        // of events: empty, or a head and a payload
  std::uint32_t block_events_ = 0;
  SiteMemory sites_;
  std::int64_t time_ns_ = 0;
  std::uint32_t thread_ = 0;
  std::uint64_t next_serial_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t attachments_ = 0;
};

}  // namespace plimsoll::format
