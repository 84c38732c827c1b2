// Encoder turns definitions and events into the bytes of a trace file. It knows nothing about
// processes, threads or files: its caller passes new records and takes each block when it is full.
//
// Guarantees: no exceptions, and no memory beyond two payloads and 32 bytes per site. If even that
// cannot be allocated, records are dropped and counted. Definitions are written before the events
// that use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "format/block.h"
#include "format/end_uses.h"
#include "format/fields.h"
#include "format/records.h"
#include "format/site_memory.h"

namespace plimsoll::format {

// A complete block with its head, as written to the file. Its bytes are valid until write()
// returns.
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

// A growable buffer that reports when it cannot grow.
class GrowingBytes {
 public:
  GrowingBytes() = default;
  GrowingBytes(const GrowingBytes&) = delete;
  GrowingBytes& operator=(const GrowingBytes&) = delete;
  ~GrowingBytes();

  // Space for `bytes` bytes after the end, or null.
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

  // Writes the kPreludeBytes that precede the first block of every file to `at`.
  static void prelude(std::byte* at) noexcept { write_prelude(at, Prelude{}); }
  void meta(std::string_view key, std::string_view value) noexcept;  // at any time

  // At any time before the first event that uses them; a site may name a stack defined later.
  void define_name(std::uint32_t id, std::string_view text) noexcept;
  void define_stack(std::uint32_t id, std::span<const Frame> frames) noexcept;
  void source_line(const SourceLine& line) noexcept;

  // The other methods, generated from records.def: process(const Process&), setting(), notice();
  // define_site(id, const Site&), define_tensor(), define_device(); and the events alloc(const
  // Alloc&), free(), mark(), segment(), … . Serials, threads and times round-trip exactly in any
  // order; ascending ones take the least space.
#define PLIMSOLL_DEFINITION(Struct, method, number) void method(const Struct& record) noexcept;
#define PLIMSOLL_ID_DEFINITION(Struct, method, number, IdType, IdWire) \
  void define_##method(IdType id, const Struct& record) noexcept;
#define PLIMSOLL_FAMILY(Struct, method, number) void method(const Struct& event) noexcept;
#define PLIMSOLL_EVENT(Struct, method, number, meaning) void method(const Struct& event) noexcept;
#include "format/records.def"

  // The same with the last use of the memory that they free.
  void free(const Free& event, const EndUse& last) noexcept;
  void free_requested(const FreeRequested& event, const EndUse& last) noexcept;

  // At any time; closes the open blocks. If memory for a piece cannot be allocated, the attachment
  // ends there, and readers omit an incomplete one.
  void attachment(std::string_view name, std::span<const std::byte> bytes) noexcept;

  // Closes any open blocks.
  void flush() noexcept;
  // Calls flush(), then writes the end block, which marks the recording as stopped. Call it last.
  void finish(std::int64_t time_ns) noexcept;

  std::uint64_t events() const noexcept { return events_; }  // passed so far
  std::uint64_t lost() const noexcept {
    return lost_;
  }  // records dropped because memory was
     // unavailable
  std::uint64_t pending_events() const noexcept { return block_events_; }
  // About how many bytes flush() would write; 0 if nothing is pending.
  std::size_t pending_bytes() const noexcept { return definitions_.size() + block_.size(); }

 private:
  // Returns where to write the fields of a definition, `most_bytes` at most, or null.
  std::byte* begin_definition(DefinitionKind kind, std::size_t most_bytes) noexcept;
  void end_definition(const std::byte* end) noexcept;
  std::size_t shared_frames(std::span<const Frame> frames) const noexcept;
  void keep_frames(std::span<const Frame> frames) noexcept;

  // Opens a block if needed, sets the state that the record is relative to, and returns where to
  // write the record, or null.
  std::byte* begin_event(std::uint64_t serial, std::uint64_t address) noexcept;
  std::byte* begin_timed(std::int64_t time_ns, std::uint32_t thread, std::uint64_t serial,
                         std::uint64_t address) noexcept;
  std::byte* put_free(std::byte* at, Family family, const Free& event, const EndUse& use) noexcept;
  std::byte* put_alloc(std::byte* at, const Alloc& event, SiteState& state) noexcept;
  void end_event(const std::byte* end) noexcept;
  void put_uses() noexcept;
  template <typename Record>
  void define(DefinitionKind kind, const Record& record) noexcept;
  template <typename Event>
  void put_event(EventKind kind, const Event& event) noexcept;
  static std::byte* put_skippable(std::byte* at, EventKind kind,
                                  std::span<const std::byte> fields) noexcept;
  template <typename Event>
  void put_skippable(EventKind kind, const Event& event) noexcept;

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
  UsePrediction prediction_;
  EndUses pending_uses_;  // of frees in this block
  bool has_uses_ = false;
  BlockState state_;
  std::uint64_t events_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t attachments_ = 0;
};

}  // namespace plimsoll::format
