// Trace: one recording, whatever its file format, as columns. It is read-only; only TraceBuilder
// creates one.
//
//   devices[d].events       what happened on the device
//   devices[d].lifetimes    each allocation from alloc to free, with what is known in hindsight
//   sites                   where: the stack, layer, operators, ... that an event names by one id
//   strings, stacks, streams, pools, tensors    the small tables that rows refer to
//   segments, blocks        the allocator's final state, if the file has it
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/column.h"
#include "base/device_bar.h"
#include "model/device.h"
#include "model/events.h"
#include "model/holders.h"
#include "model/ids.h"
#include "model/live_index.h"
#include "model/oom_message.h"
#include "model/program_source.h"
#include "model/stacks.h"
#include "model/strings.h"

namespace plimsoll::model {

enum class SegmentType : std::uint8_t { kUnknown, kSmall, kLarge };
enum class BlockState : std::uint8_t { kInactive, kActiveAllocated, kActivePendingFree };

struct Pool {  // (0, 0) is the default pool
  std::uint64_t first = 0;
  std::uint64_t second = 0;

  friend bool operator==(const Pool&, const Pool&) = default;
};

// Final state, as reported by the allocator. A segment's blocks are contiguous and in address
// order.
struct Segment {
  Device device;
  std::uint64_t address = 0;
  std::uint64_t total_size = 0;
  std::uint64_t allocated_size = 0;
  std::uint64_t active_size = 0;
  std::uint64_t requested_size = 0;
  StreamId stream;
  StackId stack;
  PoolId pool;
  std::uint32_t first_block = 0;
  std::uint32_t block_count = 0;
  SegmentType type = SegmentType::kUnknown;
  bool is_expandable = false;
};

struct Block {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t requested_size = 0;  // stale when inactive: never sum it
  StackId stack;
  BlockState state = BlockState::kInactive;
};

// A setting of the allocator; nested ones have dotted names ("roundup_power2_divisions.1").
struct Setting {
  std::string name;
  std::variant<bool, std::int64_t, double, std::string> value;
};

struct Annotation {
  StringId name;
  Device device;
  std::int64_t begin_ns = kNoTime;  // kNoTime: it began before the recording
  std::int64_t end_ns = kNoTime;    // kNoTime: it had not ended
};

// What is known about a tensor in an allocation.
struct Tensor {
  StringId name;   // "fc1.weight", "fc1.weight.exp_avg"; 0: unnamed
  StringId dtype;  // "float32"
  StringId shape;  // "[64, 3, 7, 7]"

  friend bool operator==(const Tensor&, const Tensor&) = default;
};

// A module of the program's models, named by its layer.
struct Module {
  StringId path;
  StringId type;                      // its class
  std::uint64_t parameter_bytes = 0;  // of the parameters that it has directly
  bool is_in_eval_mode = false;
  bool checkpoints = false;  // its attribute gradient_checkpointing is True
  bool only_holds = false;   // its class has no forward, so it can't be called (ModuleList)
};

// The limits when memory ran out, if the recording has them.
struct Shortage {
  std::uint64_t limit_bytes = 0;  // of the process; 0: unknown
  std::uint64_t total_bytes = 0;  // of the device; 0: unknown
};

// A point in the stream of events that the program or the recorder marked.
enum class MarkKind : std::uint8_t {
  kStep,
  kRegionBegin,
  kRegionEnd,
  kBackwardBegin,
  kBackwardEnd,
  kLayerBegin,  // a call of the layer's forward
  kLayerEnd,
  // A run of Python's cyclic garbage collector that freed recorded memory, or examined all objects.
  kCollectionBegin,
  kCollectionEnd,
  // A span in which the uses of memory are observed.
  kUsesBegin,
  kUsesEnd
};
struct Mark {
  MarkKind kind = MarkKind::kStep;
  std::int64_t time_ns = kNoTime;
  std::uint64_t step = 0;  // kStep: the number of the step that ends here
  StringId name;           // of a region; of a layer: its path
  bool is_full = false;    // of a collection: it examined all objects
};

// The driver's figures for a device at one point in time. Figures of PyTorch's own allocator are
// not stored, because they follow from the events before it.
struct DeviceReading {
  Device device;
  std::int64_t time_ns = kNoTime;
  std::uint32_t events_before = 0;  // of the device
  base::DeviceFigures figures = {};
};

// How much of the device's history the events cover.
enum class History : std::uint8_t {
  kNoEvents,   // there are no events
  kComplete,   // every event since recording began (memory may have been live before: the baseline)
  kTruncated,  // the recorder's ring wrapped: early events are lost
};
const char* to_string(History history);

// What is known about an allocation in hindsight.
struct LifetimeFlags {
  static const LifetimeFlags kNothing;
  static const LifetimeFlags kTemporary;  // freed before the outermost operator that allocated it
                                          // returned
  static const LifetimeFlags kSavedForBackward;  // made in forward, live when backward began
  static const LifetimeFlags kAdopted;    // it existed before it was first seen: the alloc event is
                                          // when it was first seen
  static const LifetimeFlags kCollected;  // freed by Python's cyclic garbage collector

