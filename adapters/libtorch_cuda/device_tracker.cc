#include "device_tracker.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <unordered_map>

#include "library_workspaces.h"
#include "plimsoll/caching_allocator.h"

namespace plimsoll::libtorch_cuda {
namespace {

std::uint8_t segment_action(Action action) {
  switch (action) {
    case Action::kSegmentFree:
      return PLIMSOLL_SEGMENT_FREE;
    case Action::kSegmentMap:
      return PLIMSOLL_SEGMENT_MAP;
    case Action::kSegmentUnmap:
      return PLIMSOLL_SEGMENT_UNMAP;
    default:
      return PLIMSOLL_SEGMENT_ALLOC;
  }
}

bool is_live(BlockState state) { return state != BlockState::kInactive; }

// A free belongs to no running code. Finding a context would walk Python's stack, intern new names
// and query autograd, all under the device's lock.
bool needs_description(Action action) {
  switch (action) {
    case Action::kAlloc:
    case Action::kSegmentAlloc:
    case Action::kSegmentFree:
    case Action::kSegmentMap:
    case Action::kSegmentUnmap:
      return true;
    default:
      return false;
  }
}

ShadowHeap heap_of(const SeenDevice& seen) {
  ShadowHeap heap(seen.settings);
  for (const SeenSegment& segment : seen.segments) {
    heap.add_segment(segment.address, segment.size_bytes, segment.stream, segment.pool,
                     segment.is_expandable);
    for (const SeenBlock& block : segment.blocks) {
      heap.add_block(block.address, block.size_bytes, block.requested_bytes, block.state);
    }
  }
  return heap;
}

}  // namespace

// A device may have more blocks than fit into the ring of the one thread that reports them all.
class DeviceTracker::Batches {
 public:
  explicit Batches(const plimsoll_recorder_api& api) : api_(api) {}
  // Called before each report, with no lock taken.
  void next() {
    if (reported_++ % kMost == 0) api_.settle();
  }

 private:
  static constexpr std::size_t kMost = 10'000;
  const plimsoll_recorder_api& api_;
  std::size_t reported_ = 0;
};

DeviceTracker::DeviceTracker(const plimsoll_recorder_api& api, std::uint8_t device,
                             DescribeAllocation describe)
    : api_(api), device_(device), describe_(describe) {}

void DeviceTracker::await_snapshot() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kOff) {
    heap_.clear({});  // its contents are out of date
    strays_.clear();
    counts_ = {};
  }
  state_ = State::kAwaitsSnapshot;
  seeder_ = std::this_thread::get_id();
  held_.clear();
}

void DeviceTracker::stop() {
  const std::lock_guard lock(mutex_);
  state_ = State::kOff;
  needs_seed_ = false;
  held_.clear();
}

void DeviceTracker::handle(const AllocatorEvent& event) noexcept {
  if (!needs_description(event.action)) {
    handle(api_.context(), event);
    return;
  }
  plimsoll_context before;
  plimsoll_context* context = describe_(&before);
  handle(context, event);
  *context = before;
}

void DeviceTracker::handle(plimsoll_context* context, const AllocatorEvent& event) {
  const std::lock_guard lock(mutex_);
  switch (state_) {
    case State::kOff:
      return;
    case State::kAwaitsSnapshot:
    case State::kHoldsEvents:
      if (event.action == Action::kSnapshot && std::this_thread::get_id() == seeder_) {
        state_ = State::kHoldsEvents;
        held_.clear();
      } else if (state_ == State::kHoldsEvents) {
        hold(*context, event);
      }
      return;
    case State::kLive:
      emit(context, event);
      return;
  }
}

void DeviceTracker::hold(const plimsoll_context& context, const AllocatorEvent& event) {
  try {
    held_.push_back({event, context});
    // Each thread counts its operators itself, and the seeding thread will report this event.
    if (std::this_thread::get_id() != seeder_) held_.back().context.op_instance = 0;
  } catch (const std::exception&) {
    needs_seed_ = true;
  }
}

void DeviceTracker::emit(plimsoll_context* context, const AllocatorEvent& event) {
  last_.address = 0;
  ++counts_.events;
  switch (event.action) {
    case Action::kAlloc:
      report_alloc(context, event);
      break;
    case Action::kFreeRequested:
      if (heap_.free_requested(event.address) == 0) doubt();
      api_.free_requested(context, device_, event.address);
      break;
    case Action::kFreeCompleted:
      if (heap_.free_completed(event.address) == 0) {
        std::erase_if(strays_, [&](const auto& each) { return each.first == event.address; });
        doubt();
      }
      api_.free_completed(context, device_, event.address);
      break;
    case Action::kSegmentAlloc:
    case Action::kSegmentFree:
    case Action::kSegmentMap:
    case Action::kSegmentUnmap:
      report_segment(context, event);
      break;
    case Action::kSnapshot:
    case Action::kOutOfMemory:
    case Action::kOther:
      break;
  }
}

