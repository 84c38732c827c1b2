#include "readers/native/recording.h"

#include <algorithm>
#include <bitset>
#include <string>
#include <utility>

#include "base/units.h"
#include "model/categories.h"
#include "plimsoll/recorder_c.h"
#include "readers/native/communication.h"
#include "readers/native/diagnostics.h"

namespace plimsoll::readers::native {
namespace {

using model::Action;
using model::Event;
using model::EventFlags;
using model::Phase;

// KNOWN says nothing of what the memory is for: any role is graver.
unsigned gravity(std::uint8_t role) {
  return role == PLIMSOLL_ROLE_KNOWN || role > PLIMSOLL_ROLE_INPUT ? 0 : 255u - role;
}

}  // namespace

// ---- while reading ----------------------------------------------------------------------------

void Recording::on_block(const format::Block& block) {
  definitions_.set_end(block.offset + block.payload.size());
  events_in_blocks_ += block.head.events;
  if (block.head.kind == format::BlockKind::kEvents) {
    // An event is two bytes or more, whatever the head says.
    context_.builder.events().make_room(block.payload.size() / 2 + 1);
  }
  check_limits();
}

void Recording::check_limits() {
  const std::uint64_t memory_bytes = context_.builder.memory_bytes() + definitions_.memory_bytes() +
                                     serials_.memory_bytes() + allocations_.memory_bytes() +
                                     others_.memory_bytes() + caches_.memory_bytes() +
                                     besides_.memory_bytes();
  if (memory_bytes > context_.limits.memory_bytes && !failure_) {
    failure_ = make_error(ErrorCode::kLimit, "the trace needs more memory than the " +
                                                 std::to_string(context_.limits.memory_bytes) +
                                                 " bytes allowed");
  }
  if (context_.builder.event_count() >= model::kBeforeRecording - format::kMaxPayloadBytes) {
    failure_ = make_error(ErrorCode::kLimit, "more than 4,292,000,000 events in one file");
  }
}

void Recording::on_process(const format::Process& process) {
  started_ns_ = process.started_ns;
  context_.builder.set_started(started_ns_);
  if (process.rank >= 0) context_.builder.set_rank(process.rank);
}

void Recording::on_meta(std::string_view key, std::string_view value) {
  model::Program& program = context_.builder.program();
  if (key == "command") program.command = value;
  if (key == "python") program.python = value;
  if (key == "torch") program.torch = value;
  if (key == "host") program.host = value;
  if (key == "adapter" && value == "python") context_.diagnostics.add(kPythonAdapter);
  if (key == "layer_calls") context_.builder.layer_calls_known();
  if (key == "adapter" && value == "cuda-driver") context_.builder.native_lines_known();
}

void Recording::on_stack(std::uint32_t id, std::span<const format::Frame> frames) {
  check_limits();  // a few bytes may repeat many frames
  if (!failure_) definitions_.stack(id, frames);
}

// Events are rows in the order of the file; a run of one device's is told to the builder whole.
void Recording::set_device(std::uint8_t device) {
  if (device == device_) return;
  end_run();
  device_ = device;
}

void Recording::end_run() {
  const std::uint64_t end = context_.builder.event_count();
  if (end > run_first_) {
    context_.builder.place(definitions_.device(device_), run_first_, end - run_first_);
  }
  run_first_ = end;
}

void Recording::on_alloc(const format::Alloc& alloc) {
  const format::Site* const site = definitions_.find_site(alloc.site);
  if (site == nullptr) ++counts_.undefined_sites;
  const std::uint8_t device = site == nullptr ? std::uint8_t{0} : site->device;
  set_device(device);
  model::Events& events = context_.builder.events();
  Allocation allocation;
  model::Lifetimes& pairs = context_.builder.pairs();
  pairs.alloc.push_back(static_cast<std::uint32_t>(events.size()));
  pairs.free_requested.push_back(model::kNone);
  const std::size_t row = events.size();
  events.push_back_plain(Action::kAlloc, alloc.address, alloc.size_bytes, alloc.time_ns,
                         model::StackId{alloc.site});  // until attribute()
  if (site != nullptr) set_stream(row, *site);
  if (alloc.slack_bytes != 0) {
    events.slack_bytes.set(row, alloc.slack_bytes);
    caches_.are_on(device);
  }
  allocation.device = device;
  allocation.flags = alloc.is_adopted ? Allocation::kIsAdopted : std::uint8_t{0};
  allocations_.push_back(allocation);
  serials_.add(alloc.serial);
}

void Recording::on_free(const format::Free& free) {
  const std::uint32_t index = serials_.find(free.serial);
  model::Lifetimes& pairs = context_.builder.pairs();
  if (index == SerialIndex::kNotSeen) {
    ++counts_.unseen_frees;
    return;
  }
  Allocation& allocation = allocations_[index];
  if ((allocation.flags & Allocation::kIsPending) != 0) {
    allocation.flags &= static_cast<std::uint8_t>(~Allocation::kIsPending);
    add_free(Action::kFreeCompleted, index, free.time_ns);
    return;
  }
  if (pairs.free_requested[index] != model::kNone) {
    ++counts_.unseen_frees;
    return;
  }
  pairs.free_requested[index] = add_free(Action::kFree, index, free.time_ns);
  if (free.in_op) allocation.flags |= Allocation::kInOp;
}

void Recording::on_free_requested(const format::FreeRequested& free) {
  const std::uint32_t index = serials_.find(free.serial);
  model::Lifetimes& pairs = context_.builder.pairs();
  if (index == SerialIndex::kNotSeen || pairs.free_requested[index] != model::kNone) return;
  Allocation& allocation = allocations_[index];
  allocation.flags |= Allocation::kIsPending;
  if (free.in_op) allocation.flags |= Allocation::kInOp;
  caches_.are_on(allocation.device);
  pairs.free_requested[index] = add_free(Action::kFreeRequested, index, free.time_ns);
}

// Returns its row.
std::uint32_t Recording::add_free(Action action, std::uint32_t index, std::int64_t time_ns) {
  set_device(allocations_[index].device);
  model::Events& events = context_.builder.events();
  const std::size_t row = events.size();
  const std::uint32_t born = context_.builder.pairs().alloc[index];
  events.push_back_plain(action, events.address[born], events.size_bytes[born], time_ns,
                         model::kNoStack);
  events.stream.set(row, events.stream[born]);
  events.pool.set(row, events.pool[born]);
  events.slack_bytes.set(row, events.slack_bytes[born]);
  return static_cast<std::uint32_t>(row);
}

void Recording::set_stream(std::size_t row, const format::Site& site) {
  if (site.stream == 0 && site.pool == 0) return;
  model::Events& events = context_.builder.events();
  events.stream.set(row, context_.builder.stream(site.stream));
  events.pool.set(row, definitions_.pool(site.pool));
}

// An event that is told with its place, and that is no allocation.
void Recording::add_placed(Event event, std::uint32_t site_id, std::uint8_t device) {
  set_device(device);
  const auto row = static_cast<std::uint32_t>(context_.builder.add_event(event));
  others_.push_back({row, site_id});
  if (const format::Site* site = definitions_.find_site(site_id)) set_stream(row, *site);
}

void Recording::on_segment(const format::Segment& segment) {
  static constexpr Action kActions[] = {Action::kSegmentAlloc, Action::kSegmentFree,
                                        Action::kSegmentMap, Action::kSegmentUnmap};
  if (segment.action >= std::size(kActions)) {
    context_.diagnostics.add(kLaterVersion);
    return;
  }
  const SegmentChange change = caches_.add(segment);
  const bool is_contradicted = change.returned + change.taken != segment.size_bytes;
  context_.diagnostics.add(kSegmentsContradict, is_contradicted ? 1 : 0);
  Event event;
  event.address = segment.address;
  event.time_ns = segment.time_ns;
  const auto add = [&](std::uint8_t action, std::uint64_t size_bytes) {
    if (size_bytes == 0) return;
    event.action = kActions[action];
    event.size_bytes = size_bytes;
    add_placed(event, segment.site, segment.device);
  };
  const bool is_mapped = segment.action >= format::kSegmentMap;
  add(is_mapped ? format::kSegmentUnmap : format::kSegmentFree, change.returned);
  add(is_mapped ? format::kSegmentMap : format::kSegmentAlloc, change.taken);
}

void Recording::on_out_of_memory(const format::OutOfMemory& failed) {
  const format::Site* const site = definitions_.find_site(failed.site);
  Event event;
  event.action = Action::kOom;
  event.address = failed.device_free_bytes;
  event.size_bytes = failed.size_bytes;
  event.time_ns = failed.time_ns;
  if (failed.limit_bytes + failed.device_total_bytes != 0) {
    event.shortage = context_.builder.add_shortage({failed.limit_bytes, failed.device_total_bytes});
  }
  add_placed(event, failed.site, site != nullptr ? site->device : device_);
}

void Recording::on_tag(const format::Tag& tag) {
  const std::uint32_t index = serials_.find(tag.serial);
  const format::Tensor* const tensor = definitions_.find_tensor(tag.tensor);
  if (index == SerialIndex::kNotSeen || tensor == nullptr) return;
  Allocation& allocation = allocations_[index];
  const bool is_tagged = (allocation.flags & Allocation::kIsTagged) != 0;
  if (is_tagged && gravity(tensor->role) <= gravity(allocation.role)) return;
  allocation.tensor = tag.tensor;
  allocation.role = tensor->role;
  allocation.flags |= Allocation::kIsTagged;
}

void Recording::on_set_phase(const format::SetPhase& set) {
  const std::uint32_t index = serials_.find(set.serial);
  if (index != SerialIndex::kNotSeen) allocations_[index].phase = set.phase;
}

// The name whose id is the mark's value.
model::StringId Recording::name_of(const format::Mark& mark) {
  return mark.value <= UINT32_MAX ? definitions_.name(static_cast<std::uint32_t>(mark.value))
                                  : model::StringId{};
}

void Recording::on_mark(const format::Mark& mark) {
  model::Mark row;
  row.time_ns = mark.time_ns;
  switch (mark.kind) {
    case PLIMSOLL_MARK_STEP:
      row.kind = model::MarkKind::kStep;
      row.step = mark.value;
      step_rows_.push_back(static_cast<std::uint32_t>(context_.builder.event_count()));
      break;
    case PLIMSOLL_MARK_OWN_STEPS:
      context_.builder.drop_steps();
      step_rows_.clear();
      return;
    case PLIMSOLL_MARK_REGION_BEGIN:
    case PLIMSOLL_MARK_REGION_END:
      row.kind = mark.kind == PLIMSOLL_MARK_REGION_BEGIN ? model::MarkKind::kRegionBegin
                                                         : model::MarkKind::kRegionEnd;
      row.name = name_of(mark);
      break;
    case PLIMSOLL_MARK_LAYER_BEGIN:
    case PLIMSOLL_MARK_LAYER_END:
      row.kind = mark.kind == PLIMSOLL_MARK_LAYER_BEGIN ? model::MarkKind::kLayerBegin
                                                        : model::MarkKind::kLayerEnd;
      row.name = name_of(mark);
      break;
    case PLIMSOLL_MARK_BACKWARD_BEGIN:
      row.kind = model::MarkKind::kBackwardBegin;
      backward_rows_.push_back(static_cast<std::uint32_t>(context_.builder.event_count()));
      break;
    case PLIMSOLL_MARK_BACKWARD_END:
      row.kind = model::MarkKind::kBackwardEnd;
      break;
    case PLIMSOLL_MARK_OUT_OF_MEMORY:
      out_of_memory(mark);
      return;
    case PLIMSOLL_MARK_LAYER:
    case PLIMSOLL_MARK_OPERATOR:
      besides_.on_doing(mark, name_of(mark));
      return;
    case PLIMSOLL_MARK_PHASE:
      besides_.on_doing(mark, {});
      return;
    default:
      context_.diagnostics.add(kLaterVersion);
      return;
  }
  context_.builder.add_mark(row);
}

// On the device of the last event, which is all that the mark tells of where.
void Recording::out_of_memory(const format::Mark& mark) {
  Event event;
  event.action = Action::kOom;
  event.size_bytes = mark.value;
  event.time_ns = mark.time_ns;
  context_.builder.add_event(event);
  context_.diagnostics.add(kDeviceFreeUnknown);
}

void Recording::on_dropped(const format::Dropped& dropped) {
  context_.diagnostics.add(kDroppedEvents, dropped.count,
                           "thread " + std::to_string(dropped.thread));
}

void Recording::on_evicted(const format::Evicted& evicted) {
  std::string example;
  if (file_state_ && file_state_->evicted_until_ns > started_ns_) {
    example = "The newest of them is " +
              base::format_duration(file_state_->evicted_until_ns - started_ns_) +
              " after the start";
  }
  context_.diagnostics.add(kEvictedEvents, evicted.count, example);
  is_limited_ = is_limited_ || evicted.count > 0;
}

void Recording::on_end(const format::End& end) { context_.diagnostics.add(kLostRecords, end.lost); }

// ---- with hindsight ---------------------------------------------------------------------------

// The words of DESIGN section 5, as the model's strings.
struct Recording::Words {
  explicit Words(model::StringTable& strings)
      : roles{{},
              strings.intern("parameter"),
              strings.intern("gradient"),
              strings.intern("optimizer_state"),
              strings.intern("buffer"),
              strings.intern("input")},
        activation(strings.intern("activation")),
        activation_gradient(strings.intern("activation_gradient")),
        temporary(strings.intern("temporary")),
        communication(strings.intern(model::kCommunication)),
        optimizer_scratch(strings.intern(model::kOptimizerScratch)),
        other(strings.intern("other")),
        unknown(strings.intern("unknown")) {}

