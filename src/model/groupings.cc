#include "model/groupings.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/categories.h"
#include "model/group_names.h"
#include "model/layers.h"
#include "model/live_allocations.h"
#include "model/steps.h"

namespace plimsoll::model {
namespace {

constexpr std::array kDimensionNames = {"category", "layer",  "line", "operator", "phase",
                                        "step",     "stream", "pool", "dtype",    "tensor"};

// Numbers the groups of a rule in order of first use. A rule maps each lifetime to a small key, and
// each key to a name.
template <typename Rule>
class Numbered final : public Grouping {
 public:
  template <typename... Arguments>
  explicit Numbered(Arguments&&... arguments) : rule_(std::forward<Arguments>(arguments)...) {}

  std::uint32_t group(std::size_t lifetime) override {
    const std::uint32_t key = rule_.key(lifetime);
    if (key >= groups_.size()) groups_.resize(std::size_t{key} + 1, kNone);
    std::uint32_t& known = groups_[key];
    if (known == kNone) {
      known = static_cast<std::uint32_t>(keys_.size());
      keys_.push_back(key);
    }
    return known;
  }
  std::string name(std::uint32_t group) const override { return rule_.name(keys_[group]); }
  std::size_t size() const override { return keys_.size(); }

 private:
  Rule rule_;
  std::vector<std::uint32_t> groups_;  // by key
  std::vector<std::uint32_t> keys_;    // by group
};

class CategoryRule {
 public:
  CategoryRule(const Trace& trace, const DeviceTrace& device) : trace_(trace), device_(device) {
    for (std::uint32_t word = 0; word < trace.strings.size(); ++word) {
      if (trace.strings[StringId{word}] == kUnknownCategory) unknown_ = StringId{word};
    }
  }
  // "unknown" and no category at all are one group.
  std::uint32_t key(std::size_t lifetime) const {
    const StringId category = trace_.category(device_, lifetime);
    return category == unknown_ ? 0 : category.value;
  }
  std::string name(std::uint32_t key) const {
    return std::string(key == 0 ? kUnknownCategory : trace_.strings[StringId{key}]);
  }

 private:
  const Trace& trace_;
  const DeviceTrace& device_;
  StringId unknown_;
};

// Whether any category is known. Categories that were inferred may all be unknown.
bool has_categories(const Trace& trace, const DeviceTrace& device) {
  if (!trace.has_categories() || !trace.has_inferred_roles) return trace.has_categories();
  for (std::size_t row = 0; row < device.lifetimes.size(); ++row) {
    if (is_known_category(trace, trace.category(device, row))) return true;
  }
  return false;
}

class LayerRule {
 public:
  LayerRule(const Trace& trace, const DeviceTrace& device, std::size_t depth)
      : device_(device), layers_(trace), depth_(depth) {}

  std::uint32_t key(std::size_t lifetime) {
    const LayerId layer = layers_.of(device_, lifetime);
    if (layer.index() >= cut_.size()) cut_.resize(layers_.size(), kNone);
    std::uint32_t& known = cut_[layer.index()];
    if (known == kNone) known = cut(layer).value;
    return known;
  }
  std::string name(std::uint32_t key) const {
    return key == kNoLayer.value ? "[no layer]" : layers_.path(LayerId{key});
  }

 private:
  LayerId cut(LayerId layer) const {
    std::vector<LayerId> path;  // from the layer to its root
    for (; layer != kNoLayer; layer = layers_.parent(layer)) path.push_back(layer);
    if (path.empty() || depth_ == 0) return kNoLayer;
    return path[path.size() - std::min(depth_, path.size())];
  }

  const DeviceTrace& device_;
  Layers layers_;
  std::size_t depth_;
  std::vector<std::uint32_t> cut_;  // by LayerId: the ancestor that it is shown as
};

class LineRule {
 public:
  LineRule(const Trace& trace, const DeviceTrace& device, const UserLines& lines)
      : keys_(trace, device, lines), lines_(lines) {}
  std::uint32_t key(std::size_t lifetime) const { return keys_.line(lifetime).value; }
  std::string name(std::uint32_t key) const { return line_name(lines_, LineId{key}); }

