#include "exporters/speedscope/speedscope_exporter.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/units.h"
#include "exporters/flame_frames.h"
#include "exporters/json_output.h"
#include "exporters/layer_stacks.h"
#include "exporters/live_stacks.h"
#include "exporters/speedscope/allocation_samples.h"
#include "exporters/speedscope/memory_over_time.h"
#include "model/layers.h"
#include "plimsoll/version.h"

namespace plimsoll::exporters::speedscope {
namespace {

constexpr std::size_t kMostSamples = 50'000;
constexpr std::size_t kMostSpans = 2'500;  // each is up to 129 frames deep

void write_place(base::JsonWriter& json, std::string_view file, std::uint32_t line) {
  if (file.empty()) return;
  json.key("file");
  json.string(file);
  if (line == model::kUnknownLine) return;
  json.key("line");
  json.number(std::uint64_t{line});
}

class Document {
 public:
  Document(const ExportInput& input, Output& output)
      : input_(input),
        flame_(input.trace),
        out_(output, base::JsonWriter::Style::kCompact),
        frame_numbers_(input.trace.stacks.frame_count(), model::kNone) {}

  Status write();

 private:
  std::vector<Sample> live_samples(const LiveStacks& live);
  void write_layers(const LayerStacks& live);
  void write_usage(const std::string& name, const MemoryOverTime& usage);
  void write_profile(const std::string& name, const std::vector<Sample>& samples) {
    write_profile(name, "bytes", samples, &Sample::bytes,
                  [&](const Sample& sample) { write_sample(sample.stack); });
  }
  template <typename Row, typename WriteSample>
  void write_profile(const std::string& name, const char* unit, const std::vector<Row>& rows,
                     std::uint64_t Row::* weight, WriteSample&& write_sample);
  void write_sample(model::StackId stack);
  void write_frames();
  std::uint64_t number_of(model::FrameId frame);
  std::uint64_t number_of_label(std::string label);
  void member(const char* key, const std::string& text) {
    out_.json().key(key);
    out_.json().string(text);
  }

