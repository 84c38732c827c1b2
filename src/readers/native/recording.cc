#include "readers/native/recording.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "base/categories.h"
#include "base/units.h"
#include "plimsoll/recorder_c.h"
#include "readers/native/diagnostics.h"

namespace plimsoll::readers::native {

using model::Action;
using model::Event;

namespace {

// A run of this generation of Python's collector examines all objects.
constexpr std::uint64_t kFullGeneration = 2;

}  // namespace

void Recording::on_block(const format::Block& block) {
  definitions_.set_end(block.offset + block.payload.size());
  events_in_blocks_ += block.head.events;
  if (block.offset != next_block_) {
    last_uses_.lose_block();
    holders_.lose_block();
  }
  next_block_ = block.offset + format::kBlockHeadBytes + block.payload.size();
  check_limits();
}

void Recording::check_limits() {
  const std::uint64_t memory_bytes = context_.builder.memory_bytes() + definitions_.memory_bytes() +
                                     serials_.memory_bytes() + allocations_.memory_bytes() +
                                     others_.memory_bytes() + free_sites_.memory_bytes() +
                                     caches_.memory_bytes() + side_records_.memory_bytes() +
                                     last_uses_.memory_bytes() + holders_.memory_bytes();
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
  if (key == "threads") program.threads = value;
  if (key == "mode") program.mode = value;
  if (std::int64_t ranks = 0; key == "world_size") {
    std::from_chars(value.data(), value.data() + value.size(), ranks);
    context_.builder.set_world_size(ranks);
  }
  if (key == "adapter" && value == "python") context_.diagnostics.add(kPythonAdapter);
  if (key == "layer_calls") context_.builder.layer_calls_known();
  if (key == "collections") context_.builder.collections_known();
  if (key == "adapter" && value == "cuda-driver") context_.builder.native_lines_known();
}

void Recording::on_stack(std::uint32_t id, std::span<const format::Frame> frames) {
  check_limits();  // a few bytes may repeat many frames
  if (!failure_) definitions_.stack(id, frames);
}

// A definition may follow the first events of its device. Only in a damaged file do two numbers
// refer to one device, which may be detected late.
void Recording::on_device(std::uint8_t id, const format::Device& device) {
  const model::Device before = definitions_.device(id);
  const model::Device now = device_of(device);
  const bool is_renamed = tables_[id].events != nullptr && now != before;
  if (is_renamed && !context_.builder.rename_device(before, now)) return;
  definitions_.device(id, now);
}

Tables& Recording::tables_of(std::uint8_t device) {
  last_device_ = device;
  Tables& tables = tables_[device];
  if (tables.events == nullptr) {
    const model::Device name = definitions_.device(device);
    tables = {&context_.builder.events(name), &context_.builder.lifetimes(name)};
  }
  return tables;
}

void Recording::on_alloc(const format::Alloc& alloc) {
  const format::Site* const site = definitions_.find_site(alloc.site);
  if (site == nullptr) ++counts_.undefined_sites;
  Allocation allocation;
  allocation.device = site == nullptr ? std::uint8_t{0} : site->device;
  allocation.flags = alloc.is_adopted ? Allocation::kIsAdopted : std::uint8_t{0};
  const auto [events, lifetimes] = tables_of(allocation.device);
  const std::size_t row = events->size();
  events->push_back_plain(Action::kAlloc, alloc.address, alloc.size_bytes, alloc.time_ns,
                          model::SiteId{alloc.site});
  if (alloc.padding_bytes != 0) {
    events->padding_bytes.set(row, alloc.padding_bytes);
    caches_.are_on(allocation.device);
  }
  allocation.lifetime = static_cast<std::uint32_t>(lifetimes->size());
  lifetimes->alloc.push_back(static_cast<std::uint32_t>(row));
  lifetimes->free_requested.push_back(model::kNone);
  allocations_.push_back(allocation);
  serials_.add(alloc.serial);
  last_uses_.allocated(allocation, alloc.is_adopted);
}

// The event that requested the free; kNone if there is none yet.
std::uint32_t& Recording::free_of(const Allocation& allocation) {
  return tables_[allocation.device].lifetimes->free_requested[allocation.lifetime];
}

void Recording::on_free(const format::Free& free) {
  const std::uint32_t index = serials_.find(free.serial);
  if (index == SerialIndex::kNotSeen) {
    if (free.serial != format::kNoSerial) last_uses_.freed(nullptr, free.in_op);
    ++counts_.unseen_frees;
    return;
  }
  Allocation& allocation = allocations_[index];
  const bool is_pending = (allocation.flags & Allocation::kIsPending) != 0;
  last_uses_.freed(is_pending ? nullptr : &allocation, free.in_op);
  if (is_pending) {
    allocation.flags &= static_cast<std::uint8_t>(~Allocation::kIsPending);
    add_free(Action::kFreeCompleted, allocation, free.time_ns);
    return;
  }
  std::uint32_t& freed = free_of(allocation);
  if (freed != model::kNone) {
    ++counts_.unseen_frees;
    return;
  }
  note_collector(allocation, free.thread, free.time_ns);
  freed = add_free(Action::kFree, allocation, free.time_ns);
  if (free.in_op) allocation.flags |= Allocation::kInOp;
}

void Recording::on_free_requested(const format::FreeRequested& free) {
  const std::uint32_t index = serials_.find(free.serial);
  if (index == SerialIndex::kNotSeen) return last_uses_.freed(nullptr, free.in_op);
  Allocation& allocation = allocations_[index];
  last_uses_.freed(&allocation, free.in_op);
  std::uint32_t& freed = free_of(allocation);
  if (freed != model::kNone) return;
  allocation.flags |= Allocation::kIsPending;
  if (free.in_op) allocation.flags |= Allocation::kInOp;
  caches_.are_on(allocation.device);
  note_collector(allocation, free.thread, free.time_ns);
  freed = add_free(Action::kFreeRequested, allocation, free.time_ns);
}

// Returns its row.
std::uint32_t Recording::add_free(Action action, const Allocation& allocation,
                                  std::int64_t time_ns) {
  const auto [events, lifetimes] = tables_of(allocation.device);
  const std::size_t row = events->size();
  const std::uint32_t born = lifetimes->alloc[allocation.lifetime];
  events->push_back_plain(action, events->address[born], events->size_bytes[born], time_ns,
                          has_streams_ ? site_of_free(events->site[born].value) : model::SiteId{});
  if (events->padding_bytes.present()) events->padding_bytes.set(row, events->padding_bytes[born]);
  return static_cast<std::uint32_t>(row);
}

// A free is on the allocation's stream and in its pool; nothing else is known about it.
model::SiteId Recording::site_of_free(std::uint32_t site_id) {
  if (site_id < free_sites_.size() && free_sites_[site_id] != model::kNone) {
    return model::SiteId{free_sites_[site_id]};
  }
  const format::Site* const site = definitions_.find_site(site_id);
  if (site == nullptr) return {};
  model::Site row;
  row.stream = context_.builder.stream(site->stream);
  row.pool = definitions_.pool(site->pool);
  if (site_id >= free_sites_.size()) {
    free_sites_.resize(std::size_t{site_id} + 1, model::kNone);
  }
  const model::SiteId id = context_.builder.sites().intern(row);
  free_sites_[site_id] = id.value;
  return id;
}

// Adds an event that has a site but is not an allocation.
void Recording::add_placed(const Event& event, std::uint32_t site, std::uint8_t device) {
  model::Events& events = *tables_of(device).events;
  others_.push_back({static_cast<std::uint32_t>(events.size()), site, device});
  events.push_back(event, model::SiteId{});
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
  add_placed(event, failed.site, site != nullptr ? site->device : last_device_);
}

void Recording::on_tag(const format::Tag& tag) {
  const std::uint32_t index = serials_.find(tag.serial);
  const format::Tensor* const tensor = definitions_.find_tensor(tag.tensor);
  if (index == SerialIndex::kNotSeen || tensor == nullptr) return;
  Allocation& allocation = allocations_[index];
  model::Lifetimes& lifetimes = *tables_[allocation.device].lifetimes;
  const bool is_tagged = (allocation.flags & Allocation::kIsTagged) != 0;
  if (is_tagged && base::role_precedence(tensor->role) <= base::role_precedence(allocation.role)) {
    return;
  }
  lifetimes.tensor.rows(allocation.lifetime + 1)[allocation.lifetime] = model::TensorId{tag.tensor};
  allocation.role = tensor->role;
  allocation.flags |= Allocation::kIsTagged;
}

void Recording::on_last_use(const format::LastUse& last) {
  const std::uint32_t index = serials_.find(last.serial);
  if (index == SerialIndex::kNotSeen || !last_uses_.are_known()) return;
  last_uses_.add(allocations_[index], {last.age_plus_one, last.gap});
}

void Recording::on_held(const format::Held& held) {
  const std::uint32_t index = serials_.find(held.serial);
  const std::uint32_t link = holders_.row_of(held.link);
  if (index == SerialIndex::kNotSeen || link == 0) return;
  const Allocation& allocation = allocations_[index];
  // Not set(), which ignores the default: a later walk replaces what an earlier one found.
  model::Lifetimes& lifetimes = *tables_[allocation.device].lifetimes;
  lifetimes.holder.rows(allocation.lifetime + 1)[allocation.lifetime] = link;
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
      break;
    case PLIMSOLL_MARK_OWN_STEPS:
      context_.builder.drop_steps();
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
      break;
    case PLIMSOLL_MARK_BACKWARD_END:
      row.kind = model::MarkKind::kBackwardEnd;
      break;
    case PLIMSOLL_MARK_OUT_OF_MEMORY:
      out_of_memory(mark);
      return;
    case PLIMSOLL_MARK_USES:
      row.kind = mark.value != 0 ? model::MarkKind::kUsesBegin : model::MarkKind::kUsesEnd;
      last_uses_.observe(mark.value != 0);
      context_.builder.uses_known();
      break;
    case PLIMSOLL_MARK_FORK:
      last_uses_.fork();
      return;
    case PLIMSOLL_MARK_COLLECTION_BEGIN:
      begin_collection(mark);
      return;
    case PLIMSOLL_MARK_COLLECTION_END:
      end_collection(mark.thread, mark.time_ns);
      return;
    case PLIMSOLL_MARK_LAYER:
    case PLIMSOLL_MARK_OPERATOR:
      side_records_.on_activity(mark, name_of(mark));
      return;
    case PLIMSOLL_MARK_PHASE:
      side_records_.on_activity(mark, {});
      return;
    default:
      context_.diagnostics.add(kLaterVersion);
      return;
  }
  context_.builder.add_mark(row);
}

