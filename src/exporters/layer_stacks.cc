#include "exporters/layer_stacks.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/natural_order.h"
#include "exporters/live_stacks.h"
#include "model/categories.h"
#include "model/layers.h"
#include "model/live_set.h"

namespace plimsoll::exporters {
namespace {

using model::kNone;
using model::LayerId;
using model::StringId;

bool is_owned(std::string_view category) {
  return category == model::kParameter || category == model::kGradient ||
         category == model::kOptimizerState || category == model::kBuffer;
}

struct Key {
  LayerId layer;
  StringId op;        // 0: category is used instead
  StringId category;  // used only without op
  model::LineId line;

  friend auto operator<=>(const Key&, const Key&) = default;
};

class DeviceStacks {
 public:
  DeviceStacks(const ExportInput& input, const model::DeviceTrace& device)
      : input_(input), trace_(input.trace), device_(device), layers_(input.trace) {}

  std::vector<LayerStack> at(std::int64_t point) {
    std::map<Key, std::uint64_t> bytes;
    std::uint64_t older = 0;
    for (const std::uint32_t row : live_set(device_, model::default_liveness(device_), point)) {
      const std::uint32_t born = device_.lifetimes.alloc[row];
      const std::uint64_t size = trace_.lifetime_bytes(device_, row);
      if (born == kNone) {
        older += size;
      } else {
        bytes[key_of(row)] += size;
      }
    }
    std::vector<LayerStack> rows;
    if (older > 0) rows.push_back({{"[allocated before recording]"}, older});
    for (const auto& [key, sum] : bytes) rows.push_back({frames_of(key), sum});
    std::ranges::sort(rows, [](const LayerStack& a, const LayerStack& b) {
      return std::ranges::lexicographical_compare(a.frames, b.frames, base::natural_less);
    });
    return rows;
  }

 private:
  Key key_of(std::uint32_t lifetime) {
    const model::Site& site = trace_.birth(device_, lifetime);
    Key key;
    key.layer = layers_.of(device_, lifetime);
    key.op = site.op;
    key.category = trace_.category(device_, lifetime);
    key.line = input_.lines.line(site.stack);
    if (is_owned(trace_.strings[key.category])) key.op = {};
    if (key.op != StringId{}) key.category = {};
    return key;
  }

  std::vector<std::string> frames_of(const Key& key) const {
    std::vector<std::string> frames;
    for (LayerId layer = key.layer; layer != model::kNoLayer; layer = layers_.parent(layer)) {
      frames.push_back(layers_.path(layer));
    }
    std::ranges::reverse(frames);
    if (frames.empty()) frames.emplace_back("[no layer]");
    if (key.op != StringId{}) {
      frames.emplace_back(trace_.strings[key.op]);
    } else {
      const std::string_view category = trace_.strings[key.category];
      frames.push_back("[" + std::string(category.empty() ? model::kUnknownCategory : category) +
                       "]");
    }
    frames.push_back(input_.lines.label(key.line));
    return frames;
  }

  const ExportInput& input_;
  const model::Trace& trace_;
  const model::DeviceTrace& device_;
  model::Layers layers_;
};

}  // namespace

std::vector<LayerStacks> layer_stacks(const ExportInput& input) {
  std::vector<LayerStacks> all;
  for (const DevicePoint& point : device_points(input)) {
    all.push_back({point.device, point.name, DeviceStacks(input, *point.device).at(point.event)});
  }
  return all;
}

}  // namespace plimsoll::exporters
