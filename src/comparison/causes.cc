#include "comparison/causes.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "comparison/cause_text.h"

namespace plimsoll::comparison {
namespace {

using report::Digest;
using report::DigestModule;
using Rows = std::vector<std::size_t>;

constexpr double kMostOfChanged = 0.8;  // of the changed bytes, for one factor to be the cause
constexpr double kMostOfAll = 0.7;      // of all bytes
constexpr double kSameRatio = 0.005;    // ratios that differ by less are equal
constexpr std::size_t kMostIndices = 10'000;

// Whether the path is the module or below it.
bool is_under(std::string_view path, std::string_view module) {
  return path.starts_with(module) && (path.size() == module.size() || path[module.size()] == '.');
}

std::string parent_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return std::string(path.substr(0, dot == std::string_view::npos ? 0 : dot));
}

// "0-2, 7" -> {0, 1, 2, 7}
std::set<std::uint64_t> numbers_in(std::string_view ranges) {
  std::set<std::uint64_t> numbers;
  const char* at = ranges.data();
  const char* const end = at + ranges.size();
  while (at != end && numbers.size() < kMostIndices) {
    std::uint64_t first = 0;
    auto parsed = std::from_chars(at, end, first);
    if (parsed.ec != std::errc{}) break;
    std::uint64_t last = first;
    at = parsed.ptr;
    if (at != end && *at == '-') {
      parsed = std::from_chars(at + 1, end, last);
      if (parsed.ec != std::errc{}) break;
      at = parsed.ptr;
    }
    for (; first <= last && numbers.size() < kMostIndices; ++first) numbers.insert(first);
    while (at != end && (*at == ',' || *at == ' ')) ++at;
  }
  return numbers;
}

class Explainer {
 public:
  Explainer(const std::vector<PairAtPoint>& rows, const Digest& before, const Digest& after,
            const Alignment& alignment)
      : rows_(rows), of_row_(rows.size(), -1) {
    for (const DigestModule& module : before.modules) {
      before_modules_.emplace(renamed(module.path, alignment.renames), &module);
    }
    for (const DigestModule& module : after.modules) after_modules_.emplace(module.path, &module);
  }

  Explained run(std::int64_t least_bytes) {
    added_modules(after_modules_, before_modules_, "module_added", "new");
    added_modules(before_modules_, after_modules_, "module_removed", "gone");
    repeated_modules();
    dtypes();
    scaled_computation();
    for (const char* const category : {"optimizer_state", "gradient", "buffer"}) {
      scaled_counts(category);
    }
    sizes_of_parameters();
    kept();
    unpaired();
    sizes();
    return keep(least_bytes);
  }

 private:
  using Modules = std::map<std::string, const DigestModule*, std::less<>>;

  bool is_open(std::size_t row) const { return of_row_[row] < 0 && rows_[row].difference() != 0; }

  Rows open_rows(const std::function<bool(const PairAtPoint&)>& is_wanted) const {
    Rows out;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (is_open(row) && is_wanted(rows_[row])) out.push_back(row);
    }
    return out;
  }

  void claim(std::string id, std::string title, std::string subject, const Rows& rows) {
    if (rows.empty()) return;
    DiffCause cause;
    cause.id = std::move(id);
    cause.title = std::move(title);
    cause.subject = std::move(subject);
    cause.rows = rows.size();
    cause.place = largest(rows).key().place;
    for (const std::size_t row : rows) {
      of_row_[row] = static_cast<std::int64_t>(causes_.size());
      cause.difference_bytes += rows_[row].difference();
      cause.is_assumed = cause.is_assumed || is_assumed(rows_[row].pairing);
    }
    causes_.push_back(std::move(cause));
  }

  const PairAtPoint& largest(const Rows& rows) const {
    return rows_[*std::ranges::max_element(
        rows, {}, [&](std::size_t row) { return std::abs(rows_[row].difference()); })];
  }

  // Modules that only one side has, without those inside of another one.
  void added_modules(const Modules& with, const Modules& without, const char* id,
                     const char* what) {
    for (const auto& [path, module] : with) {
      const std::string parent = parent_of(path);
      const bool is_inside = !parent.empty() && with.contains(parent) && !without.contains(parent);
      if (without.contains(path) || is_inside) continue;
      const auto rows =
          open_rows([&](const PairAtPoint& row) { return is_under(row.key().layer, path); });
      claim(id, module_text(path, module->type, module->instances) + " is " + what, path, rows);
    }
  }

