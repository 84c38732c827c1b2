// A recorder for tests that stores each device's live blocks with their layers, its segments, and
// sums.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plimsoll/recorder_c.h"

namespace plimsoll::libtorch_cuda {

struct RecordedDevice {
  struct Block {
    plimsoll_block block{};
    std::uint32_t layer = 0;
    std::uint32_t op_instance = 0;
    bool is_adopted = false;
    bool is_pending = false;
    plimsoll_context context{};  // of the allocation
    std::uint32_t tensor = 0;    // 1000 times its role, and the name
  };
  std::map<std::uint64_t, Block> blocks;
  std::map<std::uint64_t, std::uint64_t> segments;
  std::map<std::uint64_t, std::uint32_t> pools;  // of segments that have one
  std::uint64_t mapped_bytes = 0;                // of expandable segments
  std::uint64_t misfits = 0;  // allocations at live addresses, frees of unknown ones
  std::uint64_t allocs = 0;
  std::vector<plimsoll_block> failed;
  std::map<std::uint8_t, std::uint64_t> notices;  // by plimsoll_notice

  std::uint64_t allocated_bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [address, each] : blocks) sum += each.is_pending ? 0 : each.block.size_bytes;
    return sum;
  }
  std::uint64_t reserved_bytes() const {
    std::uint64_t sum = mapped_bytes;
    for (const auto& [address, bytes] : segments) sum += bytes;
    return sum;
  }
};

// There must be at most one at a time.
class FakeRecorder {
 public:
  static std::array<RecordedDevice, 8>& devices() {
    static std::array<RecordedDevice, 8> all;
    return all;
  }
  static void clear() {
    devices().fill({});
    on_settle() = nullptr;
  }
  // Called when the recorder can take many events in a row.
  static std::function<void()>& on_settle() {
    static std::function<void()> call;
    return call;
  }
  static plimsoll_context* context() {
    thread_local plimsoll_context mine{};
    return &mine;
  }

  static const plimsoll_recorder_api& api() {
    static const plimsoll_recorder_api all = make();
    return all;
  }

 private:
  static plimsoll_recorder_api make() {
    plimsoll_recorder_api api{};
    api.abi_version = PLIMSOLL_RECORDER_ABI;
    api.size_bytes = sizeof(api);
    api.context = &context;
    api.name = [](const char* text, std::size_t size) {
      return std::string(text, size) == "0.1" ? std::uint32_t{1} : std::uint32_t{2};
    };
    api.device = [](std::uint8_t, std::int32_t ordinal) {
      return static_cast<std::uint8_t>(ordinal + 1);
    };
    api.alloc_block = [](plimsoll_context* c, std::uint8_t device, const plimsoll_block* block) {
      RecordedDevice& reported = devices()[device];
      ++reported.allocs;
      add(reported, {*block, c->layer, c->op_instance, false, false, *c});
    };
    api.adopt_block = [](plimsoll_context* c, std::uint8_t device, const plimsoll_block* block,
                         std::uint32_t) {
      add(devices()[device], {*block, c->layer, c->op_instance, true, false, *c});
    };
    api.free_requested = [](plimsoll_context*, std::uint8_t device, std::uint64_t address) {
      RecordedDevice& reported = devices()[device];
      const auto found = reported.blocks.find(address);
      if (found == reported.blocks.end() || found->second.is_pending) {
        ++reported.misfits;
      } else {
        found->second.is_pending = true;
      }
    };
    api.free_completed = [](plimsoll_context*, std::uint8_t device, std::uint64_t address) {
      if (devices()[device].blocks.erase(address) == 0) ++devices()[device].misfits;
    };
    api.segment = [](plimsoll_context*, std::uint8_t device, std::uint8_t action,
                     std::uint64_t address, std::uint64_t size, std::uint64_t, std::uint32_t pool) {
      if (pool != 0) devices()[device].pools[address] = pool;
      move_segment(devices()[device], action, address, size);
    };
    api.tensor = [](std::uint8_t role, std::uint32_t name, std::uint32_t, std::uint32_t) {
      return role * 1000U + name;
    };
    api.tag = [](plimsoll_context*, std::uint8_t device, std::uint64_t address,
                 std::uint32_t tensor) {
      const auto found = devices()[device].blocks.find(address);
      if (found != devices()[device].blocks.end()) found->second.tensor = tensor;
    };
    api.out_of_memory = [](plimsoll_context*, std::uint8_t device, const plimsoll_block* request,
                           std::uint64_t, std::uint64_t,
                           std::uint64_t) { devices()[device].failed.push_back(*request); };
    api.setting = [](std::uint32_t, std::uint8_t, std::uint64_t) {};
    api.notice = [](std::uint8_t notice, std::uint8_t device, std::uint64_t count, std::uint32_t) {
      devices()[device].notices[notice] = count;
    };
    api.settle = [] {
      if (on_settle()) on_settle()();
    };
    return api;
  }
  static void add(RecordedDevice& reported, const RecordedDevice::Block& block) {
    if (!reported.blocks.emplace(block.block.address, block).second) ++reported.misfits;
  }
  static void move_segment(RecordedDevice& reported, std::uint8_t action, std::uint64_t address,
                           std::uint64_t size) {
    if (action == PLIMSOLL_SEGMENT_MAP) {
      reported.mapped_bytes += size;
    } else if (action == PLIMSOLL_SEGMENT_UNMAP) {
      reported.mapped_bytes -= size;
    } else if (action == PLIMSOLL_SEGMENT_ALLOC) {
      if (!reported.segments.emplace(address, size).second) ++reported.misfits;
    } else if (reported.segments.erase(address) == 0) {
      ++reported.misfits;
    }
  }
};

}  // namespace plimsoll::libtorch_cuda