void DeviceTracker::report_alloc(plimsoll_context* context, const AllocatorEvent& event) {
  ++counts_.allocs;
  const std::uint64_t size = heap_.alloc(event.address, event.size_bytes, event.stream);
  last_ = {.address = event.address,
           .requested_bytes = event.size_bytes,
           .size_bytes = size != 0 ? size : caching_allocator::block_bytes(event.size_bytes),
           .stream = event.stream,
           .pool = pool_name(size != 0 ? heap_.pool_of(event.address) : event.pool),
           .reserved = 0};
  last_library_ = event.library;
  report_last(context);
  if (size == 0) stray(event.address, std::exchange(last_, {}).size_bytes);
}

// A workspace belongs to its library, not to the layer and the line that first needed it.
void DeviceTracker::report_last(plimsoll_context* context) {
  if (last_library_ == Library::kNone) {
    api_.alloc_block(context, device_, &last_);
    return;
  }
  context->layer = context->forward_op = context->stack = 0;
  std::uint32_t& workspace = workspaces_[static_cast<std::size_t>(last_library_)];
  if (workspace == 0) {
    const char* name = library_name(last_library_);
    workspace = api_.tensor(PLIMSOLL_ROLE_WORKSPACE,
                            api_.name(name, std::char_traits<char>::length(name)), 0, 0);
  }
  api_.alloc_block(context, device_, &last_);
  api_.tag(context, device_, last_.address, workspace);
}

void DeviceTracker::stray(std::uint64_t address, std::uint64_t size_bytes) {
  doubt();
  try {
    strays_.emplace_back(address, size_bytes);
  } catch (const std::exception&) {
    return;  // no memory: its size stays an estimate
  }
}

void DeviceTracker::report_segment(plimsoll_context* context, const AllocatorEvent& event) {
  const std::uint8_t action = segment_action(event.action);
  // Before the block is removed: torch before 2.8 does not report the pool, and the snapshot had
  // it.
  const HeapPool pool = event.pool == HeapPool{} ? heap_.pool_of(event.address) : event.pool;
  if (!heap_.segment(action, event.address, event.size_bytes, event.stream, event.pool)) doubt();
  api_.segment(context, device_, action, event.address, event.size_bytes, event.stream,
               pool_name(pool));
}

void DeviceTracker::prove_allocated(std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kLive || needs_seed_) return;
  const std::uint64_t ours = heap_.allocated_bytes();
  if (bytes == ours) {
    ++counts_.proofs;
    return;
  }
  // Only the last allocated block can differ in size from our estimate.
  const std::uint64_t size = last_.size_bytes + (bytes - ours);
  if (last_.address == 0 || !heap_.correct(last_.address, size)) {
    doubt();
    return;
  }
  api_.notice(PLIMSOLL_NOTICE_SIZES_CORRECTED, device_, ++counts_.corrected, 0);
  last_.size_bytes = size;
  plimsoll_context before;
  plimsoll_context* context = describe_(&before);
  api_.free_requested(context, device_, last_.address);
  api_.free_completed(context, device_, last_.address);
  report_last(context);
  *context = before;
}

void DeviceTracker::prove_reserved(std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kLive || needs_seed_) return;
  if (bytes == heap_.reserved_bytes()) {
    ++counts_.proofs;
    return;
  }
  doubt();
}

// Requests a comparison with a snapshot. Further doubts before that comparison are not reported
// again.
void DeviceTracker::doubt() {
  if (std::exchange(needs_seed_, true)) return;
  api_.notice(PLIMSOLL_NOTICE_SUMS_UNEXPLAINED, device_, ++counts_.disproved, 0);
}

void DeviceTracker::differs() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kLive) doubt();
}

void DeviceTracker::report_unverified() {
  const std::lock_guard lock(mutex_);
  // If a gauge reports anything, it reports every allocation.
  const std::uint64_t unverified = counts_.proofs + counts_.corrected == 0 ? counts_.allocs : 0;
  api_.notice(PLIMSOLL_NOTICE_SIZES_UNVERIFIED, device_, unverified, 0);
}

bool DeviceTracker::has_reserved(std::uint64_t bytes) const noexcept {
  const std::lock_guard lock(mutex_);
  return bytes == heap_.reserved_bytes();
}

// ---- seeding ----------------------------------------------------------------------------------

// Events are queued until seeding ends, so only this thread reports the device and changes its
// heap. The mutex stays free meanwhile, because other threads would wait for it under torch's lock.
void DeviceTracker::seed(const SeenDevice& seen) {
  plimsoll_context* mine = api_.context();
  const plimsoll_context before = *mine;
  *mine = {};  // existing blocks belong to no running code
  Batches batches(api_);
  report_difference(mine, seen, batches);
  ShadowHeap heap = heap_of(seen);
  {
    const std::lock_guard lock(mutex_);
    std::swap(heap_, heap);
    strays_.clear();
    needs_seed_ = false;
    ++counts_.seeded;
  }
  for (std::size_t i = 0; report_held(mine, i); ++i) batches.next();
  *mine = before;
}

