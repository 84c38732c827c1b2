#include "generator/workloads.h"

#include "generator/transformer.h"

namespace generator {
namespace {

constexpr uint64_t kGiB = 1 << 30;

// Allocations of a framework at startup, from deep stacks. They take the short memo ids, so that
// frames of training are referred to by five bytes each, as in real files.
void start_up(Machine& machine) {
  const std::string launcher = "/home/ada/nanolm/.venv/lib/python3.12/site-packages/launcher/";
  for (const std::string stage : {"plugins", "workspace", "communicator"}) {
    std::vector<Frame> python;
    for (int64_t i = 0; i < 32; ++i) {
      python.push_back({"start_" + stage, launcher + stage + ".py", 20 + 12 * i});
    }
    machine.take(8 * kMiB, machine.stacks().python_site("empty", python));
  }
}

// A training run that ends exactly after `events` events: the machine is checked after each step.
void train_until(Machine& machine, uint64_t events) {
  machine.stop_after(events);
  machine.start_recording();
  start_up(machine);
  // 83 layers of 12 weights and 4 more: a thousand static weights.
  Transformer model(machine, {.layers = 83, .matrix_bytes = 4 * kMiB, .activation_bytes = 8 * kMiB},
                    SourceLines::kPerLayer);
  model.load_weights();
  const SiteId embedding = model.user_site("embedding", {"build", "train.py", 71});
  for (int i = 0; i < 4; ++i) machine.take(96 * kMiB, embedding);
  while (!machine.is_stopped()) model.train_step();
}

// Allocations of random sizes that are freed in random order: the worst case for layouts that
// restack on every free.
void free_at_random(Machine& machine, uint64_t events) {
  constexpr size_t kLive = 20000;
  machine.stop_after(events);
  machine.start_recording();
  start_up(machine);
  Transformer model(machine, {.layers = 83}, SourceLines::kPerLayer);
  const size_t sites = machine.stacks().size();
  std::vector<Block*> live;
  while (!machine.is_stopped()) {
    Random& random = machine.random();
    if (live.size() < kLive / 2 || (live.size() < kLive && random.below(2) == 0)) {
      const uint64_t size = uint64_t{512} << random.below(13);
      live.push_back(
          machine.take(size + random.below(size), static_cast<SiteId>(random.below(sites))));
    } else {
      std::swap(live[random.below(live.size())], live.back());
      machine.give(live.back());
      live.pop_back();
    }
  }
}

void train_healthily(Machine& machine, uint64_t) {
  machine.start_recording();
  Transformer model(machine, {}, SourceLines::kShared);
  model.load_weights();
  for (int step = 0; step < 10; ++step) model.train_step();
}

// Evaluation before training keeps all outputs live, then frees all but a little of each: 3 MiB
// keep every large segment pinned. Sizes decrease, so that what is left of one segment never fits
// the next output.
void keep_a_little_of_each_output(Machine& machine, Transformer& model) {
  const SiteId output_site = model.user_site("_softmax", {"evaluate", "evaluate.py", 52});
  const SiteId keep_site = model.user_site("clone", {"evaluate", "evaluate.py", 57});
  std::vector<Block*> outputs;
  for (uint64_t i = 0; i < 28; ++i)
    outputs.push_back(machine.take((920 - 16 * i) * kMiB, output_site));
  for (Block* output : outputs) {
    machine.give(output);
    machine.take(3 * kMiB, keep_site);
  }
}

void train_with_planted_problems(Machine& machine, uint64_t) {
  machine.start_recording();
  Transformer model(machine, {}, SourceLines::kShared);
  model.load_weights();
  keep_a_little_of_each_output(machine, model);
  const SiteId loss_site = model.user_site("_log_softmax", {"train_step", "train.py", 91});
  for (int step = 0; step < 16; ++step) {
    model.forward();
    machine.take(48 * kMiB, loss_site);  // losses.append(loss)
    model.backward();
    model.optimizer_step();
    model.zero_grad();
  }
  const SiteId scores_site = model.user_site("bmm", {"long_context", "evaluate.py", 71});
  machine.take(4 * kGiB, scores_site);
}

void ask_for_too_much(Machine& machine, uint64_t) {
  machine.start_recording();
  Transformer model(machine, {}, SourceLines::kShared);
  model.load_weights();
  for (int step = 0; step < 3; ++step) model.train_step();
  machine.take(96 * kGiB, model.user_site("bmm", {"attention_scores", "model.py", 64}));
}

void fill_with_what_is_needed(Machine& machine, uint64_t) {
  machine.start_recording();
  Transformer model(machine, {.layers = 16, .activation_bytes = 4 * kMiB}, SourceLines::kShared);
  model.load_weights();
  for (int step = 0; step < 3; ++step) model.train_step();
}

void grow_until_full(Machine& machine, uint64_t) {
  machine.start_recording();
  Transformer model(machine, {.layers = 2}, SourceLines::kShared);
  model.load_weights();
  const SiteId kept = model.user_site("addmm", {"train_step", "train.py", 90});
  while (!machine.is_stopped()) {
    model.forward();
    machine.take(512 * kMiB, kept);  // history.append(logits)
    model.backward();
    model.optimizer_step();
    model.zero_grad();
  }
}

void churn(Machine& machine, uint64_t) {
  machine.start_recording();
  Transformer model(machine, {.layers = 2}, SourceLines::kShared);
  model.load_weights();
  const SiteId rotary = model.user_site("cat", {"apply_rotary", "model.py", 57});
  for (int step = 0; step < 8; ++step) {
    for (int i = 0; i < 400; ++i) machine.give(machine.take(24 * kMiB, rotary));
    model.train_step();
  }
}

void train_unrecorded(Machine& machine, uint64_t) {
  Transformer model(machine, {}, SourceLines::kShared);
  model.load_weights();
  for (int step = 0; step < 3; ++step) model.train_step();
}

// Enough events to wrap the ring, and frees that wait for a side stream, so that the ring begins in
// the middle of a free.
void train_past_the_ring(Machine& machine, uint64_t events) {
  machine.stop_after(events);
  machine.start_recording();
  Transformer model(machine, {.layers = 3}, SourceLines::kShared);
  model.load_weights();
  const SiteId copy = model.user_site("_to_copy", {"prefetch", "data.py", 33});
  while (!machine.is_stopped()) {
    for (int i = 0; i < 40; ++i) machine.give_deferred(machine.take(2 * kMiB, copy, 7));
    model.train_step();
  }
}

AllocatorOptions device_of(uint64_t bytes, SegmentStyle style = SegmentStyle::kFixed) {
  return AllocatorOptions{.device_bytes = bytes, .style = style};
}

}  // namespace

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = {
      {.name = "training",
       .about = "1,000 static weights, then steps of forward and backward in reverse order",
       .run = train_until,
       .default_events = 8'000'000,
       .default_depth = 40,
       .default_version = TorchVersion::k2_11},
      {.name = "random-free",
       .about = "random sizes, freed in random order",
       .run = free_at_random,
       .default_events = 8'000'000,
       .default_depth = 40,
       .default_version = TorchVersion::k2_11},
      {.name = "planted",
       .about =
           "a planted fragmentation (evaluate.py) and a planted growth (train.py), ending in OOM",
       .run = train_with_planted_problems,
       .allocator = device_of(24 * kGiB)},
      {.name = "healthy",
       .about = "a clean run from an empty allocator: nothing to find",
       .run = train_healthily,
       .allocator = device_of(24 * kGiB)},
      {.name = "oom-large",
       .about = "out of memory because one request is larger than the device",
       .run = ask_for_too_much,
       .allocator = device_of(24 * kGiB)},
      {.name = "oom-too-big",
       .about = "out of memory because everything in it is needed",
       .run = fill_with_what_is_needed,
       .allocator = device_of(24 * kGiB)},
      {.name = "oom-growth",
       .about = "out of memory after steady growth",
       .run = grow_until_full,
       .allocator = device_of(24 * kGiB)},
      {.name = "churn",
       .about = "thousands of allocations that live for one event",
       .run = churn,
       .allocator = device_of(24 * kGiB)},
      {.name = "settings-conflict",
       .about = "expandable segments together with max_split_size_mb",
       .run = train_healthily,
       .allocator = device_of(24 * kGiB, SegmentStyle::kExpandable),
       .settings = {"expandable_segments:True,max_split_size_mb:128", 128 * kMiB}},
      {.name = "empty",
       .about = "recording was never on: blocks, but no trace and no stacks",
       .run = train_unrecorded,
       .allocator = device_of(24 * kGiB)},
      {.name = "wrapped",
       .about = "a ring of 10,000 entries that has lost its beginning",
       .run = train_past_the_ring,
       .default_events = 25'313,
       .ring_entries = 10'000,
       .allocator = device_of(24 * kGiB)},
  };
  return all;
}

}  // namespace generator