// There is only one collection at a time, because Python's collector does not run inside itself.
void Recording::begin_collection(const format::Mark& mark) {
  collection_ = Collection{mark.thread, mark.value >= kFullGeneration, false};
  if (collection_->is_full) mark_collection(mark.time_ns);
}

void Recording::end_collection(std::uint32_t thread, std::int64_t time_ns) {
  if (!collection_ || collection_->thread != thread) return;
  if (collection_->is_marked) {
    context_.builder.add_mark(
        {model::MarkKind::kCollectionEnd, time_ns, 0, {}, collection_->is_full});
  }
  collection_.reset();
}

// Collections of young objects are frequent, so only those that free recorded memory are kept.
void Recording::mark_collection(std::int64_t time_ns) {
  if (collection_->is_marked) return;
  collection_->is_marked = true;
  context_.builder.add_mark(
      {model::MarkKind::kCollectionBegin, time_ns, 0, {}, collection_->is_full});
}

// Call before the event of the free.
void Recording::note_collector(Allocation& allocation, std::uint32_t thread, std::int64_t time_ns) {
  if (!collection_ || collection_->thread != thread) return;
  mark_collection(time_ns);
  allocation.flags |= Allocation::kIsCollected;
}

// Uses the device of the last event, because the mark itself has none.
void Recording::out_of_memory(const format::Mark& mark) {
  Event event;
  event.action = Action::kOom;
  event.size_bytes = mark.value;
  event.time_ns = mark.time_ns;
  tables_of(last_device_).events->push_back(event, model::SiteId{});
  context_.diagnostics.add(kDeviceFreeUnknown);
}