bool DeviceTracker::report_held(plimsoll_context* context, std::size_t at) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kOff) return false;
  if (at < held_.size()) {
    *context = held_[at].context;
    emit(context, held_[at].event);
    return true;
  }
  held_.clear();
  last_.address = 0;  // no earlier gauge value refers to it
  state_ = State::kLive;
  return false;
}

// Updates the recorder's view of the device to the snapshot. The first time, it reports everything.
void DeviceTracker::report_difference(plimsoll_context* context, const SeenDevice& seen,
                                      Batches& batches) {
  std::unordered_map<std::uint64_t, std::uint64_t> blocks;
  using Range = std::pair<std::uint64_t, bool>;  // bytes, and whether it is expandable
  std::unordered_map<std::uint64_t, Range> segments;
  heap_.for_each_block([&](std::uint64_t address, std::uint64_t size_bytes, std::uint64_t,
                           std::uint64_t, const HeapPool&, BlockState state) {
    if (is_live(state)) blocks.emplace(address, size_bytes);
  });
  for (const auto& [address, size_bytes] : strays_) blocks.insert_or_assign(address, size_bytes);
  heap_.for_each_segment(
      [&](std::uint64_t address, std::uint64_t size_bytes, std::uint64_t, bool is_expandable) {
        segments.emplace(address, Range{size_bytes, is_expandable});
      });
  const auto forget = [](auto& known, std::uint64_t address, const auto& what) {
    const auto found = known.find(address);
    if (found == known.end() || found->second != what) return false;
    known.erase(found);
    return true;
  };
  std::vector<std::pair<const SeenSegment*, const SeenBlock*>> new_blocks;
  std::vector<const SeenSegment*> new_segments;
  for (const SeenSegment& segment : seen.segments) {
    if (!forget(segments, segment.address, Range{segment.size_bytes, segment.is_expandable})) {
      new_segments.push_back(&segment);
    }
    for (const SeenBlock& block : segment.blocks) {
      if (is_live(block.state) && !forget(blocks, block.address, block.size_bytes)) {
        new_blocks.emplace_back(&segment, &block);
      }
    }
  }
  for (const auto& [address, size_bytes] : blocks) {
    batches.next();
    api_.free_requested(context, device_, address);
    api_.free_completed(context, device_, address);
  }
  for (const auto& [address, range] : segments) {
    batches.next();
    const auto [size_bytes, is_expandable] = range;
    api_.segment(context, device_, is_expandable ? PLIMSOLL_SEGMENT_UNMAP : PLIMSOLL_SEGMENT_FREE,
                 address, size_bytes, 0, 0);
  }
  for (const SeenSegment* segment : new_segments) {
    batches.next();
    api_.segment(context, device_,
                 segment->is_expandable ? PLIMSOLL_SEGMENT_MAP : PLIMSOLL_SEGMENT_ALLOC,
                 segment->address, segment->size_bytes, segment->stream, name_of(segment->pool));
  }
  for (const auto& [segment, block] : new_blocks) {
    batches.next();
    const plimsoll_block adopted{.address = block->address,
                                 .requested_bytes = block->requested_bytes,
                                 .size_bytes = block->size_bytes,
                                 .stream = segment->stream,
                                 .pool = name_of(segment->pool),
                                 .reserved = 0};
    api_.adopt_block(context, device_, &adopted, 0);
    if (block->state == BlockState::kPendingFree) {
      api_.free_requested(context, device_, block->address);
    }
  }
}

std::uint32_t DeviceTracker::pool_name(const HeapPool& pool) {
  if (pool == HeapPool{}) return 0;
  for (std::size_t i = 0; i < pool_name_count_; ++i) {
    if (pool_names_[i].pool == pool) return pool_names_[i].name;
  }
  char text[48];
  const int length =
      std::snprintf(text, sizeof(text), "%llu.%llu", static_cast<unsigned long long>(pool.first),
                    static_cast<unsigned long long>(pool.second));
  const std::uint32_t name = api_.name(text, static_cast<std::size_t>(length));
  if (pool_name_count_ < pool_names_.size()) pool_names_[pool_name_count_++] = {pool, name};
  return name;
}

std::uint32_t DeviceTracker::name_of(const HeapPool& pool) {
  const std::lock_guard lock(mutex_);
  return pool_name(pool);
}

bool DeviceTracker::needs_seed() const {
  const std::lock_guard lock(mutex_);
  return needs_seed_;
}

TrackerCounts DeviceTracker::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::pair<std::uint64_t, std::uint64_t> DeviceTracker::allocated_and_reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return {heap_.allocated_bytes(), heap_.reserved_bytes()};
}

}  // namespace plimsoll::libtorch_cuda
