#include "report/folded_layers.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "base/natural_order.h"

namespace plimsoll::report {
namespace {

// Layers of one kind differ by the padding of their blocks. The first and the last also differ by
// memory allocated for their neighbors: a mask, the copy of a weight. Beyond this factor, a mean
// says little about each layer.
constexpr double kMostUnequal = 1.5;
// Twice the width means four times the parameters. Padding changes the size of a block by less than
// this factor.
constexpr double kMostUnequalParameters = 1.25;
// Differences up to this size are ignored: scalars and counters in small blocks.
constexpr std::uint64_t kNoise = 4096;
// conv1 and conv2 are often different steps of a block; blocks.1 and blocks.2 rarely are.
constexpr std::size_t kFewestNamed = 3;
// Limit against hostile files, as in model::Layers.
constexpr std::size_t kDeepest = 80;

constexpr const char* kRange = "\u2026";

// A name and the number at its end: "block", 3.
struct Numbered {
  std::string_view stem;
  std::uint64_t number = 0;
};

std::optional<Numbered> numbered(std::string_view name) {
  std::size_t begin = name.size();
  while (begin > 0 && base::is_digit(name[begin - 1])) --begin;
  Numbered result{name.substr(0, begin)};
  const char* const end = name.data() + name.size();
  const auto [read, error] = std::from_chars(name.data() + begin, end, result.number);
  if (begin == name.size() || error != std::errc{} || read != end) return std::nullopt;
  if (name[begin] == '0' && name.size() - begin > 1) return std::nullopt;  // "01"
  return result;
}

std::string_view last_name(std::string_view path) {
  const std::string_view parent = parent_layer(path);
  return parent.empty() ? path : path.substr(parent.size() + 1);
}

bool is_within(std::uint64_t a, std::uint64_t b, double factor) {
  const auto [least, most] = std::minmax(a, b);
  return static_cast<double>(most) <= factor * static_cast<double>(least) + kNoise;
}

std::string join(std::string_view parent, std::string_view name) {
  return parent.empty() ? std::string(name) : std::string(parent) + "." + std::string(name);
}

// Ranges of ascending numbers: "0…3", "5".
std::vector<std::string> number_ranges(const std::vector<std::uint64_t>& numbers) {
  std::vector<std::string> ranges;
  for (std::size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    std::string range = std::to_string(numbers[begin]);
    if (end - begin > 1) range += kRange + std::to_string(numbers[end - 1]);
    ranges.push_back(std::move(range));
  }
  return ranges;
}

using Rows = std::vector<const LayerRow*>;

struct Sibling {
  std::string name;
  Rows layers;  // of this name, one in each of the equal parents
};

class DeviceFolds {
 public:
  DeviceFolds(Rows rows, FoldedBy by) : by_(by) {
    std::ranges::sort(rows, [](const LayerRow* a, const LayerRow* b) {
      return base::natural_less(a->layer, b->layer);
    });
    for (const LayerRow* row : rows) is_known_.emplace(row->layer, true);
    bool has_saved = false;
    for (const LayerRow* row : rows) {
      has_saved = has_saved || row->inclusive.saved_bytes > 0;
      const std::string_view parent = parent_layer(row->layer);
      const bool is_root = parent.empty() || !is_known_.contains(parent);
      (is_root ? roots_ : children_[parent]).push_back(row);
    }
    measure_ = has_saved ? &LayerBytes::saved_bytes : &LayerBytes::activation_bytes;
  }

  void append_to(std::vector<FoldedLayerRow>& out) {
    std::vector<Sibling> siblings;
    for (const LayerRow* root : roots_) siblings.push_back({root->layer, {root}});
    append("", siblings, 0, out);
  }

 private:
  void append(const std::string& parent, std::vector<Sibling> siblings, std::size_t depth,
              std::vector<FoldedLayerRow>& out) {
    for (const Sibling& each : folded(std::move(siblings))) {
      const std::string path = join(parent, each.name);
      out.push_back(sum(path, each.layers));
      if (depth < kDeepest) append(path, inside(each.layers), depth + 1, out);
    }
  }

  std::vector<Sibling> inside(const Rows& parents) {
    std::map<std::string_view, Rows, base::NaturalLess> by_name;
    for (const LayerRow* parent : parents) {
      if (parent->layer.empty()) continue;
      const auto found = children_.find(parent->layer);
      if (found == children_.end()) continue;
      for (const LayerRow* child : found->second) by_name[last_name(child->layer)].push_back(child);
    }
    std::vector<Sibling> siblings;
    for (auto& [name, rows] : by_name) siblings.push_back({std::string(name), std::move(rows)});
    return siblings;
  }