  const ExportInput& input_;
  FlameFrames flame_;
  JsonOutput out_;
  // Frames are numbered in order of first use, and written last.
  std::vector<std::uint32_t> frame_numbers_;
  std::unordered_map<std::string, std::uint32_t> label_numbers_;
  struct Shared {
    model::FrameId frame;
    std::string label;  // used instead of the frame, unless empty
  };
  std::vector<Shared> shared_;
};

Status Document::write() {
  base::JsonWriter& json = out_.json();
  json.begin_object();
  member("$schema", "https://www.speedscope.app/file-format-schema.json");
  member("exporter", "plimsoll " PLIMSOLL_VERSION);
  member("name", input_.report.source.path.empty() ? "memory" : input_.report.source.path);
  json.key("activeProfileIndex");
  json.number(std::uint64_t{0});
  json.key("profiles");
  json.begin_array();
  bool is_empty = true;
  for (const model::DeviceTrace& device : input_.trace.devices) {
    const MemoryOverTime usage = memory_over_time(input_, device, kMostSpans);
    if (usage.spans.empty()) continue;
    write_usage(model::to_string(device.device) + ", memory over time", usage);
    is_empty = false;
  }
  if (model::Layers::are_known(input_.trace)) {
    for (const LayerStacks& live : layer_stacks(input_)) {
      if (live.rows.empty()) continue;
      write_layers(live);
      is_empty = false;
    }
  }
  for (const LiveStacks& live : live_stacks(input_)) {
    const std::string device = model::to_string(live.device->device);
    std::vector<Sample> samples = live_samples(live);
    if (!samples.empty()) write_profile(device + ", live at " + live.point, samples);
    is_empty = is_empty && samples.empty();
    samples = allocation_samples(input_.trace, *live.device, kMostSamples);
    if (!samples.empty()) write_profile(device + ", allocations over time", samples);
    is_empty = is_empty && samples.empty();
  }
  if (is_empty) write_profile("nothing was live or allocated", {});
  json.end_array();
  write_frames();
  json.end_object();
  return out_.finish();
}

// Sorted by frames, so that speedscope draws adjacent samples with the same callers as one box.
std::vector<Sample> Document::live_samples(const LiveStacks& live) {
  std::vector<std::pair<std::vector<model::FrameId>, Sample>> rows;
  for (const StackBytes& row : live.stacks) {
    rows.emplace_back(flame_.root_first(row.stack), Sample{row.stack, row.bytes});
  }
  std::ranges::stable_sort(rows, {}, [](const auto& row) -> const auto& { return row.first; });
  std::vector<Sample> samples;
  for (const auto& [frames, sample] : rows) samples.push_back(sample);
  return samples;
}

void Document::write_layers(const LayerStacks& live) {
  write_profile(model::to_string(live.device->device) + ", live at " + live.point + " by layer",
                "bytes", live.rows, &LayerStack::bytes, [&](const LayerStack& row) {
                  out_.json().begin_array();
                  for (const std::string& frame : row.frames)
                    out_.json().number(number_of_label(frame));
                  out_.json().end_array();
                });
}

// The first frame shows the total. Below it, the depth of each part in frames is its size in steps;
// the last frame of a part shows its approximate bytes.
void Document::write_usage(const std::string& name, const MemoryOverTime& usage) {
  const auto text_of = [&](std::uint64_t steps) {
    return base::bytes_text(steps * usage.step_bytes);
  };
  std::vector<std::vector<std::uint64_t>> numbers(usage.parts.size());  // of frames, by step
  const auto write_sample = [&](const UsageSpan& span) {
    base::JsonWriter& json = out_.json();
    json.begin_array();
    const std::uint64_t all = std::accumulate(span.heights.begin(), span.heights.end(), 0u);
    json.number(number_of_label("in use: up to " + text_of(all)));
    for (std::size_t part = 0; part < usage.parts.size(); ++part) {
      std::vector<std::uint64_t>& known = numbers[part];
      for (std::uint32_t step = 0; step < span.heights[part]; ++step) {
        if (step == known.size()) {
          known.push_back(number_of_label(usage.parts[part] + ", " + text_of(step + 1)));
        }
        json.number(known[step]);
      }
    }
    json.end_array();
  };
  write_profile(name, "nanoseconds", usage.spans, &UsageSpan::duration_ns, write_sample);
}

template <typename Row, typename WriteSample>
void Document::write_profile(const std::string& name, const char* unit,
                             const std::vector<Row>& rows, std::uint64_t Row::* weight,
                             WriteSample&& write_sample) {
  base::JsonWriter& json = out_.json();
  std::uint64_t total = 0;
  json.begin_object();
  member("type", "sampled");
  member("name", name);
  member("unit", unit);
  json.key("samples");
  json.begin_array();
  for (const Row& row : rows) {
    if (!out_.ok()) break;
    write_sample(row);
  }
  json.end_array();
  json.key("weights");
  json.begin_array();
  for (const Row& row : rows) {
    json.number(row.*weight);
    total += row.*weight;
  }
  json.end_array();
  json.key("startValue");
  json.number(std::uint64_t{0});
  json.key("endValue");
  json.number(total);
  json.end_object();
}

void Document::write_sample(model::StackId stack) {
  const std::vector<model::FrameId>& frames = flame_.root_first(stack);
  out_.json().begin_array();
  if (frames.empty()) out_.json().number(number_of_label(input_.lines.label(stack)));
  for (model::FrameId frame : frames) out_.json().number(number_of(frame));
  out_.json().end_array();
}

std::uint64_t Document::number_of(model::FrameId frame) {
  std::uint32_t& number = frame_numbers_[frame.index()];
  if (number == model::kNone) {
    number = static_cast<std::uint32_t>(shared_.size());
    shared_.push_back(Shared{frame, {}});
  }
  return number;
}

std::uint64_t Document::number_of_label(std::string label) {
  const auto [found, is_new] =
      label_numbers_.try_emplace(label, static_cast<std::uint32_t>(shared_.size()));
  if (is_new) shared_.push_back(Shared{{}, std::move(label)});
  return found->second;
}

void Document::write_frames() {
  base::JsonWriter& json = out_.json();
  json.key("shared");
  json.begin_object();
  json.key("frames");
  json.begin_array();
  for (const Shared& shared : shared_) {
    if (!out_.ok()) break;
    json.begin_object();
    json.key("name");
    if (!shared.label.empty()) {
      json.string(shared.label);
    } else {
      const model::Frame& frame = input_.trace.stacks.frame(shared.frame);
      json.string(input_.trace.strings[frame.function]);
      write_place(json, input_.trace.strings[frame.file], frame.line);
    }
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

class SpeedscopeExporter final : public Exporter {
 public:
  const char* name() const override { return "speedscope"; }
  const char* description() const override {
    return "memory over time, and flame graphs of the live set and of allocations, for speedscope";
  }
  const char* suffix() const override { return ".speedscope.json"; }

  std::span<const char* const> needs() const override {
    static constexpr const char* kNames[] = {"layers"};
    return kNames;
  }
  Status write(const ExportInput& input, Output& output) const override {
    return Document(input, output).write();
  }
};

}  // namespace

std::unique_ptr<Exporter> make() { return std::make_unique<SpeedscopeExporter>(); }

}  // namespace plimsoll::exporters::speedscope