 private:
  AllocationKeys keys_;
  const UserLines& lines_;
};

class OperatorRule {
 public:
  OperatorRule(const Trace& trace, const DeviceTrace& device, const UserLines& lines)
      : trace_(trace), device_(device), keys_(trace, device, lines), operators_(trace) {}
  std::uint32_t key(std::size_t lifetime) {
    return operators_.id(trace_.birth(device_, lifetime).op, keys_.stack(lifetime));
  }
  std::string name(std::uint32_t key) const { return operators_.name(key); }

 private:
  const Trace& trace_;
  const DeviceTrace& device_;
  AllocationKeys keys_;
  OperatorIds operators_;
};

class PhaseRule {
 public:
  PhaseRule(const Trace& trace, const DeviceTrace& device) : trace_(trace), device_(device) {}
  std::uint32_t key(std::size_t lifetime) const {
    if (device_.lifetimes.alloc[lifetime] == kNone) return kBefore;
    return static_cast<std::uint32_t>(trace_.birth(device_, lifetime).phase);
  }
  std::string name(std::uint32_t key) const {
    return std::string(key == kBefore ? kAllocatedBefore : name_of(static_cast<Phase>(key)));
  }

 private:
  static constexpr std::uint32_t kBefore = 5;  // past the last phase

  const Trace& trace_;
  const DeviceTrace& device_;
};

class StepRule {
 public:
  StepRule(const DeviceTrace& device, std::vector<StepEnd> ends)
      : device_(device), ends_(std::move(ends)) {}
  std::uint32_t key(std::size_t lifetime) {
    const std::uint32_t born = device_.lifetimes.alloc[lifetime];
    if (born == kNone) return before();
    // Lifetimes are usually queried in order of birth.
    const bool is_in_last = born >= begin_of(last_) && (last_ == ends_.size() || born < end());
    if (!is_in_last) last_ = step_of(ends_, born);
    return static_cast<std::uint32_t>(last_);
  }
  std::string name(std::uint32_t key) const {
    if (key == before()) return kAllocatedBefore;
    if (key == ends_.size()) return "after step " + std::to_string(ends_.back().step);
    const std::string step = "step " + std::to_string(ends_[key].step);
    return key == 0 ? step + " and before it" : step;
  }

 private:
  std::uint32_t before() const { return static_cast<std::uint32_t>(ends_.size() + 1); }
  std::uint32_t begin_of(std::size_t step) const { return step == 0 ? 0 : ends_[step - 1].event; }
  std::uint32_t end() const { return ends_[last_].event; }

  const DeviceTrace& device_;
  std::vector<StepEnd> ends_;
  std::size_t last_ = 0;
};

class StreamRule {
 public:
  StreamRule(const Trace& trace, const DeviceTrace& device) : trace_(trace), device_(device) {}
  std::uint32_t key(std::size_t lifetime) const { return trace_.stream(device_, lifetime).value; }
  std::string name(std::uint32_t key) const {
    return "stream " + std::to_string(trace_.streams[key]);
  }

 private:
  const Trace& trace_;
  const DeviceTrace& device_;
};

class PoolRule {
 public:
  PoolRule(const Trace& trace, const DeviceTrace& device, const UserLines& lines)
      : trace_(trace), keys_(trace, device, lines) {}
  std::uint32_t key(std::size_t lifetime) const { return keys_.pool(lifetime).value; }
  std::string name(std::uint32_t key) const { return pool_name(trace_, PoolId{key}); }

 private:
  const Trace& trace_;
  AllocationKeys keys_;
};

class DtypeRule {
 public:
  DtypeRule(const Trace& trace, const DeviceTrace& device) : trace_(trace), device_(device) {}
  std::uint32_t key(std::size_t lifetime) const {
    return trace_.tensors[device_.lifetimes.tensor[lifetime].index()].dtype.value;
  }
  std::string name(std::uint32_t key) const {
    return key == 0 ? "[unknown]" : std::string(trace_.strings[StringId{key}]);
  }