  friend constexpr LifetimeFlags operator|(LifetimeFlags a, LifetimeFlags b) {
    return {static_cast<std::uint8_t>(a.bits | b.bits)};
  }
  friend constexpr bool has(LifetimeFlags flags, LifetimeFlags flag) {
    return (flags.bits & flag.bits) != 0;
  }
  friend bool operator==(const LifetimeFlags&, const LifetimeFlags&) = default;

  std::uint8_t bits;
};
inline constexpr LifetimeFlags LifetimeFlags::kNothing{0};
inline constexpr LifetimeFlags LifetimeFlags::kTemporary{1};
inline constexpr LifetimeFlags LifetimeFlags::kSavedForBackward{2};
inline constexpr LifetimeFlags LifetimeFlags::kAdopted{4};
inline constexpr LifetimeFlags LifetimeFlags::kCollected{8};

// The last use of an allocation by an operator. A use is measured in allocations on all devices.
struct LastUse {
  // The device's event before which the last use had ended: the first allocation after it, or the
  // number of events if there is none. kNone: unknown.
  std::uint32_t unused_from = kNone;
  std::uint32_t silence = 0;  // from the last use to the free, or to the end of the recording
  std::uint8_t gap = 0;       // longest between two uses: see gap_bound()

  bool is_known() const { return unused_from != kNone; }
  // Gaps are recorded in powers of two, rounded up: the longest is at most this many allocations.
  std::uint64_t gap_bound() const {
    return gap == 0 ? 0 : std::uint64_t{1} << std::min(gap - 1, 63);
  }
};

struct Hindsight {
  StringId category;  // 0: as stated by the alloc event
  TensorId tensor;    // row in Trace::tensors; 0: unknown
  LifetimeFlags flags = LifetimeFlags::kNothing;
  LastUse use;
};

// Allocations from birth to death. Baseline lifetimes (born before the first event) come first,
// then the others in order of birth. Event numbers are rows of the device's events; kNone if there
// is no such event, and free_requested is kBeforeRecording if the free was requested before the
// first event.
struct Lifetimes {
  base::Column<std::uint32_t> alloc;
  base::Column<std::uint32_t> free_requested;
  base::Column<std::uint32_t> free_completed;
  // The final block of a lifetime that is live at the end, a row of Trace::blocks.
  OptionalColumn<std::uint32_t, kNone> block;
  OptionalColumn<StringId> category;  // 0: as stated by the alloc event
  OptionalColumn<TensorId> tensor;
  OptionalColumn<LifetimeFlags> flags;
  // The last uses, if Trace::has_uses: the fields of LastUse.
  OptionalColumn<std::uint32_t, kNone> unused_from;
  OptionalColumn<std::uint32_t> silence;
  OptionalColumn<std::uint8_t> use_gap;
  OptionalColumn<std::uint32_t> holder;  // a row of Trace::holders.links; 0: unknown
  std::uint32_t baseline_count = 0;