  model::StringId roles[PLIMSOLL_ROLE_INPUT + 1];
  model::StringId activation, activation_gradient, temporary, communication, optimizer_scratch,
      other, unknown;
};

// Was it alive when the first backward after its birth began?
bool Recording::is_saved(std::uint32_t row, std::uint32_t freed_row) const {
  const auto* const next = std::upper_bound(backward_rows_.begin(), backward_rows_.end(), row);
  return next != backward_rows_.end() && *next <= freed_row;
}

// Was it gone when the step it was made in ended?
bool Recording::is_scratch(std::uint32_t row, std::uint32_t freed_row) const {
  if (freed_row == model::kNone) return false;
  const auto* const next = std::upper_bound(step_rows_.begin(), step_rows_.end(), row);
  return next == step_rows_.end() || freed_row < *next;
}

Phase Recording::phase_of_allocation(const Allocation& allocation, const Place& place) const {
  return allocation.phase == Allocation::kPhaseOfSite ? place.phase : phase_of(allocation.phase);
}

model::StringId Recording::category(const Allocation& allocation, std::uint64_t size_bytes,
                                    const Place& place, const Words& words) {
  if (gravity(allocation.role) > 0) return words.roles[allocation.role];
  if ((allocation.flags & Allocation::kIsAdopted) != 0) {
    ++counts_.adopted_unknown;
    std::uint64_t& bytes = counts_.adopted_unknown_bytes;
    if (__builtin_add_overflow(bytes, size_bytes, &bytes)) bytes = UINT64_MAX;
    return words.unknown;
  }
  if ((allocation.flags & Allocation::kInOp) != 0) return words.temporary;
  if (place.is_communication) return words.communication;
  const Phase phase = phase_of_allocation(allocation, place);
  if (phase == Phase::kForward) return words.activation;
  if (phase == Phase::kBackward) return words.activation_gradient;
  return phase == Phase::kOptimizer ? words.optimizer_scratch : words.other;
}

// The columns that hindsight fills, as many as this recording needs.
class Recording::Columns {
 public:
  Columns(model::Events& events, const std::vector<Place>& places, bool has_tensors)
      : stack_(events.stack.data()),
        category_(events.category.rows(events.size())),
        phase_(events.phase.rows(events.size())),
        flags_(events.flags.rows(events.size())) {
    const auto rows = [&](auto& column, auto field) -> model::StringId* {
      const auto is_told = [&](const Place& place) { return place.*field != model::StringId{}; };
      return std::ranges::any_of(places, is_told) ? column.rows(events.size()) : nullptr;
    };
    op_ = rows(events.op, &Place::op);
    inner_op_ = rows(events.inner_op, &Place::inner_op);
    forward_op_ = rows(events.forward_op, &Place::forward_op);
    layer_ = rows(events.layer, &Place::layer);
    if (has_tensors) tensor_ = events.tensor.rows(events.size());
  }