 private:
  const Trace& trace_;
  const DeviceTrace& device_;
};

// Tensors are equal if they have the same name, dtype and shape.
class TensorRule {
 public:
  TensorRule(const Trace& trace, const DeviceTrace& device)
      : trace_(trace), device_(device), by_tensor_(trace.tensors.size(), kNone) {}
  std::uint32_t key(std::size_t lifetime) {
    const TensorId tensor = device_.lifetimes.tensor[lifetime];
    std::uint32_t& known = by_tensor_[tensor.index()];
    if (known == kNone) known = intern(text_of(trace_.tensors[tensor.index()]));
    return known;
  }
  std::string name(std::uint32_t key) const { return names_[key]; }

 private:
  std::string text_of(const Tensor& tensor) const {
    if (tensor == Tensor{}) return "[unknown]";
    std::string text(trace_.strings[tensor.name]);
    for (const StringId more : {tensor.dtype, tensor.shape}) {
      if (more != StringId{} && !text.empty()) text += ' ';
      text += trace_.strings[more];
    }
    return text;
  }
  std::uint32_t intern(std::string text) {
    const auto next = static_cast<std::uint32_t>(names_.size());
    const auto [place, is_new] = ids_.try_emplace(text, next);
    if (is_new) names_.push_back(std::move(text));
    return place->second;
  }

  const Trace& trace_;
  const DeviceTrace& device_;
  std::vector<std::uint32_t> by_tensor_;
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::vector<std::string> names_;
};

template <typename Rule, typename... Arguments>
std::unique_ptr<Grouping> if_known(bool is_known, Arguments&&... arguments) {
  if (!is_known) return nullptr;
  return std::make_unique<Numbered<Rule>>(std::forward<Arguments>(arguments)...);
}

}  // namespace

const char* to_string(Dimension dimension) {
  return kDimensionNames[static_cast<std::size_t>(dimension)];
}

std::optional<Dimension> dimension_named(std::string_view name) {
  const auto* const found = std::ranges::find(kDimensionNames, name);
  if (found == kDimensionNames.end()) return std::nullopt;
  return static_cast<Dimension>(found - kDimensionNames.begin());
}

std::unique_ptr<Grouping> make_grouping(const Trace& trace, const DeviceTrace& device,
                                        const UserLines& lines, Dimension dimension) {
  switch (dimension) {
    case Dimension::kCategory:
      return if_known<CategoryRule>(has_categories(trace, device), trace, device);
    case Dimension::kLayer:
      return make_layer_grouping(trace, device, std::string::npos);
    case Dimension::kLine:
      return std::make_unique<Numbered<LineRule>>(trace, device, lines);
    case Dimension::kOperator:
      return std::make_unique<Numbered<OperatorRule>>(trace, device, lines);
    case Dimension::kPhase:
      return if_known<PhaseRule>(trace.has_phases(), trace, device);
    case Dimension::kStep: {
      auto ends = step_ends(trace, device);
      const bool is_known = !ends.empty();
      return if_known<StepRule>(is_known, device, std::move(ends));
    }
    case Dimension::kStream:
      return std::make_unique<Numbered<StreamRule>>(trace, device);
    case Dimension::kPool:
      return if_known<PoolRule>(trace.pools.size() > 1, trace, device, lines);
    case Dimension::kDtype:
      return if_known<DtypeRule>(trace.has_tensors(), trace, device);
    case Dimension::kTensor:
      return if_known<TensorRule>(trace.has_tensors(), trace, device);
  }
  return nullptr;
}

std::unique_ptr<Grouping> make_layer_grouping(const Trace& trace, const DeviceTrace& device,
                                              std::size_t depth) {
  return if_known<LayerRule>(Layers::are_known(trace), trace, device, depth);
}

}  // namespace plimsoll::model
