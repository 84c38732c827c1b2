#include "autograd_link.h"

#include <cstdlib>
#include <deque>
#include <mutex>

namespace plimsoll::libtorch {
namespace {

// Ended threads whose tables are kept before the oldest is used again.
constexpr std::size_t kKept = 16;

std::atomic<LinkTable*> g_tables{nullptr};  // list of all; only grows
std::mutex g_retired_mutex;

std::deque<LinkTable*>& retired() {
  static auto* queue = new std::deque<LinkTable*>;
  return *queue;
}

}  // namespace

LinkTable& LinkTable::claim(std::uint64_t thread_id) {
  const std::lock_guard lock(g_retired_mutex);
  if (retired().size() > kKept) {
    LinkTable* table = retired().front();
    retired().pop_front();
    table->owner_.store(thread_id, std::memory_order_relaxed);
    return *table;
  }
  auto* table = new LinkTable;
  // calloc: pages that are never written take no memory, and zeros are valid empty entries.
  table->entries_ = static_cast<Entry*>(std::calloc(kCapacity, sizeof(Entry)));
  table->mask_ = kCapacity - 1;
  if (table->entries_ == nullptr) {  // no memory is no reason to stop the program: remember one
    table->entries_ = new Entry{};
    table->mask_ = 0;
  }
  table->owner_.store(thread_id, std::memory_order_relaxed);
  table->next_ = g_tables.load(std::memory_order_relaxed);
  g_tables.store(table, std::memory_order_release);  // with the acquire in of()
  return *table;
}

void LinkTable::retire(LinkTable& table) {
  const std::lock_guard lock(g_retired_mutex);
  retired().push_back(&table);
}

const LinkTable* LinkTable::of(std::uint64_t thread_id) {
  const LinkTable* table = g_tables.load(std::memory_order_acquire);  // with claim()
  while (table != nullptr && table->owner() != thread_id) table = table->next_;
  return table;
}

}  // namespace plimsoll::libtorch