  // More or fewer repetitions of a block: what each of them has is unchanged.
  void repeated_modules() {
    for (const auto& [path, after] : after_modules_) {
      const auto found = before_modules_.find(path);
      if (found == before_modules_.end() || !path.ends_with('*')) continue;
      const DigestModule& before = *found->second;
      if (before.instances == after->instances) continue;
      const auto rows = open_rows([&](const PairAtPoint& row) {
        const bool is_same_each = row.before == nullptr || row.after == nullptr ||
                                  row.before->instance_bytes == row.after->instance_bytes;
        return is_same_each && is_under(row.key().layer, path);
      });
      const bool is_more = after->instances > before.instances;
      const auto names = index_names(path, is_more ? before : *after, is_more ? *after : before);
      std::string text = names;
      text.append(is_more ? " is new: " : " is gone: ");
      text.append(std::to_string(after->instances)).append(" × ").append(path);
      text.append(", before ").append(std::to_string(before.instances)).append(" ×");
      claim(is_more ? "module_added" : "module_removed", text, names, rows);
    }
  }

  // "Net.blocks.4, Net.blocks.5": the indices that only `more` has.
  static std::string index_names(const std::string& path, const DigestModule& less,
                                 const DigestModule& more) {
    std::set<std::uint64_t> only;
    std::ranges::set_difference(numbers_in(more.indices), numbers_in(less.indices),
                                std::inserter(only, only.end()));
    const std::string block = path.substr(0, path.size() - 1);
    if (only.empty()) return path;
    std::string names = block + std::to_string(*only.begin());
    if (only.size() > 1) names += " to " + block + std::to_string(*only.rbegin());
    return names;
  }

  static double ratio(const PairAtPoint& row) {
    return static_cast<double>(row.after_bytes()) / static_cast<double>(row.before_bytes());
  }
  static double largest_ratio(const PairAtPoint& row) {
    return static_cast<double>(row.after->largest_bytes) /
           static_cast<double>(row.before->largest_bytes);
  }
  static bool is_near(double ratio, double other) {
    return std::abs(ratio / other - 1) < kSameRatio;
  }
  static double weight(const PairAtPoint& row) {
    return static_cast<double>(row.before_bytes()) + static_cast<double>(row.after_bytes());
  }
  static bool is_on_both(const PairAtPoint& row) {
    return row.before_bytes() > 0 && row.after_bytes() > 0;
  }

  // The ratio of most bytes among the rows; 1 if there are none.
  double commonest_ratio(const Rows& rows) const {
    std::map<std::int64_t, double> weights;  // by logarithm, in units of kSameRatio
    std::map<std::int64_t, std::size_t> examples;
    for (const std::size_t row : rows) {
      const auto unit = std::llround(std::log(ratio(rows_[row])) / kSameRatio);
      weights[unit] += weight(rows_[row]);
      examples.emplace(unit, row);
    }
    if (weights.empty()) return 1;
    const auto most =
        std::ranges::max_element(weights, {}, [](const auto& each) { return each.second; });
    return ratio(rows_[examples.at(most->first)]);
  }

  // A tensor's dtype changed, and what is computed with it has grown by the same factor.
  void dtypes() {
    const Rows changed = open_rows([](const PairAtPoint& row) {
      return is_on_both(row) && row.pairing == Pairing::kDtype && !row.before_key->dtype.empty() &&
             !row.after_key->dtype.empty();
    });
    if (changed.empty()) return;
    const double factor = commonest_ratio(changed);
    const PairAtPoint example = largest(changed);
    const Rows rows = open_rows(
        [&](const PairAtPoint& row) { return is_on_both(row) && is_near(ratio(row), factor); });
    const std::string change = example.before_key->dtype + " → " + example.after_key->dtype;
    claim("dtype_changed", change + ", " + factor_text(factor), change, rows);
  }

