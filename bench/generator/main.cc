// plimsoll_snapshot_generator: writes a synthetic PyTorch memory snapshot.
//
// The final segments precede the trace in the file, so the workload runs twice with the same seed:
// once to learn how it ends, and once to write each event when it happens. Memory depends on the
// live blocks, not on the number of events.

#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "generator/machine.h"
#include "generator/pickle_writer.h"
#include "generator/snapshot_writer.h"
#include "generator/stack_table.h"
#include "generator/workloads.h"

namespace {

using namespace generator;

struct Arguments {
  const Workload* workload = nullptr;
  std::string output;
  uint64_t events = 0;
  uint64_t depth = 0;
  uint64_t seed = 1;
  Dialect dialect = Dialect::kPython;
  TorchVersion version = TorchVersion::k2_6;
};

void print_usage(std::FILE* to) {
  std::fputs(
      "usage: plimsoll_snapshot_generator PRESET OUTPUT [--events N] [--depth N] [--seed N]\n"
      "                                   [--dialect python|jit] [--torch 2.6|2.11]\n\n"
      "  --events N   how many events (training, random-free, wrapped)\n"
      "  --depth N    frames of each stack\n"
      "  --seed N     same seed, same bytes (1)\n"
      "  --dialect D  python: pickle protocol 4 of _dump_snapshot; jit: protocol 2 of the C++ "
      "pickler\n"
      "  --torch V    2.6: six keys an event; 2.11: compile_context and user_metadata as well\n\n"
      "presets:\n",
      to);
  for (const Workload& workload : workloads()) {
    std::fprintf(to, "  %-18s %s\n", workload.name.c_str(), workload.about.c_str());
  }
}

bool read_number(std::string_view text, uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

bool read_option(std::string_view name, std::string_view value, Arguments& arguments) {
  if (name == "--events") return read_number(value, arguments.events);
  if (name == "--depth") return read_number(value, arguments.depth);
  if (name == "--seed") return read_number(value, arguments.seed);
  if (name == "--dialect" && (value == "python" || value == "jit")) {
    arguments.dialect = value == "jit" ? Dialect::kJit : Dialect::kPython;
    return true;
  }
  if (name == "--torch" && (value == "2.6" || value == "2.11")) {
    arguments.version = value == "2.11" ? TorchVersion::k2_11 : TorchVersion::k2_6;
    return true;
  }
  return false;
}

std::optional<Arguments> read_arguments(const std::vector<std::string_view>& words) {
  if (words.size() < 2) return std::nullopt;
  Arguments arguments;
  for (const Workload& workload : workloads()) {
    if (workload.name == words[0]) arguments.workload = &workload;
  }
  if (arguments.workload == nullptr) return std::nullopt;
  arguments.output = words[1];
  arguments.events = arguments.workload->default_events;
  arguments.depth = arguments.workload->default_depth;
  arguments.version = arguments.workload->default_version;
  if (words.size() % 2 != 0) return std::nullopt;
  for (size_t i = 2; i < words.size(); i += 2) {
    if (!read_option(words[i], words[i + 1], arguments)) return std::nullopt;
  }
  return arguments;
}

/// The first run: counts the events and collects all annotations.
struct Rehearsal : EventSink {
  void on_event(const Event&) override { ++events; }
  void on_annotation(const Annotation& annotation) override { annotations.push_back(annotation); }
  uint64_t events = 0;
  std::vector<Annotation> annotations;
};

/// The second run: writes the events that the ring still has at the end.
struct Performance : EventSink {
  Performance(SnapshotWriter& writer, uint64_t skipped) : out(writer), to_skip(skipped) {}
  void on_event(const Event& event) override {
    if (to_skip > 0) {
      --to_skip;
    } else {
      out.write_event(event);
    }
  }
  void on_annotation(const Annotation&) override {}
  SnapshotWriter& out;
  uint64_t to_skip;
};

uint64_t write_snapshot(const Arguments& arguments, std::FILE* file) {
  const Workload& workload = *arguments.workload;
  StackTable stacks(arguments.depth);
  Rehearsal rehearsal;
  Machine first(workload.allocator, arguments.seed, stacks, rehearsal);
  workload.run(first, arguments.events);

  const uint64_t ring = workload.ring_entries;
  const uint64_t kept = ring != 0 && rehearsal.events > ring ? ring : rehearsal.events;
  PickleWriter pickle(file, arguments.dialect);
  SnapshotWriter writer(pickle, stacks, arguments.version);
  writer.begin();
  writer.write_segments(first.allocator());
  writer.begin_trace(kept);
  Performance performance(writer, rehearsal.events - kept);
  Machine second(workload.allocator, arguments.seed, stacks, performance);
  workload.run(second, arguments.events);
  writer.end_trace();
  writer.write_settings(workload.settings, workload.allocator.style);
  writer.write_annotations(rehearsal.annotations);
  writer.end();
  const uint64_t bytes = pickle.finish();
  std::fprintf(stderr, "%s: %llu events, %llu bytes, %zu stacks, %zu frames\n",
               workload.name.c_str(), static_cast<unsigned long long>(kept),
               static_cast<unsigned long long>(bytes), stacks.size(), stacks.frames().size());
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  if (words.size() == 1 && (words[0] == "--help" || words[0] == "-h")) {
    print_usage(stdout);
    return 0;
  }
  const std::optional<Arguments> arguments = read_arguments(words);
  if (!arguments) {
    print_usage(stderr);
    return 2;
  }
  std::FILE* file = std::fopen(arguments->output.c_str(), "wb");
  if (file == nullptr) {
    std::fprintf(stderr, "cannot write %s: %s\n", arguments->output.c_str(), std::strerror(errno));
    return 3;
  }
  std::setvbuf(file, nullptr, _IOFBF, 1 << 20);
  write_snapshot(*arguments, file);
  if (std::ferror(file) != 0 || std::fclose(file) != 0) {
    std::fprintf(stderr, "writing %s failed\n", arguments->output.c_str());
    return 4;
  }
  return 0;
}
