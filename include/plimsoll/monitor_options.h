// The options of monitoring, the same for C++, Python, YAML files and the environment. set()
// accepts them as text, by name. LibTorch programs set the members, then call check(). Only
// set_from_environment() reads the environment (PLIMSOLL_MONITOR_<NAME>).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/result.h"

namespace plimsoll {

// A sample is taken every `interval` iterations while from <= iteration < to.
struct MonitorPhase {
  std::int64_t from = 0;
  std::int64_t to = 0;  // kOpenEnd: to the end of the run
  std::int64_t interval = 1;

  static constexpr std::int64_t kOpenEnd = INT64_MAX;

  bool operator==(const MonitorPhase&) const = default;
};

// A threshold; a sample above it raises an alert. Either a percentage of the whole device or
// machine, or a number of bytes.
struct MemoryThreshold {
  double percent = 0;  // 0: `bytes` applies
  std::uint64_t bytes = 0;

  bool operator==(const MemoryThreshold&) const = default;
};

struct MonitorOptions {
  bool enabled = true;
  std::int64_t verbose_batches = 5;
  bool profile_tensors = false;
  std::int64_t interval = 50;             // 0: only `phases` have samples
  std::vector<MonitorPhase> phases;       // ordered by iteration
  std::vector<std::int64_t> snapshot_at;  // ascending
  std::string output_dir = ".";
  bool text_log = true;
  std::string tensorboard = "auto";  // "true", "false", or a folder; see tensorboard_dir()
  std::string section = "auto";      // see tensorboard_section()
  std::int64_t image_every = 0;      // iterations between timeline pictures; 0: one at the end only
  double large_tensor_mb = 100;      // MB of 1024 x 1024 bytes, as in all output
  std::int64_t top_layers = 10;
  bool alerts = true;
  double fragmentation_percent = 40;
  double growth_percent = 10;
  std::int64_t alert_every = 10;
  bool fail_on_alert = false;
  std::string adapter = "auto";
  std::string record;  // a trace file; empty: none
  bool nvtx = false;
  std::int64_t batch_size = 0;  // number of items in a batch; 0: unknown
  std::string print_ranks = "all";
  std::vector<MemoryThreshold> alert_above;
  bool wandb = false;
  // In which steps last uses are observed: "auto", "always", "sampled" or "never". With "never",
  // samples state no unused memory. A LibTorch program passes the same value to its MemoryTracer.
  std::string uses = "never";

  // Sets one option, by name or alias, from text ("yes", "50", "0-500:10,500-:100"). On failure
  // nothing changes.
  Status set(std::string_view name, std::string_view value);
  // Sets options from the environment variables PLIMSOLL_MONITOR_<NAME>; a variable that names no
  // option is an error.
  Status set_from_environment();
  // Checks members that were set directly, by the rules of set().
  Status check() const;
  // The value of an option as text that set() accepts; empty for an unknown name.
  std::string text(std::string_view name) const;

  std::int64_t interval_at(std::int64_t iteration) const;
  bool is_due(std::int64_t iteration) const;  // whether to take a sample
  std::string tensorboard_dir() const;        // empty: none
  std::string tensorboard_section() const;    // the prefix of the tags
  std::uint64_t large_tensor_bytes() const;

  bool operator==(const MonitorOptions&) const = default;
};

// The description of an option.
struct MonitorOptionHelp {
  std::string name;
  std::vector<std::string> aliases;  // names in other projects, also accepted
  std::string type;                  // "bool", "count", "text", ...
  std::string default_value;         // as text
  std::string help;                  // one sentence
};

std::vector<MonitorOptionHelp> monitor_options_help();

}  // namespace plimsoll