  void set(std::size_t row, const Place& place, Phase phase, EventFlags flags,
           model::StringId category, model::TensorId tensor) const {
    stack_[row] = place.stack;
    category_[row] = category;
    phase_[row] = phase;
    flags_[row] = flags;
    if (op_ != nullptr) op_[row] = place.op;
    if (inner_op_ != nullptr) inner_op_[row] = place.inner_op;
    if (forward_op_ != nullptr) forward_op_[row] = place.forward_op;
    if (layer_ != nullptr) layer_[row] = place.layer;
    if (tensor_ != nullptr) tensor_[row] = tensor;
  }

 private:
  model::StackId* stack_;
  model::StringId* category_;
  Phase* phase_;
  EventFlags* flags_;
  model::StringId *op_, *inner_op_, *forward_op_, *layer_;
  model::TensorId* tensor_ = nullptr;
};

void Recording::attribute() {
  end_run();
  besides_.finish();
  std::vector<Place> places = definitions_.places();
  for (Place& place : places) place.is_communication = is_communication(place, context_.builder);
  const std::vector<model::TensorId> tensors = definitions_.tensor_rows();
  const Words words(context_.builder.strings());
  const Place nowhere;
  model::Events& events = context_.builder.events();
  const Columns columns(events, places, !tensors.empty());
  const model::Lifetimes& pairs = context_.builder.pairs();
  for (std::size_t index = 0; index < allocations_.size(); ++index) {
    const Allocation& allocation = allocations_[index];
    const std::uint32_t row = pairs.alloc[index];
    const std::uint32_t site = events.stack[row].value;
    const Place& place = site < places.size() ? places[site] : nowhere;
    const Phase phase = phase_of_allocation(allocation, place);
    model::StringId word = category(allocation, events.size_bytes[row], place, words);
    if (word == words.optimizer_scratch && !is_scratch(row, pairs.free_requested[index])) {
      word = words.other;
    }
    EventFlags flags = EventFlags::kNothing;
    if ((allocation.flags & Allocation::kInOp) != 0) flags = flags | EventFlags::kTemporary;
    if ((allocation.flags & Allocation::kIsAdopted) != 0) flags = flags | EventFlags::kAdopted;
    if (word == words.activation && is_saved(row, pairs.free_requested[index])) {
      flags = flags | EventFlags::kSavedForBackward;
    }
    const model::TensorId tensor =
        allocation.tensor < tensors.size() ? tensors[allocation.tensor] : model::TensorId{};
    columns.set(row, place, phase, flags, word, tensor);
  }
  for (const Placed& other : others_) {
    const Place& place = other.site < places.size() ? places[other.site] : nowhere;
    columns.set(other.row, place, place.phase, EventFlags::kNothing, {}, {});
  }
  caches_.tell(allocations_, places, definitions_, context_);
  definitions_.tell_settings();
  tell_counts();
}

void Recording::tell_counts() {
  base::Diagnostics& diagnostics = context_.diagnostics;
  diagnostics.add(kUnseenFree, counts_.unseen_frees);
  diagnostics.add(kUndefined, counts_.undefined_sites);
  diagnostics.add(kAllocatedBeforeRecording, counts_.adopted_unknown,
                  std::to_string(counts_.adopted_unknown_bytes) + " bytes in all");
  definitions_.tell_notices();
  if (!is_limited_) return;
  std::bitset<256> devices;
  for (const Allocation& allocation : allocations_) devices.set(allocation.device);
  for (std::size_t id = 0; id < devices.size(); ++id) {
    if (!devices.test(id)) continue;
    context_.builder.mark_truncated(definitions_.device(static_cast<std::uint8_t>(id)));
  }
}

}  // namespace plimsoll::readers::native
