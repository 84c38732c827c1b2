#include "overwrite.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include "attachment.h"

namespace plimsoll::libtorch {
namespace {

// A row of the plan: an allocation of the first run. Those of a device are in their order.
// src/engine/overwrite_plan.cc writes these rows.
struct PlannedAllocation {
  std::uint32_t device_type;
  std::int32_t ordinal;
  std::uint64_t size_bytes;
  std::uint64_t unused_from;  // number of an allocation of this device; the maximum: never
};

// Written to PLAN.outcome and mapped, so that it survives a crash.
struct Outcome {
  std::uint64_t overwritten_count;
  std::uint64_t overwritten_bytes;
  std::uint64_t different_row;  // of the plan, plus 1, whose allocation has another size; 0: none
  std::uint64_t different_bytes;
};

// The allocations of one device. Guarded by Overwriting::mutex.
class DevicePlan {
 public:
  void add(const PlannedAllocation& row, std::uint64_t number_in_plan) {
    if (planned_.empty()) first_row_ = number_in_plan;
    planned_.push_back(row);
  }

  void sort() {
    addresses_.resize(planned_.size());
    by_end_.resize(planned_.size());
    std::iota(by_end_.begin(), by_end_.end(), 0);
    std::ranges::stable_sort(by_end_, {}, [&](auto row) { return planned_[row].unused_from; });
  }

  void allocated(std::uint64_t address, std::uint64_t size_bytes, Outcome& outcome) {
    if (next_ >= planned_.size() || outcome.different_row != 0) return;
    if (planned_[next_].size_bytes != size_bytes) {
      outcome.different_row = first_row_ + next_ + 1;
      outcome.different_bytes = size_bytes;
      return;
    }
    while (next_end_ < by_end_.size() && planned_[by_end_[next_end_]].unused_from <= next_) {
      overwrite(by_end_[next_end_++], outcome);
    }
    addresses_[next_] = address;
    numbers_[address] = next_++;
  }

  void freed(std::uint64_t address) {
    const auto found = numbers_.find(address);
    if (found == numbers_.end()) return;
    addresses_[found->second] = 0;
    numbers_.erase(found);
  }

 private:
  void overwrite(std::size_t number, Outcome& outcome) {
    if (addresses_[number] == 0) return;
    const std::uint64_t size_bytes = planned_[number].size_bytes;
    std::memset(reinterpret_cast<void*>(addresses_[number]), 0xFF, size_bytes);
    ++outcome.overwritten_count;
    outcome.overwritten_bytes += size_bytes;
  }

  std::vector<PlannedAllocation> planned_;
  std::vector<std::uint64_t> addresses_;  // by number; 0: not live
  std::vector<std::uint32_t> by_end_;     // numbers, by unused_from
  std::unordered_map<std::uint64_t, std::size_t> numbers_;
  std::uint64_t first_row_ = 0;
  std::size_t next_ = 0;      // number of the next allocation
  std::size_t next_end_ = 0;  // in by_end_
};

class Overwriting {
 public:
  std::mutex mutex;
  const plimsoll_recorder_api* below = nullptr;
  plimsoll_recorder_api api{};
  std::array<std::uint64_t, 256> keys{};  // by the recorder's number of a device; 0: the CPU
  std::unordered_map<std::uint64_t, DevicePlan> devices;
  Outcome* outcome = nullptr;

  static std::uint64_t key(std::uint32_t type, std::int32_t ordinal) {
    return static_cast<std::uint64_t>(type) << 32 |
           (type == PLIMSOLL_DEVICE_CPU ? 0 : static_cast<std::uint32_t>(ordinal));
  }

  bool read(const char* path) {
    std::ifstream file(path, std::ios::binary);
    PlannedAllocation row{};
    for (std::uint64_t number = 0; file.read(reinterpret_cast<char*>(&row), sizeof(row));) {
      devices[key(row.device_type, row.ordinal)].add(row, number++);
    }
    for (auto& [device, plan] : devices) plan.sort();
    const std::string name = std::string(path) + ".outcome";
    const int fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ::ftruncate(fd, sizeof(Outcome)) != 0) return false;
    void* const mapped =
        ::mmap(nullptr, sizeof(Outcome), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (mapped == MAP_FAILED) return false;
    outcome = static_cast<Outcome*>(mapped);
    return true;
  }

  void allocated(std::uint8_t device, std::uint64_t address, std::uint64_t size_bytes) {
    const std::lock_guard lock(mutex);
    const auto found = devices.find(keys[device]);
    if (found != devices.end()) found->second.allocated(address, size_bytes, *outcome);
  }
  void freed(std::uint8_t device, std::uint64_t address) {
    const std::lock_guard lock(mutex);
    const auto found = devices.find(keys[device]);
    if (found != devices.end()) found->second.freed(address);
  }
};

Overwriting& overwriter() {
  static Immortal<Overwriting> made;
  return made.get();
}

void alloc_overwriting(plimsoll_context* context, std::uint8_t device, std::uint64_t address,
                       std::uint64_t size_bytes) {
  if (context != nullptr) overwriter().allocated(device, address, size_bytes);
  overwriter().below->alloc(context, device, address, size_bytes);
}
void free_overwriting(plimsoll_context* context, std::uint8_t device, std::uint64_t address) {
  overwriter().freed(device, address);
  overwriter().below->free(context, device, address);
}
void alloc_block_overwriting(plimsoll_context* context, std::uint8_t device,
                             const plimsoll_block* block) {
  overwriter().allocated(device, block->address, block->requested_bytes);
  overwriter().below->alloc_block(context, device, block);
}
void free_requested_overwriting(plimsoll_context* context, std::uint8_t device,
                                std::uint64_t address) {
  overwriter().freed(device, address);
  overwriter().below->free_requested(context, device, address);
}
void free_completed_overwriting(plimsoll_context* context, std::uint8_t device,
                                std::uint64_t address) {
  overwriter().freed(device, address);
  overwriter().below->free_completed(context, device, address);
}
std::uint8_t device_overwriting(std::uint8_t type, std::int32_t ordinal) {
  const std::uint8_t number = overwriter().below->device(type, ordinal);
  const std::lock_guard lock(overwriter().mutex);
  overwriter().keys[number] = Overwriting::key(type, ordinal);
  return number;
}

}  // namespace

const plimsoll_recorder_api* overwriting(const plimsoll_recorder_api* api) {
  static const char* const path = std::getenv("PLIMSOLL_OVERWRITE");
  if (path == nullptr || api == nullptr || api == &overwriter().api) return api;
  if (overwriter().below == api) return &overwriter().api;
  if (overwriter().below != nullptr || !overwriter().read(path)) return api;
  overwriter().below = api;
  overwriter().api = *api;
  overwriter().api.alloc = alloc_overwriting;
  overwriter().api.free = free_overwriting;
  overwriter().api.alloc_block = alloc_block_overwriting;
  overwriter().api.free_requested = free_requested_overwriting;
  overwriter().api.free_completed = free_completed_overwriting;
  overwriter().api.device = device_overwriting;
  return &overwriter().api;
}

}  // namespace plimsoll::libtorch
