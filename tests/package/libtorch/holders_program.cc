// Keeps tensors in one way: holders_program WAY PATH. test_libtorch_holders.py says what the
// recording has to name. `run` in place of PATH: another process records it. The way `threads`
// looks for holders COUNT times while other threads allocate and free: holders_program threads PATH
// COUNT.
#include <ATen/Parallel.h>
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plimsoll/libtorch/memory_tracer.h"

namespace {

using torch::Tensor;

constexpr int kSteps = 24;

std::vector<Tensor> history;
std::vector<Tensor> losses;
std::map<std::string, Tensor> cache;
std::unordered_map<int, std::vector<Tensor>> by_step;
std::deque<Tensor> recent;
std::function<void(const Tensor&)> callback;
std::vector<Tensor> batch;  // emptied in each step: what it once held is in its memory still
std::deque<Tensor> window;  // the same
Tensor watched;

struct Trainer {
  std::string name = "trainer";
  std::vector<std::pair<int, Tensor>> kept;
};
std::unique_ptr<Trainer> trainer;

struct NetImpl : torch::nn::Module {
  Tensor forward(const Tensor& x) {
    seen.push_back(x * 2);
    return (x * weight).mean();
  }
  Tensor weight = register_parameter("weight", torch::ones({256, 256}));
  std::vector<Tensor> seen;
};
TORCH_MODULE(Net);

Tensor block() { return torch::ones({256, 256}); }
Tensor with_graph(const Tensor& weight) { return (block() * weight).square().mean(); }

void keep_in_function(const Tensor& tensor) {
  static std::vector<Tensor> kept;
  kept.push_back(tensor);
}

[[gnu::noinline]] void lose() {
  auto* const lost = new Tensor(block());
  if (lost->dim() != 2) delete lost;
}

// Uses the stack that other functions have used.
[[gnu::noinline]] int overwrite_stack(int depth) {
  volatile char bytes[512] = {};
  bytes[depth] = 1;
  return depth == 0 ? 0 : bytes[depth] + overwrite_stack(depth - 1);
}

void use_and_forget() {
  batch.clear();
  for (int i = 0; i < 4; ++i) batch.push_back(block());
  window.push_back(block());
  if (window.size() > 4) window.pop_front();
}

struct Locals {
  std::vector<Tensor>* losses;
  Tensor weight;
  std::optional<Net> net;
};

void keep(const std::string& way, int step, Locals& locals) {
  if (way == "vector") history.push_back(block());
  if (way == "used") history.push_back(block());
  if (way == "used" || way == "clean") use_and_forget();
  if (way == "losses") losses.push_back(with_graph(locals.weight));
  if (way == "local") locals.losses->push_back(with_graph(locals.weight));
  if (way == "member") trainer->kept.emplace_back(step, block());
  if (way == "map") cache["step " + std::to_string(step)] = block();
  if (way == "nested") by_step[step % 3].push_back(block());
  if (way == "deque") recent.push_back(block());
  if (way == "static") keep_in_function(block());
  if (way == "module") (*locals.net)->forward(block());
  if (way == "lost") lose();
  if (way == "function") callback(block());
  if (way == "hook") {
    watched.register_hook([big = block()](const Tensor& gradient) { return gradient * big; });
  }
  if (way == "two") {
    history.push_back(block());
    recent.push_back(history.back());
  }
}

// The numbers of references to tensors and their storages.
std::vector<std::size_t> counts() {
  std::vector<std::size_t> all;
  for (const Tensor& each : history) {
    all.push_back(each.use_count());
    all.push_back(each.storage().use_count());
  }
  all.push_back(losses.front().grad_fn().use_count());
  return all;
}

void allocate_and_free(const std::atomic<bool>& ends, unsigned seed) {
  std::map<unsigned, std::vector<char>> kept;
  std::deque<Tensor> tensors;
  for (unsigned i = seed; !ends; i = i * 1664525 + 1013904223) {
    kept[i % 512] = std::vector<char>((i >> 8U) % (i % 64 == 0 ? 4'000'000 : 2000));
    if (i % 3 == 0) kept.erase((i >> 4U) % 512);
    tensors.push_back(torch::empty({static_cast<std::int64_t>(1 + (i >> 16U) % 1000)}));
    if (tensors.size() > 100) tensors.pop_front();
    if (i % 1000 == 0) tensors.clear();
  }
}

bool look_among_threads(const std::string& path, int count) {
  at::set_num_threads(1);
  plimsoll::MemoryTracer tracer({.path = path});
  for (int i = 0; i < 10; ++i) history.push_back(block());
  losses.push_back(with_graph(torch::ones({256, 256}, torch::requires_grad())));
  const std::vector<std::size_t> before = counts();
  std::atomic<bool> ends = false;
  std::vector<std::thread> threads;
  for (unsigned i = 1; i <= 3; ++i) threads.emplace_back(allocate_and_free, std::cref(ends), i);
  for (int i = 0; i < count; ++i) plimsoll::libtorch::g_attachment.find_holders.load()();
  ends = true;
  for (std::thread& each : threads) each.join();
  return counts() == before;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string way = arguments[1], path = arguments[2];
  if (way == "threads" && count > 3) {
    return look_among_threads(path, std::atoi(arguments[3])) ? 0 : 1;
  }
  std::vector<Tensor> losses_of_main;
  Locals locals{.losses = &losses_of_main,
                .weight = torch::ones({256, 256}, torch::requires_grad()),
                .net = std::nullopt};
  std::optional<plimsoll::MemoryTracer> tracer;
  if (path != "run") tracer.emplace(plimsoll::RecordingOptions{.path = path});
  if (way == "module") locals.net.emplace();
  watched = torch::ones({256, 256}, torch::requires_grad());
  trainer = std::make_unique<Trainer>();
  callback = [all = std::make_shared<std::vector<Tensor>>()](const Tensor& each) {
    all->push_back(each);
  };
  torch::optim::SGD optimizer({locals.weight}, 1e-3);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    with_graph(locals.weight).backward();
    keep(way, step, locals);
    overwrite_stack(100);
    optimizer.step();
  }
  if (tracer) tracer->stop();
  return losses_of_main.size() > kSteps ? 1 : 0;
}
