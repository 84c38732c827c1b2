// The cost of an event in the shadow heap, which the CUDA adapter updates in the allocating thread
// under the device's lock. Replays the events of a random run of a model allocator repeatedly.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "model_allocator.h"
#include "shadow_heap.h"

namespace {

using namespace plimsoll::libtorch_cuda;

constexpr int kOperations = 60'000;
constexpr std::size_t kMostLive = 3'000;
constexpr int kRounds = 40;

std::vector<ModelEvent> events_of(const HeapSettings& settings) {
  std::vector<ModelEvent> events;
  ModelAllocator model(settings, [&](const ModelEvent& event) { events.push_back(event); });
  std::mt19937 random(7);
  std::vector<std::uint64_t> live;
  for (int i = 0; i < kOperations; ++i) {
    const bool is_full = live.size() >= kMostLive;
    if (!is_full && (random() % 2 == 0 || live.empty())) {
      live.push_back(
          model.alloc(1 + random() % (std::uint64_t{1} << (10 + random() % 14)), random() % 2));
      continue;
    }
    std::swap(live[random() % live.size()], live.back());
    model.request_free(live.back());
    model.complete_free(live.back());
    live.pop_back();
  }
  return events;
}

void replay(ShadowHeap& heap, const std::vector<ModelEvent>& events) {
  for (const ModelEvent& e : events) {
    switch (e.what) {
      case ModelEvent::What::kAlloc:
        heap.alloc(e.address, e.bytes, e.stream);
        break;
      case ModelEvent::What::kFreeRequested:
        heap.free_requested(e.address);
        break;
      case ModelEvent::What::kFreeCompleted:
        heap.free_completed(e.address);
        break;
      case ModelEvent::What::kSegment:
        heap.segment(e.action, e.address, e.bytes, e.stream, e.pool);
        break;
    }
  }
}

void measure(const char* what, const HeapSettings& settings) {
  const std::vector<ModelEvent> events = events_of(settings);
  ShadowHeap heap(settings);
  std::vector<double> ns;
  for (int round = 0; round < kRounds; ++round) {
    heap.clear(settings);
    const auto begin = std::chrono::steady_clock::now();
    replay(heap, events);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    ns.push_back(took.count() / static_cast<double>(events.size()));
  }
  std::sort(ns.begin(), ns.end());
  std::printf("| %-22s | %8zu | %6.1f | %6.1f | %llu |\n", what, events.size(), ns.front(),
              ns[ns.size() / 2], static_cast<unsigned long long>(heap.unexplained()));
}

}  // namespace

int main() {
  std::printf("| settings | events | best ns/event | median | misfits |\n|---|---|---|---|---|\n");
  measure("default", {});
  measure("expandable segments", {.has_expandable_segments = true});
  return 0;
}
