// Attaches and detaches the hooks that need no Python, in an order that leaves no gap.
#include <pthread.h>

#include <atomic>
#include <exception>
#include <utility>

#include "attachment.h"
#include "autograd_link.h"
#include "cpu_allocator.h"
#include "gathered_parameters.h"
#include "operators.h"
#include "overwrite.h"
#include "parameter_layers.h"
#include "parameters.h"
#include "plimsoll_libtorch.h"
#include "tensors.h"
#include "uses.h"

namespace plimsoll::libtorch {
namespace {

// Set by a static initializer of another source file, in unspecified order.
std::atomic<const plimsoll_libtorch_companion*> g_companion{nullptr};

// Takes the locks in lock order: a thread that holds one of them takes none listed before it.
void before_fork() {
  parameter_layers().mutex().lock();
  parameters().mutex().lock();
  gathered_parameters().mutex().lock();
  foreign_mutex().lock();
  LinkTable::lock();
}
void release_locks() {
  LinkTable::unlock();
  foreign_mutex().unlock();
  gathered_parameters().mutex().unlock();
  parameters().mutex().unlock();
  parameter_layers().mutex().unlock();
}
void after_fork_in_parent() {
  release_locks();
  if (is_attached() && wants_uses()) {
    recorder().mark(recorder().context(), PLIMSOLL_MARK_FORK, 0);
  }
}
void after_fork_in_child() {
  release_locks();
  // The recorder was loaded earlier and has already decided.
  if (recorder().is_recording() != 0) return;
  g_attachment.is_left_over = g_attachment.is_on.exchange(false, std::memory_order_relaxed);
}

const char* problem_of(const plimsoll_recorder_api* api) {
  if (api == nullptr) return "there is no recorder";
  if (api->abi_version != PLIMSOLL_RECORDER_ABI || api->size_bytes < sizeof(*api)) {
    return "the recorder and the adapter have different versions";
  }
  if (is_attached() || g_attachment.is_left_over) return "the adapter is attached already";
  if (c10::GetAllocator(c10::DeviceType::CPU)->raw_deleter() == nullptr) {
    return "the program has replaced torch's allocator, and the blocks of the new one cannot be "
           "followed";
  }
  return nullptr;
}

}  // namespace
}  // namespace plimsoll::libtorch

extern "C" {

const char* plimsoll_libtorch_attach(const plimsoll_recorder_api* api, plimsoll_libtorch_mode mode,
                                     plimsoll_libtorch_uses uses) try {
  using namespace plimsoll::libtorch;
  api = overwriting(api);
  if (is_attached() && g_attachment.is_for_process && api == g_attachment.api) {
    renew_uses();
    return nullptr;
  }
  if (const char* problem = problem_of(api)) return problem;
  static bool watches_forks = false;
  g_attachment.api = api;
  g_attachment.has_walks = mode != PLIMSOLL_LIBTORCH_WATCH;
  ++g_attachment.number;
  g_lost_details.store(0, std::memory_order_relaxed);
  g_backward_ends.fetch_add(1, std::memory_order_relaxed);
  if (!watches_forks) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    watches_forks = true;
  }
  if (!install_cpu_allocator()) return "the program has replaced torch's allocator too often";
  g_attachment.is_on.store(true, std::memory_order_release);
  if (mode == PLIMSOLL_LIBTORCH_FULL) {
    observe_operators(g_attachment.has_python ? Outputs::kIgnored : Outputs::kNew);
    begin_uses(uses);
  }
  if (const auto* companion = g_companion.load()) companion->begin(api);
  return nullptr;
} catch (const std::exception&) {
  plimsoll_libtorch_detach();
  return "not enough memory for its hooks";
}

void plimsoll_libtorch_set_companion(const plimsoll_libtorch_companion* companion) {
  using namespace plimsoll::libtorch;
  g_companion.store(companion);
  if (is_attached()) companion->begin(g_attachment.api);
}

const char* plimsoll_libtorch_renew(void) {
  using namespace plimsoll::libtorch;
  const auto* companion = g_companion.load();
  if (companion == nullptr) return "the program is not linked with plimsoll::libtorch_cuda";
  return is_attached() ? companion->renew() : nullptr;
}

void plimsoll_libtorch_observe(int is_wanted) {
  using namespace plimsoll::libtorch;
  if (!is_attached() || g_attachment.has_walks || (is_wanted != 0) == g_attachment.has_operators) {
    return;
  }
  if (is_wanted == 0) return stop_observing_operators();
  try {
    observe_operators(Outputs::kAll);
  } catch (const std::exception&) {
    count_lost_detail();
  }
}

void plimsoll_libtorch_begin_uses(plimsoll_libtorch_uses uses) {
  using namespace plimsoll::libtorch;
  if (is_attached() && g_attachment.has_operators && g_attachment.has_walks) begin_uses(uses);
}

void plimsoll_libtorch_end_step(void) {
  if (plimsoll::libtorch::is_attached()) plimsoll::libtorch::end_use_step();
}

void plimsoll_libtorch_see_less(plimsoll_libtorch_mode mode) {
  using namespace plimsoll::libtorch;
  if (!is_attached() || g_attachment.is_for_process || mode == PLIMSOLL_LIBTORCH_FULL) return;
  stop_observing_operators();
  g_attachment.has_walks = mode != PLIMSOLL_LIBTORCH_WATCH;
}

void plimsoll_libtorch_detach(void) {
  using namespace plimsoll::libtorch;
  if (const auto find_holders = g_attachment.find_holders.load(); find_holders && is_attached()) {
    find_holders();
  }
  if (is_attached() && g_attachment.is_for_process) return;
  if (!is_attached() && !g_attachment.is_left_over.exchange(false)) return;
  if (const auto* companion = g_companion.load()) companion->end();
  stop_observing_operators();
  g_attachment.is_on.store(false, std::memory_order_release);
  remove_cpu_allocator();
  forget_foreign_storages();
  parameters().clear();
  gathered_parameters().clear();
  parameter_layers().clear();
}

void plimsoll_libtorch_report_cuda_tensors(int is_wanted) {
  plimsoll::libtorch::g_attachment.reports_cuda_tensors.store(is_wanted != 0,
                                                              std::memory_order_relaxed);
}
}
