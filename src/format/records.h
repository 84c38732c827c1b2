// The content of a trace file as values: the definitions that ids refer to, and the events.
// docs/format.md describes their bytes; encoder.h writes them, decoder.h reads them, and both use
// these types.
//
// Ids of names, stacks, sites and tensors are given by the writer and defined before they are used;
// 0 is "none". An allocation is known by its serial number, which counts all allocations and
// adoptions of the recorder from 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace plimsoll::format {

inline constexpr std::uint64_t kNoSerial = ~std::uint64_t{0};

// ---- definitions ------------------------------------------------------------------------------

struct Frame {
  std::uint32_t file = 0;
  std::uint32_t function = 0;
  std::uint32_t line = 0;
};

struct Device {
  std::uint8_t type = 0;  // plimsoll_device_type
  std::int32_t ordinal = 0;
};

// Where and in the middle of what memory was allocated.
struct Site {
  std::uint32_t layer = 0;
  std::uint32_t outer_op = 0;
  std::uint32_t inner_op = 0;
  std::uint32_t forward_op = 0;
  std::uint32_t stack = 0;
  std::uint8_t phase = 0;
  std::uint8_t device = 0;
  std::uint64_t stream = 0;  // of a caching allocator
  std::uint32_t pool = 0;    // the same; a name
  friend bool operator==(const Site&, const Site&) = default;
};

// What a tensor is: role as in plimsoll_role, the others names.
struct Tensor {
  std::uint8_t role = 0;
  std::uint32_t name = 0;
  std::uint32_t dtype = 0;
  std::uint32_t shape = 0;
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

// Something that is no record, such as another tool's file of the same run: named by its format,
// and in pieces, each in a block of its own. The last whole one of a name counts.
struct AttachmentPiece {
  std::string_view name;
  std::uint64_t id = 0;  // of the attachment in this file
  std::uint64_t total_bytes = 0;
  std::uint64_t offset = 0;  // of the piece in the attachment
  std::span<const std::byte> bytes;
};

// plimsoll_setting_type
inline constexpr std::uint8_t kTruthSetting = 0, kIntegerSetting = 1, kNumberSetting = 2,
                              kTextSetting = 3;

// Of a caching allocator. The last one of a name holds.
struct Setting {
  std::uint32_t name = 0;
  std::uint8_t type = 0;    // plimsoll_setting_type
  std::uint64_t value = 0;  // its bits
  friend bool operator==(const Setting&, const Setting&) = default;
};

// What went other than it should. The last one of a kind and device holds.
struct Notice {
  std::uint8_t notice = 0;  // plimsoll_notice
  std::uint8_t device = 0;
  std::uint64_t count = 0;
  std::uint32_t text = 0;  // a name
  friend bool operator==(const Notice&, const Notice&) = default;
};

// ---- events -----------------------------------------------------------------------------------

struct Alloc {
  std::int64_t time_ns = 0;  // since the Unix epoch
  std::uint32_t thread = 0;
  std::uint32_t site = 0;
  std::uint64_t serial = 0;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;   // what was asked for
  bool is_adopted = false;        // it lived before it was first met
  std::uint64_t slack_bytes = 0;  // what the block is larger; modulo 2^64
};

// The program gave it back; the Free comes when the allocator may hand it out again. Without one of
// these, a Free is both.
struct FreeRequested {
  std::int64_t time_ns = 0;
  std::uint32_t thread = 0;
  std::uint64_t serial = 0;
  bool in_op = false;
};

struct Free {
  std::int64_t time_ns = 0;
  std::uint32_t thread = 0;
  std::uint64_t serial = kNoSerial;  // kNoSerial: nobody saw it being allocated; then address
  std::uint64_t address = 0;
  bool in_op = false;  // before the outermost operator that allocated it returned
};

struct Tag {
  std::uint64_t serial = 0;
  std::uint32_t tensor = 0;
};

struct SetPhase {
  std::uint64_t serial = 0;
  std::uint8_t phase = 0;
};

struct Mark {
  std::int64_t time_ns = 0;
  std::uint32_t thread = 0;
  std::uint8_t kind = 0;  // plimsoll_mark
  std::uint64_t value = 0;
};

// What a caching allocator took from the driver, or gave back: plimsoll_segment_action.
struct Segment {
  std::int64_t time_ns = 0;
  std::uint32_t thread = 0;
  std::uint32_t site = 0;  // tells stream and pool
  std::uint8_t action = 0;
  std::uint8_t device = 0;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
};

// A request that could not be met; its device, stream and pool are the site's.
struct OutOfMemory {
  std::int64_t time_ns = 0;
  std::uint32_t thread = 0;
  std::uint32_t site = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t device_free_bytes = 0;
  std::uint64_t limit_bytes = 0;         // the most the process may hold; 0: unknown
  std::uint64_t device_total_bytes = 0;  // what the device has; 0: unknown
};

// One figure of a look at a device: plimsoll_figure.
struct DeviceFigure {
  std::int64_t time_ns = 0;
  std::uint8_t device = 0;
  std::uint8_t figure = 0;
  std::uint64_t value = 0;
  std::uint32_t pid = 0;   // of another process
  std::uint32_t name = 0;  // the same
};

// Events that were lost because a thread's ring was full.
struct Dropped {
  std::int64_t time_ns = 0;
  std::uint32_t thread = 0;
  std::uint64_t count = 0;
};

// Events that were forgotten on purpose (max_events): what follows begins with all that is live.
struct Evicted {
  std::uint64_t count = 0;
};

}  // namespace plimsoll::format