  // Equal siblings become one, in the place of the first of them.
  std::vector<Sibling> folded(std::vector<Sibling> siblings) {
    std::map<std::pair<std::string_view, std::uint64_t>, std::vector<std::size_t>> alike;
    for (std::size_t at = 0; at < siblings.size(); ++at) {
      const auto name = numbered(siblings[at].name);
      if (name) alike[{name->stem, structure(siblings[at].layers, 0)}].push_back(at);
    }
    std::vector<Sibling> result;
    std::vector<std::vector<std::size_t>> members(siblings.size());  // by the first one
    for (std::size_t at = 0; at < siblings.size(); ++at) members[at] = {at};
    for (const auto& [key, rows] : alike) {
      for (const std::vector<std::size_t>& equal : split(siblings, rows)) {
        const bool is_number = key.first.empty() || key.first.ends_with('.');
        if (equal.size() < (is_number ? 2 : kFewestNamed)) continue;
        if (!is_number && !follow_each_other(siblings, equal)) continue;
        for (const std::size_t at : equal) members[at].clear();
        members[equal.front()] = equal;
      }
    }
    for (const std::vector<std::size_t>& equal : members) {
      if (!equal.empty()) result.push_back(merged(siblings, equal));
    }
    return result;
  }

  // Splits siblings of one structure by size: those near the median, and then the others.
  std::vector<std::vector<std::size_t>> split(const std::vector<Sibling>& siblings,
                                              std::vector<std::size_t> rows) const {
    std::vector<std::vector<std::size_t>> all;
    while (!rows.empty()) {
      std::vector<std::size_t> sorted = rows;
      const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
      std::ranges::nth_element(sorted, middle, [&](std::size_t a, std::size_t b) {
        return sizes(siblings[a]) < sizes(siblings[b]);
      });
      const Sizes typical = sizes(siblings[*middle]);
      const auto others = std::ranges::stable_partition(rows, [&](std::size_t at) {
        const Sizes each = sizes(siblings[at]);
        return is_within(each.live, typical.live, kMostUnequal) &&
               is_within(each.kept, typical.kept, kMostUnequal) &&
               is_within(each.parameters, typical.parameters, kMostUnequalParameters);
      });
      all.emplace_back(rows.begin(), others.begin());
      rows.erase(rows.begin(), others.begin());
    }
    return all;
  }

  static bool follow_each_other(const std::vector<Sibling>& siblings,
                                const std::vector<std::size_t>& equal) {
    const std::uint64_t first = numbered(siblings[equal.front()].name)->number;
    const std::uint64_t last = numbered(siblings[equal.back()].name)->number;
    return last - first == equal.size() - 1;
  }

  static Sibling merged(const std::vector<Sibling>& siblings,
                        const std::vector<std::size_t>& equal) {
    Sibling all = siblings[equal.front()];
    if (equal.size() == 1) return all;
    std::vector<std::uint64_t> numbers;
    for (const std::size_t at : equal) {
      numbers.push_back(numbered(siblings[at].name)->number);
      if (at == equal.front()) continue;
      all.layers.insert(all.layers.end(), siblings[at].layers.begin(), siblings[at].layers.end());
    }
    const std::string stem(numbered(all.name)->stem);
    all.name = stem;
    for (const std::string& range : number_ranges(numbers)) {
      all.name += (all.name.size() == stem.size() ? "" : ", ") + range;
    }
    std::ranges::sort(all.layers, [](const LayerRow* a, const LayerRow* b) {
      return base::natural_less(a->layer, b->layer);
    });
    return all;
  }

  // The memory of one layer, which decides whether siblings are equal.
  struct Sizes {
    std::uint64_t live = 0;
    std::uint64_t kept = 0;
    std::uint64_t parameters = 0;
    auto operator<=>(const Sizes&) const = default;
  };
  Sizes sizes(const Sibling& sibling) const {
    Sizes sum;
    for (const LayerRow* row : sibling.layers) {
      if (by_ == FoldedBy::kStructureAndLiveBytes) sum.live += row->inclusive.bytes;
      sum.kept += row->inclusive.*measure_;
      sum.parameters += row->inclusive.parameter_bytes;
    }
    const std::size_t count = sibling.layers.size();
    return {sum.live / count, sum.kept / count, sum.parameters / count};
  }