void Recording::on_dropped(const format::Dropped& dropped) {
  // The end of a collection may be among the lost events.
  end_collection(dropped.thread, dropped.time_ns);
  last_uses_.lose_events();
  context_.diagnostics.add(kDroppedEvents, dropped.count,
                           "thread " + std::to_string(dropped.thread));
}

void Recording::on_evicted(const format::Evicted& evicted) {
  std::string example;
  if (file_state_ && file_state_->evicted_until_ns > started_ns_) {
    example = "The newest of these is from " +
              base::format_duration(file_state_->evicted_until_ns - started_ns_) +
              " after the start";
  }
  context_.diagnostics.add(kEvictedEvents, evicted.count, example);
  is_limited_ = is_limited_ || evicted.count > 0;
}

void Recording::on_end(const format::End& end) { context_.diagnostics.add(kLostRecords, end.lost); }

void Recording::pairs_known() {
  for (std::size_t id = 0; id < tables_.size(); ++id) {
    const auto device = static_cast<std::uint8_t>(id);
    if (tables_[id].events == nullptr || caches_.is_on(device)) continue;
    context_.builder.pairs_known(definitions_.device(device));
  }
}

std::int64_t Recording::last_event_ns() const {
  std::int64_t last_ns = 0;
  for (const Tables& tables : tables_) {
    if (tables.events == nullptr || tables.events->size() == 0) continue;
    last_ns = std::max(last_ns, tables.events->time_ns.back());
  }
  return last_ns;
}

}  // namespace plimsoll::readers::native