  std::size_t size() const { return alloc.size(); }
  LastUse use(std::size_t lifetime) const {
    return {unused_from[lifetime], silence[lifetime], use_gap[lifetime]};
  }
  void set_use(std::size_t lifetime, const LastUse& use) {
    unused_from.set(lifetime, use.unused_from);
    silence.set(lifetime, use.silence);
    use_gap.set(lifetime, use.gap);
  }
  // The lifetime that begins with an alloc event of the device.
  std::size_t born_at(std::uint32_t event) const;
  std::size_t memory_bytes() const {
    return alloc.memory_bytes() + free_requested.memory_bytes() + free_completed.memory_bytes() +
           block.memory_bytes() + category.memory_bytes() + tensor.memory_bytes() +
           flags.memory_bytes() + unused_from.memory_bytes() + silence.memory_bytes() +
           use_gap.memory_bytes() + holder.memory_bytes();
  }
};

struct DeviceTrace {
  Device device;
  Events events;
  History history = History::kNoEvents;
  bool has_final_state = false;     // its segments and blocks are known
  bool has_block_sizes = false;     // the events have block sizes, in padding_bytes
  std::uint32_t first_segment = 0;  // rows of Trace::segments, which are sorted by device
  std::uint32_t segment_count = 0;
  Lifetimes lifetimes;
  std::array<LiveIndex, 2> live_index;  // of the lifetimes, by Liveness: see live_set.h
  // For each row of Trace::marks, the number of the device's events before it.
  base::Column<std::uint32_t> mark_events;
  // Bytes allocated and reserved before the first event, if the trace states them: a Kineto trace
  // by its running totals; a native trace has 0, because it records all memory as events. The final
  // totals are then the sums over the events, even if a final state that has lost a segment shows
  // less.
  std::optional<std::uint64_t> allocated_before_bytes;
  std::optional<std::uint64_t> reserved_before_bytes;
};

// The program, as stated in the file's metadata; fields not stated are empty.
struct Program {
  std::string command;
  std::string python;
  std::string torch;
  std::string host;
  std::string threads;
  std::string mode;
};

struct Trace {
  std::string format;  // name of the reader: "torch_snapshot", "kineto", ...
  StringTable strings;
  StackTable stacks;
  std::vector<std::uint64_t> streams;  // stream handles as numbers; row 0 is the default stream 0
  std::vector<Pool> pools;             // row 0: not recorded
  SiteTable sites;
  base::Column<Segment> segments;
  base::Column<Block> blocks;
  std::vector<Setting> settings;
  std::vector<Annotation> annotations;  // in order of begin
  std::vector<Tensor> tensors;          // row 0: unknown
  std::vector<Module> modules;          // if the recording lists them
  ProgramSource source;
  Holders holders;
  std::vector<Shortage> shortages;         // row 0: unknown
  std::vector<Mark> marks;                 // in the order in which they were made
  std::vector<OomMessage> oom_messages;    // of a printed message, whose trace has nothing else
  std::vector<DeviceReading> readings;     // in the order in which they were taken
  std::vector<DeviceTrace> devices;        // sorted by device; includes devices that are named but
                                           // empty
  std::optional<std::int64_t> rank;        // of the process in a distributed run
  std::optional<std::int64_t> world_size;  // number of its ranks
  Program program;
  bool has_settings = false;
  bool has_final_state = false;       // the segments and blocks of some device are known
  bool has_made_up_segments = false;  // by torch.profiler: reserved bytes are meaningless
  bool has_inferred_roles = false;    // categories are inferred, not the file's own
                                      // (attribution/inferred_roles.h)
  bool has_attribution = false;       // phases and categories are the recorder's, even if all are
                                      // "other"
  bool has_layer_calls = false;       // kLayerBegin and kLayerEnd marks are recorded
  bool has_uses = false;              // last uses are recorded, at least in some steps
  bool has_collections = false;       // the runs of Python's cyclic garbage collector are recorded
  std::int64_t started_ns = kNoTime;  // start of the recording, if the file states it
  bool has_native_lines =
      false;  // stacks come from programs without Python: frames name shared libraries

  const Setting* setting(std::string_view name) const;
  // The messages about one device, in the order of its events.
  std::vector<const OomMessage*> messages_about(Device device) const;

  // A lifetime's data come from its alloc event, else from its free, else from its final block.
  std::uint64_t size_bytes(const DeviceTrace& device, std::size_t lifetime) const;
  // The block size if the events have block sizes or the lifetime has a final block; else
  // requested.
  std::uint64_t block_bytes(const DeviceTrace& device, std::size_t lifetime) const;
  // The bytes that tables count for it (live_set.h): allocated bytes if the device has block sizes,
  // as in torch.cuda.memory_allocated(); else requested bytes.
  std::uint64_t lifetime_bytes(const DeviceTrace& device, std::size_t lifetime) const {
    return device.has_block_sizes ? block_bytes(device, lifetime) : size_bytes(device, lifetime);
  }
  std::uint64_t address(const DeviceTrace& device, std::size_t lifetime) const;
  StackId stack(const DeviceTrace& device, std::size_t lifetime) const;
  StreamId stream(const DeviceTrace& device, std::size_t lifetime) const;
  // As known in hindsight, or else as stated by its alloc event.
  StringId category(const DeviceTrace& device, std::size_t lifetime) const {
    const StringId known = device.lifetimes.category[lifetime];
    return known != StringId{} ? known : birth(device, lifetime).category;
  }
  // The site of its alloc event; an empty site if it has none.
  const Site& birth(const DeviceTrace& device, std::size_t lifetime) const {
    const std::uint32_t born = device.lifetimes.alloc[lifetime];
    return born == kNone ? sites[SiteId{}] : site(device, born);
  }
  // The event of the device with the most information about the lifetime; kNone if only its block
  // is known.
  std::size_t attributed_event(const DeviceTrace& device, std::size_t lifetime) const;

  const Site& site(const DeviceTrace& device, std::size_t event) const {
    return sites[device.events.site[event]];
  }
  Event event(const DeviceTrace& device, std::size_t event) const {
    return event_of(device.events, event);
  }
  Event event_of(const Events& events, std::size_t row) const;
  std::uint64_t event_count() const;
  // Whether the recording has any layers.
  bool has_layers() const { return sites.states(&Site::layer); }
  bool has_phases() const { return has_attribution || sites.states(&Site::phase); }
  bool has_categories() const;
  bool has_tensors() const;
};

}  // namespace plimsoll::model