  // One factor for most activations: a larger batch, image or sequence. What else has grown by it
  // belongs to it.
  void scaled_computation() {
    const auto is_scalable = [](const PairAtPoint& row) {
      return is_on_both(row) && row.before_count() == row.after_count();
    };
    const double factor = commonest_ratio(open_rows([&](const PairAtPoint& row) {
      return is_scalable(row) && row.key().category == "activation";
    }));
    const auto fits = [&](const PairAtPoint& row) {
      return is_scalable(row) &&
             (is_near(ratio(row), factor) || is_near(largest_ratio(row), factor));
    };
    double all = 0;
    double changed = 0;
    double fitting = 0;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (rows_[row].key().category != "activation") continue;
      all += weight(rows_[row]);
      if (!is_open(row)) continue;
      changed += weight(rows_[row]);
      if (fits(rows_[row])) fitting += weight(rows_[row]);
    }
    if (fitting == 0 || fitting < kMostOfChanged * changed || fitting < kMostOfAll * all) return;
    const Rows rows = open_rows(
        [&](const PairAtPoint& row) { return row.key().category != "parameter" && fits(row); });
    claim("scaled", "activations and what is computed from them " + factor_text(factor),
          "activation", rows);
  }

  // As many allocations of the same size as before, times one factor.
  void scaled_counts(std::string_view category) {
    const auto is_scaled = [&](const PairAtPoint& row) {
      return is_on_both(row) && row.key().category == category &&
             row.before->largest_bytes == row.after->largest_bytes;
    };
    const double factor = commonest_ratio(open_rows(is_scaled));
    double all = 0;
    double fitting = 0;
    for (const PairAtPoint& row : rows_) {
      if (row.key().category == category) all += weight(row);
    }
    const Rows rows = open_rows(
        [&](const PairAtPoint& row) { return is_scaled(row) && is_near(ratio(row), factor); });
    for (const std::size_t row : rows) fitting += weight(rows_[row]);
    if (rows.size() < 2 || fitting < kMostOfAll * all) return;
    claim("scaled", std::string(category) + " " + factor_text(factor), std::string(category), rows);
  }

  // Layers whose parameters have another size, with all that is computed in them.
  void sizes_of_parameters() {
    std::map<std::string, std::set<std::string>> layers;  // by parent
    for (const std::size_t row : open_rows([](const PairAtPoint& row) {
           return is_on_both(row) && row.key().category == "parameter" &&
                  row.before_count() == row.after_count();
         })) {
      const std::string& layer = rows_[row].key().layer;
      layers[parent_of(layer)].insert(layer);
    }
    std::set<std::string> groups;
    for (const auto& [parent, children] : layers) {
      const bool is_root = parent.find('.') == std::string::npos;
      if (children.size() > 1 && !is_root) {
        groups.insert(parent);
      } else {
        groups.insert(children.begin(), children.end());
      }
    }
    for (const std::string& group : groups) {
      const Rows rows =
          open_rows([&](const PairAtPoint& row) { return is_under(row.key().layer, group); });
      const Rows parameters = open_rows([&](const PairAtPoint& row) {
        return is_under(row.key().layer, group) && row.key().category == "parameter" &&
               is_on_both(row);
      });
      if (parameters.empty()) continue;  // in a group before
      claim("size_changed", "size of " + group + shapes_text(largest(parameters)), group, rows);
    }
  }

  using Group = std::tuple<std::string, std::string, std::string, std::string>;

  void claim_groups(const std::map<Group, Rows>& groups) {
    for (const auto& [group, rows] : groups) {
      const auto& [id, layer, function, category] = group;
      claim(id, rows_text(id, rows_of(rows)), layer.empty() ? function : layer, rows);
    }
  }
  std::vector<PairAtPoint> rows_of(Rows rows) const {
    std::ranges::sort(rows, [&](std::size_t one, std::size_t other) {
      return std::pair(-std::abs(rows_[one].difference()), one) <
             std::pair(-std::abs(rows_[other].difference()), other);
    });
    std::vector<PairAtPoint> out;
    for (const std::size_t row : rows) out.push_back(rows_[row]);
    return out;
  }
  // What belongs to parameters is one group, whatever the layer.
  static Group group_of(std::string id, const report::DigestKey& key) {
    if (key.category == "gradient" || key.category == "optimizer_state") {
      return {std::move(id), "", key.category, key.category};
    }
    return {std::move(id), key.layer, key.function, key.category};
  }

  // Lines that allocate as before, but of which more is live.
  void kept() {
    std::map<Group, Rows> groups;
    for (const std::size_t row :
         open_rows([](const PairAtPoint& row) { return row.pairing != Pairing::kUnpaired; })) {
      const PairAtPoint& pair = rows_[row];
      const bool is_activation = pair.key().category == "activation";
      std::string id;
      if (pair.before_bytes() == 0) {
        id = is_activation ? "now_saved" : "longer_lived";
      } else if (pair.after_bytes() == 0) {
        id = is_activation ? "no_longer_saved" : "shorter_lived";
      } else if (pair.before->largest_bytes == pair.after->largest_bytes &&
                 pair.before_count() != pair.after_count()) {
        id = pair.after_count() > pair.before_count() ? "more_kept" : "fewer_kept";
      }
      if (!id.empty()) groups[group_of(std::move(id), pair.key())].push_back(row);
    }
    claim_groups(groups);
  }

  // Keys of one side only. If a function of a layer has both, they replaced each other.
  void unpaired() {
    std::map<std::pair<std::string, std::string>, std::pair<Rows, Rows>> functions;
    for (const std::size_t row :
         open_rows([](const PairAtPoint& row) { return row.pairing == Pairing::kUnpaired; })) {
      const report::DigestKey& key = rows_[row].key();
      auto& [gone, added] = functions[{key.layer, key.function}];
      (rows_[row].after_key == nullptr ? gone : added).push_back(row);
    }
    std::map<Group, Rows> groups;
    for (const auto& [function, rows] : functions) {
      const auto& [gone, added] = rows;
      if (!gone.empty() && !added.empty()) {
        Rows both = added;
        both.insert(both.end(), gone.begin(), gone.end());
        const auto& [layer, name] = function;
        claim("replaced", replaced_text(rows_of(gone), rows_of(added)),
              layer.empty() ? name : layer, both);
        continue;
      }
      for (const std::size_t row : added) {
        groups[group_of("new", rows_[row].key())].push_back(row);
      }
      for (const std::size_t row : gone) {
        groups[group_of("removed", rows_[row].key())].push_back(row);
      }
    }
    claim_groups(groups);
  }

  // Lines that allocate other sizes.
  void sizes() {
    std::map<Group, Rows> groups;
    for (const std::size_t row : open_rows([](const PairAtPoint&) { return true; })) {
      const char* const id = rows_[row].difference() > 0 ? "grew" : "shrank";
      groups[group_of(id, rows_[row].key())].push_back(row);
    }
    claim_groups(groups);
  }

  Explained keep(std::int64_t least_bytes) const {
    Explained out;
    std::vector<std::int64_t> moved(
        causes_.size());  // a pair that replaced each other may sum to 0
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (of_row_[row] < 0) continue;
      auto& most = moved[static_cast<std::size_t>(of_row_[row])];
      most = std::max(most, std::abs(rows_[row].difference()));
    }
    std::vector<std::size_t> order;
    for (std::size_t cause = 0; cause < causes_.size(); ++cause) {
      const std::int64_t size = causes_[cause].id == "replaced"
                                    ? moved[cause]
                                    : std::abs(causes_[cause].difference_bytes);
      if (size >= least_bytes) {
        order.push_back(cause);
      } else {
        out.everything_else_bytes += causes_[cause].difference_bytes;
      }
    }
    std::ranges::sort(order, [&](std::size_t one, std::size_t other) {
      return std::pair(-std::abs(causes_[one].difference_bytes), one) <
             std::pair(-std::abs(causes_[other].difference_bytes), other);
    });
    std::vector<std::int64_t> place(causes_.size(), -1);
    for (std::size_t i = 0; i < order.size(); ++i) {
      place[order[i]] = static_cast<std::int64_t>(i);
      out.causes.push_back(causes_[order[i]]);
    }
    for (const std::int64_t cause : of_row_) {
      out.of_row.push_back(cause < 0 ? -1 : place[static_cast<std::size_t>(cause)]);
    }
    return out;
  }

  const std::vector<PairAtPoint>& rows_;
  std::vector<std::int64_t> of_row_;  // index of the cause that has claimed the row; -1: none
  std::vector<DiffCause> causes_;
  Modules before_modules_;  // by path, with the names of the second digest
  Modules after_modules_;
};

}  // namespace

Explained explain(const std::vector<PairAtPoint>& rows, const Digest& before, const Digest& after,
                  const Alignment& alignment, std::int64_t least_bytes) {
  return Explainer(rows, before, after, alignment).run(least_bytes);
}

}  // namespace plimsoll::comparison
