#include "physical_memory.h"

#include <iterator>
#include <new>

namespace plimsoll::cuda_driver {

// Reporting takes no lock and calls no driver function, so it may happen under our lock.
void PhysicalMemory::drop(std::uint64_t& count, const Memory& memory) noexcept {
  --count;
  if (memory.references + memory.mappings == 0) report_free(memory.number, memory.allocation);
}

void PhysicalMemory::raise(std::uint64_t& count, const Memory& memory) noexcept {
  if (memory.references + memory.mappings == 0) report_alloc(memory.number, memory.allocation);
  ++count;
}

void PhysicalMemory::created(std::uint64_t handle, const Allocation& allocation) {
  const auto memory = std::make_shared<Memory>();
  memory->allocation = allocation;
  const std::lock_guard lock(mutex_);
  memory->number = ++last_number_;
  handles_[handle] = {memory, 1};
  raise(memory->references, *memory);
}

void PhysicalMemory::retained(std::uint64_t handle, std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  auto at = mappings_.upper_bound(address);
  if (at == mappings_.begin()) return;
  const Mapping& mapping = std::prev(at)->second;
  if (address - mapping.address >= mapping.size_bytes) return;
  Handle& row = handles_[handle];
  row.memory = mapping.memory;
  ++row.references;
  raise(mapping.memory->references, *mapping.memory);
}

void PhysicalMemory::mapped(std::uint64_t handle, std::uint64_t address, std::uint64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return;
  Memory& memory = *found->second.memory;
  mappings_[address] = {address, size_bytes, found->second.memory};
  raise(memory.mappings, memory);
}

PhysicalMemory::MemoryRef PhysicalMemory::release(std::uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return nullptr;
  MemoryRef memory = found->second.memory;
  if (--found->second.references == 0) handles_.erase(found);
  drop(memory->references, *memory);
  return memory;
}

void PhysicalMemory::undo_release(std::uint64_t handle, const MemoryRef& memory) {
  const std::lock_guard lock(mutex_);
  Handle& row = handles_[handle];
  row.memory = memory;
  ++row.references;
  raise(memory->references, *memory);
}

// One call may unmap several adjacent mappings.
std::vector<PhysicalMemory::Mapping> PhysicalMemory::unmap(std::uint64_t address,
                                                           std::uint64_t size_bytes) {
  std::vector<Mapping> taken;
  const std::lock_guard lock(mutex_);
  auto at = mappings_.lower_bound(address);
  while (at != mappings_.end() && at->first - address < size_bytes) {
    taken.push_back(at->second);
    at = mappings_.erase(at);
    Memory& memory = *taken.back().memory;
    drop(memory.mappings, memory);
  }
  return taken;
}

void PhysicalMemory::undo_unmap(const std::vector<Mapping>& mappings) {
  const std::lock_guard lock(mutex_);
  for (const Mapping& mapping : mappings) {
    mappings_[mapping.address] = mapping;
    raise(mapping.memory->mappings, *mapping.memory);
  }
}

void PhysicalMemory::forget() noexcept {
  mutex_.unlock();
  handles_.clear();
  mappings_.clear();
}

PhysicalMemory& physical_memory() noexcept {
  alignas(PhysicalMemory) static unsigned char place[sizeof(PhysicalMemory)];
  static auto* const kMemory = ::new (static_cast<void*>(place)) PhysicalMemory;  // never destroyed
  return *kMemory;
}

}  // namespace plimsoll::cuda_driver
