#include "autograd_link.h"

#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

namespace plimsoll::libtorch {
namespace {

// Tables of ended threads that are retained before the oldest is reused.
constexpr std::size_t kKept = 16;

std::atomic<LinkTable*> g_tables{nullptr};  // list of all; only grows

// Retired tables, oldest first; an intrusive list, so that retiring needs no memory.
std::mutex g_retired_mutex;
LinkTable* g_oldest = nullptr;
LinkTable* g_newest = nullptr;
std::size_t g_retired = 0;

}  // namespace

LinkTable& LinkTable::claim(std::uint64_t thread_id) {
  const std::lock_guard lock(g_retired_mutex);
  if (g_retired > kKept) {
    LinkTable* table = g_oldest;
    g_oldest = std::exchange(table->retired_after_, nullptr);
    --g_retired;
    table->owner_.store(thread_id, std::memory_order_relaxed);
    return *table;
  }
  auto made = std::make_unique<LinkTable>();
  LinkTable* const table = made.get();
  // calloc: untouched pages take no memory, and zeros are valid empty entries.
  table->entries_ = static_cast<Entry*>(std::calloc(kCapacity, sizeof(Entry)));
  table->mask_ = kCapacity - 1;
  if (table->entries_ == nullptr) {  // out of memory must not stop the program: use a single entry
    table->entries_ = new Entry{};
    table->mask_ = 0;
  }
  made.release();
  table->owner_.store(thread_id, std::memory_order_relaxed);
  table->next_ = g_tables.load(std::memory_order_relaxed);
  g_tables.store(table, std::memory_order_release);  // pairs with the acquire in of()
  return *table;
}

void LinkTable::retire(LinkTable& table) noexcept {
  const std::lock_guard lock(g_retired_mutex);
  (g_retired++ == 0 ? g_oldest : g_newest->retired_after_) = &table;
  g_newest = &table;
}

void LinkTable::lock() noexcept { g_retired_mutex.lock(); }
void LinkTable::unlock() noexcept { g_retired_mutex.unlock(); }

const LinkTable* LinkTable::of(std::uint64_t thread_id) {
  const LinkTable* table = g_tables.load(std::memory_order_acquire);  // pairs with claim()
  while (table != nullptr && table->owner() != thread_id) table = table->next_;
  return table;
}

}  // namespace plimsoll::libtorch