  // A hash that is equal for layers of one class with the same layers inside.
  std::uint64_t structure(const Rows& layers, std::size_t depth) {
    std::uint64_t hash = layers.size();
    for (const LayerRow* row : layers) hash = base::hash_mix(hash + 1, structure(row, depth));
    return hash;
  }
  std::uint64_t structure(const LayerRow* row, std::size_t depth) {
    const auto known = structures_.find(row);
    if (known != structures_.end()) return known->second;
    std::uint64_t hash = base::hash_bytes(row->type.data(), row->type.size());
    const auto found = children_.find(row->layer);
    if (found != children_.end() && !row->layer.empty() && depth < kDeepest) {
      for (const LayerRow* child : found->second) {
        const std::string_view name = last_name(child->layer);
        hash = base::hash_bytes(name.data(), name.size(), hash + structure(child, depth + 1));
      }
    }
    return structures_[row] = hash;
  }

  static FoldedLayerRow sum(std::string path, const Rows& layers) {
    FoldedLayerRow row;
    row.device = layers.front()->device;
    row.layer = std::move(path);
    row.type = layers.front()->type;
    row.smallest_bytes = layers.front()->inclusive.bytes;
    for (const LayerRow* layer : layers) {
      row.layers.push_back(layer->layer);
      add(layer->own, row.own);
      add(layer->inclusive, row.inclusive);
      row.smallest_bytes = std::min(row.smallest_bytes, layer->inclusive.bytes);
      row.largest_bytes = std::max(row.largest_bytes, layer->inclusive.bytes);
    }
    return row;
  }

  static void add(const LayerBytes& from, LayerBytes& to) {
    for (const auto member : {&LayerBytes::bytes, &LayerBytes::count, &LayerBytes::forward_bytes,
                              &LayerBytes::backward_bytes, &LayerBytes::optimizer_bytes,
                              &LayerBytes::other_bytes, &LayerBytes::parameter_bytes,
                              &LayerBytes::gradient_bytes, &LayerBytes::optimizer_state_bytes,
                              &LayerBytes::activation_bytes, &LayerBytes::saved_bytes}) {
      to.*member += from.*member;
    }
    if (from.peak_bytes <= to.peak_bytes) return;
    to.peak_bytes = from.peak_bytes;
    to.peak_event = from.peak_event;
    to.peak_time_ns = from.peak_time_ns;
  }

  std::unordered_map<std::string_view, bool> is_known_;
  std::unordered_map<std::string_view, Rows> children_;
  Rows roots_;
  std::unordered_map<const LayerRow*, std::uint64_t> structures_;
  std::uint64_t LayerBytes::* measure_ = nullptr;
  FoldedBy by_;
};

}  // namespace

std::string_view parent_layer(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

bool is_of_equal_size(std::uint64_t a, std::uint64_t b) { return is_within(a, b, kMostUnequal); }

std::vector<FoldedLayerRow> fold_layers(const std::vector<LayerRow>& rows, FoldedBy by) {
  std::vector<FoldedLayerRow> folded;
  std::vector<std::pair<std::int32_t, Rows>> devices;  // in the order of the rows
  for (const LayerRow& row : rows) {
    const auto known =
        std::ranges::find(devices, row.device, &std::pair<std::int32_t, Rows>::first);
    if (known == devices.end())
      devices.emplace_back(row.device, Rows{&row});
    else
      known->second.push_back(&row);
  }
  for (auto& [device, of_device] : devices) DeviceFolds(std::move(of_device), by).append_to(folded);
  return folded;
}

std::vector<std::string> ranges_of(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (std::size_t begin = 0, end = 0; begin < paths.size(); begin = end) {
    end = begin + 1;
    const std::string_view first = paths[begin];
    const auto name = numbered(last_name(first));
    std::vector<std::uint64_t> numbers;
    if (name) numbers.push_back(name->number);
    for (; name && end < paths.size(); ++end) {
      const auto next = numbered(last_name(paths[end]));
      if (!next || next->stem != name->stem || parent_layer(paths[end]) != parent_layer(first))
        break;
      if (next->number != numbers.back() + 1) break;
      numbers.push_back(next->number);
    }
    std::string path = paths[begin];
    if (numbers.size() > 1) path += kRange + std::to_string(numbers.back());
    names.push_back(std::move(path));
  }
  return names;
}

}  // namespace plimsoll::report
