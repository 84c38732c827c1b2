#include "record/ledger/ledger.h"

#include <algorithm>

#include "base/categories.h"
#include "plimsoll/recorder_c.h"

namespace plimsoll::record {
namespace {

constexpr std::uint8_t kLastPhase = PLIMSOLL_PHASE_DATA;

std::uint8_t known_phase(std::uint8_t phase) {
  return phase <= kLastPhase ? phase : std::uint8_t{PLIMSOLL_PHASE_OTHER};
}

format::Site site_of(const Event& event, const EventDetails& details) {
  return {event.layer,      event.outer_op, event.inner_op,
          event.forward_op, event.stack,    known_phase(event.phase()),
          event.device(),   details.stream, details.pool,
          event.autograd()};
}

bool was_in_op(const Event& event, const Origin& origin, const LiveRow& row) {
  return row.op_instance != 0 && row.op_instance == event.op_instance &&
         row.thread == origin.thread;
}

}  // namespace

void Ledger::apply(const Event& event, const Event& slot, const Origin& origin,
                   Receivers receivers) {
  const auto plain = [&] { return EventDetails{.requested_bytes = event.size_bytes()}; };
  switch (event.kind()) {
    case Kind::kAlloc:
      if (event.address != 0) alloc(event, plain(), origin, event.op_instance, receivers);
      return;
    case Kind::kAllocBlock:
      if (event.address != 0) alloc(event, details_of(slot), origin, event.op_instance, receivers);
      return;
    case Kind::kFree:
      if (event.address != 0) free(event, origin, receivers);
      return;
    case Kind::kFreeRequested:
      if (event.address != 0) free_requested(event, origin, receivers);
      return;
    case Kind::kAdopt:
      if (event.address != 0) adopt(event, plain(), origin, receivers);
      return;
    case Kind::kAdoptBlock:
      if (event.address != 0) adopt(event, details_of(slot), origin, receivers);
      return;
    case Kind::kSegment:
      if (event.address != 0) segment(event, details_of(slot), origin, receivers);
      return;
    case Kind::kOutOfMemory:
      out_of_memory(event, details_of(slot), origin, receivers);
      return;
    case Kind::kTag:
      tag(rows_.find({event.address, event.device()}), event.op_instance, receivers);
      return;
    case Kind::kSetPhase:
      set_phase(event, origin, receivers);
      return;
    case Kind::kDeviceFigure: {
      const format::DeviceFigure figure{.time_ns = origin.time_ns,
                                        .device = event.device(),
                                        .figure = static_cast<std::uint8_t>(event.size_bytes()),
                                        .value = event.address,
                                        .pid = event.op_instance,
                                        .name = event.layer};
      for (EventReceiver* receiver : receivers) receiver->on_device_figure(figure);
      return;
    }
    case Kind::kMark:
      mark(event, origin, receivers);
      return;
  }
}

void Ledger::alloc(const Event& event, const EventDetails& details, const Origin& origin,
                   std::uint32_t op_instance, Receivers receivers) {
  const LiveRow* older = rows_.find({event.address, event.device()});
  if (older != nullptr) end_older(older, origin, receivers);

  LiveRow row;
  row.address = event.address;
  row.size_bytes = event.size_bytes();
  row.requested_bytes = details.requested_bytes;
  row.serial = next_serial_++;
  row.thread = origin.thread;
  row.op_instance = op_instance;
  row.site = sites_.id(site_of(event, details));
  row.device = event.device();
  row.is_adopted = event.kind() == Kind::kAdopt || event.kind() == Kind::kAdoptBlock;
  begin_life(row);

  if (op_instance != 0) {
    remember(row, *origin.op_log);
  }
  format::Alloc reported;
  reported.time_ns = origin.time_ns;
  reported.thread = origin.thread;
  reported.site = row.site;
  reported.serial = row.serial;
  reported.address = row.address;
  reported.size_bytes = row.requested_bytes;
  reported.padding_bytes = row.size_bytes - row.requested_bytes;
  reported.is_adopted = row.is_adopted;
  LiveTotals live = live_totals(row.device);
  live.phase = known_phase(event.phase());
  for (EventReceiver* receiver : receivers) receiver->on_alloc(reported, live);
}

DeviceTotals& Ledger::totals_of(std::uint8_t device) {
  device_count_ = std::max(device_count_, std::size_t{device} + 1);
  return devices_[device];
}

LiveTotals Ledger::live_totals(std::uint8_t device) const {
  const DeviceTotals& totals = devices_[device];
  return {.bytes = live_bytes_,
          .device_bytes = totals.live_bytes,
          .device_reserved_bytes = totals.reserved_bytes,
          .uses = totals.uses,
          .next_serial = next_serial_,
          .device = device};
}

void Ledger::begin_life(const LiveRow& row) {
  rows_.insert(row);
  live_bytes_ += row.size_bytes;
  ++live_count_;
  DeviceTotals& totals = totals_of(row.device);
  totals.live_bytes += row.size_bytes;
  totals.active_bytes += row.size_bytes;
  totals.requested_bytes += row.requested_bytes;
  totals.uses[use_of(row)] += row.size_bytes;
  ++totals.live_count;
}

std::uint8_t Ledger::use_of(const LiveRow& row) const {
  const std::uint8_t role = role_of(row.tensor);
  if (role != PLIMSOLL_ROLE_KNOWN) return role;
  if (row.is_adopted) return PLIMSOLL_USE_ADOPTED;
  switch (row.site != 0 ? sites_[row.site].phase : std::uint8_t{PLIMSOLL_PHASE_OTHER}) {
    case PLIMSOLL_PHASE_FORWARD:
      return PLIMSOLL_USE_FORWARD;
    case PLIMSOLL_PHASE_BACKWARD:
      return PLIMSOLL_USE_BACKWARD;
    case PLIMSOLL_PHASE_OPTIMIZER:
      return PLIMSOLL_USE_OPTIMIZER;
    default:
      return PLIMSOLL_ROLE_KNOWN;
  }
}

// The block still counts as active.
void Ledger::end_live(const LiveRow& row, Where where, Receivers receivers) {
  live_bytes_ -= row.size_bytes;
  --live_count_;
  DeviceTotals& totals = devices_[row.device];
  totals.live_bytes -= row.size_bytes;
  totals.requested_bytes -= row.requested_bytes;
  std::uint8_t use = use_of(row);
  totals.uses[use] -= row.size_bytes;
  --totals.live_count;
  const bool is_temporary = where == Where::kInItsOperator && !row.is_adopted &&
                            role_of(row.tensor) == PLIMSOLL_ROLE_KNOWN;
  if (is_temporary) {
    const UseChange change{row.serial, row.size_bytes, row.device, use, PLIMSOLL_USE_TEMPORARY};
    for (EventReceiver* receiver : receivers) receiver->on_use(change);
    use = PLIMSOLL_USE_TEMPORARY;
  }
  const Ended ended{row.serial, row.size_bytes, row.requested_bytes,
                    row.site,   row.tensor,     row.device,
                    use,        row.is_adopted};
  for (EventReceiver* receiver : receivers) receiver->on_ended(ended);
}

void Ledger::end_life(const LiveRow* row, Where where, Receivers receivers) {
  if (!row->is_pending) end_live(*row, where, receivers);
  devices_[row->device].active_bytes -= row->size_bytes;
  rows_.erase(row);
}

// When the log is full, drops what is no longer live: an operator that keeps allocating and freeing
// grows the log with its live set, not with time.
void Ledger::remember(const LiveRow& row, OpLog& log) {
  log.enter(row.thread, row.op_instance);
  if (log.allocations.size() >= log.most) {
    std::erase_if(log.allocations, [&](const OpAllocation& allocation) {
      const LiveRow* live = rows_.find({allocation.address, allocation.device});
      return live == nullptr || live->serial != allocation.serial;
    });
    log.most = std::max(OpLog::kMost, 2 * log.allocations.size());
  }
  log.allocations.push_back({row.serial, row.address, row.site, row.device});
}

void Ledger::end_older(const LiveRow* row, const Origin& origin, Receivers receivers) {
  ++replaced_;
  const format::Free reported{origin.time_ns, origin.thread, row->serial, row->address, false};
  end_life(row, Where::kElsewhere, receivers);
  for (EventReceiver* receiver : receivers) receiver->on_free(reported, {});
}

void Ledger::free(const Event& event, const Origin& origin, Receivers receivers) {
  format::Free reported;
  reported.time_ns = origin.time_ns;
  reported.thread = origin.thread;
  reported.address = event.address;
  const LiveRow* row = rows_.find({event.address, event.device()});
  if (row == nullptr) {
    ++unmatched_;
  } else {
    reported.serial = row->serial;
    reported.in_op = !row->is_pending && was_in_op(event, origin, *row);
    end_life(row, reported.in_op ? Where::kInItsOperator : Where::kElsewhere, receivers);
  }
  for (EventReceiver* receiver : receivers) receiver->on_free(reported, event.use());
}

// For an unknown address, the free() that follows reports the event.
void Ledger::free_requested(const Event& event, const Origin& origin, Receivers receivers) {
  LiveRow* row = rows_.find({event.address, event.device()});
  if (row == nullptr || row->is_pending) return;
  const bool is_in_op = was_in_op(event, origin, *row);
  end_live(*row, is_in_op ? Where::kInItsOperator : Where::kElsewhere, receivers);
  row->is_pending = true;
  const format::FreeRequested reported{origin.time_ns, origin.thread, row->serial, is_in_op};
  for (EventReceiver* receiver : receivers) receiver->on_free_requested(reported, event.use());
}

void Ledger::adopt(const Event& event, const EventDetails& details, const Origin& origin,
                   Receivers receivers) {
  const LiveKey key{event.address, event.device()};
  if (rows_.find(key) == nullptr) alloc(event, details, origin, 0, receivers);
  tag(rows_.find(key), event.op_instance, receivers);
}

void Ledger::segment(const Event& event, const EventDetails& details, const Origin& origin,
                     Receivers receivers) {
  format::Segment reported;
  reported.time_ns = origin.time_ns;
  reported.thread = origin.thread;
  reported.site = sites_.id(site_of(event, details));
  reported.action = details.action;
  reported.device = event.device();
  reported.address = event.address;
  reported.size_bytes = event.size_bytes();
  DeviceTotals& totals = totals_of(reported.device);
  totals.reserved_bytes += segments_.apply(reported);
  totals.has_segments = true;
  const LiveTotals live = live_totals(reported.device);
  for (EventReceiver* receiver : receivers) {
    receiver->on_reserved(live);
    receiver->on_segment(reported);
  }
}

void Ledger::out_of_memory(const Event& event, const EventDetails& details, const Origin& origin,
                           Receivers receivers) {
  format::OutOfMemory reported;
  reported.time_ns = origin.time_ns;
  reported.thread = origin.thread;
  reported.site = sites_.id(site_of(event, details));
  reported.size_bytes = event.size_bytes();
  reported.device_free_bytes = event.address;
  reported.limit_bytes = details.limit_bytes;
  reported.device_total_bytes = details.device_total_bytes;
  failures_[event.device()] = reported;
  for (EventReceiver* receiver : receivers) receiver->on_out_of_memory(reported);
}

const format::OutOfMemory* Ledger::last_failure(std::uint8_t device) const {
  const auto found = failures_.find(device);
  return found == failures_.end() ? nullptr : &found->second;
}

void Ledger::mark(const Event& event, const Origin& origin, Receivers receivers) {
  const format::Mark mark{origin.time_ns, origin.thread,
                          static_cast<std::uint8_t>(event.size_bytes()), event.address};
  if (mark.kind == PLIMSOLL_MARK_CALL_END) {
    has_grown_ = floors_.end_step(live_bytes_) || has_grown_;
    return;
  }
  if (mark.kind == PLIMSOLL_MARK_STEP) {
    if (!last_step_) {
      last_step_.emplace();
      floors_ = {};  // of calls before
    }
    last_step_->step = mark.value;
    last_step_->uses.clear();
    for (const DeviceTotals& totals : devices()) last_step_->uses.push_back(totals.uses);
    has_grown_ = floors_.end_step(live_bytes_) || has_grown_;
  }
  if (mark.kind == PLIMSOLL_MARK_OWN_STEPS) floors_ = {};
  if (mark.kind == PLIMSOLL_MARK_FORK) fork_serial_ = next_serial_;
  for (EventReceiver* receiver : receivers) receiver->on_mark(mark);
}

std::uint8_t Ledger::role_of(std::uint32_t tensor) const {
  return tensor == 0 ? std::uint8_t{PLIMSOLL_ROLE_KNOWN} : roles_[tensor - 1];
}

bool Ledger::has_precedence(std::uint32_t tensor, std::uint32_t than) const {
  return than == 0 ||
         base::role_precedence(role_of(tensor)) >= base::role_precedence(role_of(than));
}

void Ledger::tag(LiveRow* row, std::uint32_t tensor, Receivers receivers) {
  if (row == nullptr || tensor == 0 || tensor > roles_.size()) return;
  if (row->tensor == tensor || !has_precedence(tensor, row->tensor)) return;
  if (role_of(tensor) == PLIMSOLL_ROLE_ACTIVATION && !row->is_adopted) return;
  const std::uint8_t before = use_of(*row);
  row->tensor = tensor;
  for (EventReceiver* receiver : receivers) receiver->on_tag({row->serial, tensor});
  change_use(*row, before, receivers);
}

// `before` is what the row was used for until now.
void Ledger::change_use(const LiveRow& row, std::uint8_t before, Receivers receivers) {
  const UseChange change{row.serial, row.size_bytes, row.device, before, use_of(row)};
  if (change.from == change.to || row.is_pending) return;
  UseBytes& uses = devices_[row.device].uses;
  uses[change.from] -= change.size_bytes;
  uses[change.to] += change.size_bytes;
  for (EventReceiver* receiver : receivers) receiver->on_use(change);
}

void Ledger::set_phase(const Event& event, const Origin& origin, Receivers receivers) {
  OpLog& log = *origin.op_log;
  if (event.op_instance == 0 || log.thread != origin.thread || log.op_instance != event.op_instance)
    return;
  const std::uint8_t phase = known_phase(event.phase());
  for (OpAllocation& allocation : log.allocations) {
    if (allocation.site == 0) continue;
    format::Site site = sites_[allocation.site];
    if (site.phase == phase) continue;
    site.phase = phase;
    allocation.site = sites_.id(site);
    LiveRow* row = rows_.find({allocation.address, allocation.device});
    if (row != nullptr && row->serial == allocation.serial) {
      const std::uint8_t before = use_of(*row);
      row->site = allocation.site;
      change_use(*row, before, receivers);
    }
    for (EventReceiver* receiver : receivers) receiver->on_set_phase({allocation.serial, phase});
  }
}

void Ledger::forget_live() {
  rows_.clear();
  segments_.clear();
  live_bytes_ = 0;
  live_count_ = 0;
  devices_ = {};
  device_count_ = 1;
  failures_.clear();
  last_step_.reset();
  floors_ = {};
}

}  // namespace plimsoll::record
