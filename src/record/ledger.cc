#include "record/ledger.h"

#include <algorithm>

#include "plimsoll/recorder_c.h"

namespace plimsoll::record {
namespace {

constexpr std::uint8_t kLastPhase = PLIMSOLL_PHASE_DATA;

std::uint8_t known_phase(std::uint8_t phase) {
  return phase <= kLastPhase ? phase : std::uint8_t{PLIMSOLL_PHASE_OTHER};
}

format::Site site_of(const Event& event) {
  return {event.layer,      event.outer_op, event.inner_op,
          event.forward_op, event.stack,    known_phase(event.phase()),
          event.device()};
}

}  // namespace

void Ledger::apply(const Event& event, const Origin& origin, Receivers receivers) {
  switch (event.kind()) {
    case Kind::kAlloc:
      if (event.address != 0) alloc(event, origin, event.op_instance, receivers);
      return;
    case Kind::kFree:
      if (event.address != 0) free(event, origin, receivers);
      return;
    case Kind::kAdopt:
      if (event.address != 0) adopt(event, origin, receivers);
      return;
    case Kind::kTag:
      tag(live_.find({event.address, event.device()}), event.op_instance, receivers);
      return;
    case Kind::kSetPhase:
      set_phase(event, origin, receivers);
      return;
    case Kind::kMark: {
      const format::Mark mark{origin.time_ns, origin.thread,
                              static_cast<std::uint8_t>(event.size_bytes()), event.address};
      for (EventReceiver* receiver : receivers) receiver->on_mark(mark);
      return;
    }
  }
}

void Ledger::alloc(const Event& event, const Origin& origin, std::uint32_t op_instance,
                   Receivers receivers) {
  const LiveRow* older = live_.find({event.address, event.device()});
  if (older != nullptr) end_older(older, origin, receivers);

  LiveRow row;
  row.address = event.address;
  row.size_bytes = event.size_bytes();
  row.serial = next_serial_++;
  row.thread = origin.thread;
  row.op_instance = op_instance;
  row.site = sites_.id(site_of(event));
  row.device = event.device();
  row.is_adopted = event.kind() == Kind::kAdopt;
  begin_life(row);

  if (op_instance != 0) {
    remember(row, *origin.op_log);
  }
  format::Alloc told;
  told.time_ns = origin.time_ns;
  told.thread = origin.thread;
  told.site = row.site;
  told.serial = row.serial;
  told.address = row.address;
  told.size_bytes = row.size_bytes;
  told.is_adopted = row.is_adopted;
  const LiveTotals live{live_bytes_, devices_[row.device].live_bytes, row.device};
  for (EventReceiver* receiver : receivers) receiver->on_alloc(told, live);
}

void Ledger::begin_life(const LiveRow& row) {
  live_.insert(row);
  live_bytes_ += row.size_bytes;
  device_count_ = std::max(device_count_, std::size_t{row.device} + 1);
  devices_[row.device].live_bytes += row.size_bytes;
  ++devices_[row.device].live_count;
}

void Ledger::end_life(const LiveRow* row) {
  live_bytes_ -= row->size_bytes;
  devices_[row->device].live_bytes -= row->size_bytes;
  --devices_[row->device].live_count;
  live_.erase(row);
}

// An operator that allocates and frees on and on is remembered by what is alive of it: the log
// grows with the live set, not with time.
void Ledger::remember(const LiveRow& row, OpLog& log) {
  log.enter(row.thread, row.op_instance);
  if (log.allocations.size() >= log.most) {
    std::erase_if(log.allocations, [&](const OpAllocation& allocation) {
      const LiveRow* live = live_.find({allocation.address, allocation.device});
      return live == nullptr || live->serial != allocation.serial;
    });
    log.most = std::max(OpLog::kMost, 2 * log.allocations.size());
  }
  log.allocations.push_back({row.serial, row.address, row.site, row.device});
}

void Ledger::end_older(const LiveRow* row, const Origin& origin, Receivers receivers) {
  ++replaced_;
  const format::Free told{origin.time_ns, origin.thread, row->serial, row->address, false};
  end_life(row);
  for (EventReceiver* receiver : receivers) receiver->on_free(told);
}

void Ledger::free(const Event& event, const Origin& origin, Receivers receivers) {
  format::Free told;
  told.time_ns = origin.time_ns;
  told.thread = origin.thread;
  told.address = event.address;
  const LiveRow* row = live_.find({event.address, event.device()});
  if (row == nullptr) {
    ++unmatched_;
  } else {
    told.serial = row->serial;
    told.in_op = row->op_instance != 0 && row->op_instance == event.op_instance &&
                 row->thread == origin.thread;
    end_life(row);
  }
  for (EventReceiver* receiver : receivers) receiver->on_free(told);
}

void Ledger::adopt(const Event& event, const Origin& origin, Receivers receivers) {
  const LiveKey key{event.address, event.device()};
  if (live_.find(key) == nullptr) alloc(event, origin, 0, receivers);
  tag(live_.find(key), event.op_instance, receivers);
}

// Parameter before gradient before optimizer state …, and what is only known comes last.
bool Ledger::is_graver(std::uint32_t tensor, std::uint32_t than) const {
  const auto weight = [&](std::uint32_t id) {
    const std::uint8_t role = id == 0 ? std::uint8_t{PLIMSOLL_ROLE_KNOWN} : roles_[id - 1];
    return role == PLIMSOLL_ROLE_KNOWN ? 255 : int{role};
  };
  return than == 0 || weight(tensor) <= weight(than);
}

void Ledger::tag(LiveRow* row, std::uint32_t tensor, Receivers receivers) {
  if (row == nullptr || tensor == 0 || tensor > roles_.size()) return;
  if (row->tensor == tensor || !is_graver(tensor, row->tensor)) return;
  row->tensor = tensor;
  for (EventReceiver* receiver : receivers) receiver->on_tag({row->serial, tensor});
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
    LiveRow* row = live_.find({allocation.address, allocation.device});
    if (row != nullptr && row->serial == allocation.serial) row->site = allocation.site;
    for (EventReceiver* receiver : receivers) receiver->on_set_phase({allocation.serial, phase});
  }
}

void Ledger::forget_live() {
  live_.clear();
  live_bytes_ = 0;
  devices_ = {};
  device_count_ = 1;
}

}  // namespace plimsoll::record
