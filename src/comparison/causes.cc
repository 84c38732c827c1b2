#include "comparison/causes.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "comparison/cause_text.h"
#include "comparison/retention.h"
#include "comparison/row_facts.h"

namespace plimsoll::comparison {
namespace {

using report::Digest;
using report::DigestModule;
using Rows = std::vector<std::size_t>;

constexpr double kMostOfChanged = 0.8;  // of the changed bytes, for one factor to be the cause
constexpr double kMostOfAll = 0.7;      // of all bytes
constexpr double kMostOfMoved = 0.5;    // of the difference, for the rest to be of another moment
constexpr std::size_t kSeveralLayers = 3;
constexpr const char* kPeakMoved = "peak_moved";
constexpr const char* kNoCause = "";  // merged into everything else

// Whether the path is the module itself or below it.
bool is_under(std::string_view path, std::string_view module) {
  return path.starts_with(module) && (path.size() == module.size() || path[module.size()] == '.');
}

std::string parent_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return std::string(path.substr(0, dot == std::string_view::npos ? 0 : dot));
}

class Explainer {
 public:
  Explainer(const std::vector<PairAtPoint>& rows, const Digest& before, const Digest& after,
            const Alignment& alignment, bool moves_results)
      : before_(&before),
        after_(&after),
        rows_(rows),
        of_row_(rows.size(), -1),
        moves_results_(moves_results),
        retention_(before, after, alignment),
        modules_(alignment.modules) {
    for (const report::DigestKey& key : before.keys) {
      if (!key.text.empty()) old_lines_.insert(key.text);
    }
    for (const DigestModule& module : before.modules) {
      before_modules_.emplace(modules_.name_before(module.path), &module);
    }
    for (const DigestModule& module : after.modules) {
      after_modules_.emplace(modules_.name_after(module.path), &module);
    }
  }

  Explained run(const ExplainOptions& options) {
    kept_each_step();
    kept_graph();
    replaced_modules();
    added_modules(after_modules_, &ModulePairs::is_added, "module_added", "new");
    added_modules(before_modules_, &ModulePairs::is_removed, "module_removed", "gone");
    dtypes();
    scaled_computation();
    for (const char* const category : {"optimizer_state", "gradient", "buffer", "activation"}) {
      scaled_counts(category);
    }
    sizes_of_parameters();
    foreach_scratch();
    if (!options.moved.empty()) moved(options.moved);
    kept_results();
    replaced_lines();
    kept();
    reallocated();
    unpaired();
    consequences();
    sizes();
    return keep(options.least_bytes);
  }

 private:
  using Modules = std::map<std::string, const DigestModule*, std::less<>>;
  using Group = std::tuple<std::string, std::string, std::string, std::string>;

  bool is_open(std::size_t row) const {
    return of_row_[row] < 0 && rows_[row].difference() != 0 && !rows_[row].is_within_range;
  }

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
    const PairAtPoint& example = largest(rows);
    cause.place = example.key().place;
    cause.category = example.key().category;
    cause.is_foreach = is_now_foreach(example);
    cause.is_known_line = old_lines_.contains(example.key().text);
    for (const std::size_t row : rows) {
      of_row_[row] = static_cast<std::int64_t>(causes_.size());
      cause.difference_bytes += rows_[row].difference();
      cause.is_assumed = cause.is_assumed || is_assumed(rows_[row].pairing);
    }
    cause.own_bytes = cause.difference_bytes;
    causes_.push_back(std::move(cause));
  }

  const PairAtPoint& largest(const Rows& rows) const {
    return rows_[*std::ranges::max_element(
        rows, {}, [&](std::size_t row) { return std::abs(rows_[row].difference()); })];
  }

  // Modules that only one side has, without those nested in another such module. Those with one
  // parent are one cause. A container of modules that both have, such as an nn.Sequential around an
  // old layer, is named only for its own memory, and is no parent.
  void added_modules(const Modules& all, bool (ModulePairs::*is_alone)(std::string_view) const,
                     const char* id, const char* what) {
    std::map<std::string, std::vector<const DigestModule*>> groups;  // by parent
    std::map<std::string, std::set<std::size_t>, std::less<>> rows;  // by the name of the module
    for (const auto& [name, module] : all) {
      if (!(modules_.*is_alone)(name)) continue;
      std::string parent = parent_of(name);
      bool is_inside = false;
      while (!is_inside && (modules_.*is_alone)(parent)) {
        const auto around = all.find(parent);
        is_inside = around == all.end() || !is_around_others(all, *around->second);
        parent = parent_of(parent);
      }
      if (is_inside) continue;
      groups[parent].push_back(module);
      rows[name];
    }
    for (const std::size_t row : open_rows([](const PairAtPoint&) { return true; })) {
      std::string name = rows_[row].layer;
      if (!(modules_.*is_alone)(name)) continue;
      while (!name.empty() && !rows.contains(name)) name = parent_of(name);
      if (!name.empty()) rows[name].insert(row);
    }
    for (auto& [parent, modules] : groups) {
      Rows claimed;
      std::vector<DigestModule> named;
      for (const DigestModule* const module : modules) {
        const auto& own = rows[&all == &after_modules_ ? modules_.name_after(module->path)
                                                       : modules_.name_before(module->path)];
        claimed.insert(claimed.end(), own.begin(), own.end());
        if (!own.empty() || !is_around_others(all, *module)) named.push_back(*module);
      }
      if (named.empty()) continue;
      const Rows results = results_beside({parent});
      claimed.insert(claimed.end(), results.begin(), results.end());
      claim(id, modules_text(named) + (named.size() == 1 ? " is " : " are ") + what,
            named.front().path, claimed);
    }
  }

  // Whether something in a module that one side has is on both sides.
  bool is_around_others(const Modules& all, const DigestModule& module) const {
    const bool is_after = &all == &after_modules_;
    return std::ranges::any_of(
        is_after ? after_->modules : before_->modules, [&](const auto& each) {
          if (!is_under(each.path, module.path)) return false;
          return is_after ? !modules_.is_added(modules_.name_after(each.path))
                          : !modules_.is_removed(modules_.name_before(each.path));
        });
  }

  // Results that are live on one side only. Whether backward needs the result of a module depends
  // on the next one, which is in the same module.
  Rows results_beside(const std::set<std::string, std::less<>>& parents) const {
    return open_rows([&](const PairAtPoint& row) {
      const bool has_moved = moves_results_ && retention_.is_of_another_moment(row, scale_);
      return is_in_one(row) && row.key().category == "activation" && !has_moved &&
             parents.contains(parent_of(row.layer)) && !modules_.is_added(row.layer) &&
             !modules_.is_removed(row.layer);
    });
  }

  // Modules of another class, whose operators are others, too. One class may be replaced in many
  // modules.
  void replaced_modules() {
    std::map<std::string, std::vector<std::string>> changes;
    for (const auto& [name, old_class] : modules_.replaced()) {
      const auto module = after_modules_.find(name);
      const bool has_other_operator = std::ranges::any_of(rows_, [&](const PairAtPoint& row) {
        return is_under(row.layer, name) &&
               (row.before_key == nullptr || row.after_key == nullptr ||
                row.before_key->op != row.after_key->op);
      });
      if (module == after_modules_.end() || !has_other_operator) continue;
      changes[old_class + " → " + module->second->type].push_back(name);
    }
    for (const auto& [change, names] : changes) {
      std::set<std::string, std::less<>> parents;
      std::vector<DigestModule> modules;
      for (const std::string& name : names) {
        parents.insert(parent_of(name));
        modules.push_back(*after_modules_.find(name)->second);
        modules.back().type.clear();
      }
      Rows rows = open_rows([&](const PairAtPoint& row) {
        return std::ranges::any_of(
            names, [&](const std::string& name) { return is_under(row.layer, name); });
      });
      const Rows results = results_beside(parents);
      std::ranges::copy_if(results, std::back_inserter(rows), [&](std::size_t row) {
        return std::ranges::find(rows, row) == rows.end();
      });
      claim("replaced", modules_text(modules) + ": " + change, modules.front().path, rows);
      if (!rows.empty()) replaced_causes_.insert(causes_.size() - 1);
    }
  }

  // The ratio that applies to the most bytes of these rows; 1 if there are none.
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

  // Memory whose dtype changed, and other memory that changed by the same factor.
  void dtypes() {
    Rows changed = open_rows([](const PairAtPoint& row) {
      return has_other_dtype(row) && row.pairing == Pairing::kDtype;
    });
    if (changed.empty()) changed = open_rows(has_other_dtype);
    if (changed.empty()) return;
    const PairAtPoint& example = largest(changed);
    const double factor = largest_ratio(example);
    const Rows rows = open_rows([&](const PairAtPoint& row) {
      return is_on_both(row) &&
             (is_near(ratio(row), factor) || is_near(largest_ratio(row), factor));
    });
    const std::string change = dtype_in(*example.before_key, *example.before) + " → " +
                               dtype_in(*example.after_key, *example.after);
    claim("dtype_changed", change + ", " + factor_text(factor), change, rows);
  }

  // Layers whose parameters changed in size.
  std::set<std::string> resized_layers() const {
    std::set<std::string> layers;
    for (const std::size_t row : open_rows(is_resized_parameter)) {
      layers.insert(rows_[row].layer);
    }
    return layers;
  }

  // Whether the layer is in `layers` or below one of them. The root module would contain every
  // layer, so only its own name matches it.
  static bool is_in(std::string_view layer, const std::set<std::string>& layers) {
    return std::ranges::any_of(layers, [&](const std::string& other) {
      return layer == other || (other.find('.') != std::string::npos && is_under(layer, other));
    });
  }

  // One factor for most activations: another batch, image or sequence size. Other memory that
  // changed by the same factor has the same cause. A wider layer also has a factor, but its
  // parameters change too.
  void scaled_computation() {
    const double factor = commonest_ratio(open_rows([&](const PairAtPoint& row) {
      return is_on_both(row) && row.before_count() == row.after_count() &&
             row.key().category == "activation";
    }));
    if (is_near(factor, 1)) return;
    const std::set<std::string> resized = resized_layers();
    const auto fits = [&](const PairAtPoint& row) {
      return is_on_both(row) && is_scaled(row, factor);
    };
    double all = 0;
    double changed = 0;
    double fitting = 0;
    std::size_t lines = 0;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (rows_[row].key().category != "activation") continue;
      all += weight(rows_[row]);
      if (!is_open(row)) continue;
      changed += weight(rows_[row]);
      if (!fits(rows_[row]) || is_in(rows_[row].layer, resized)) continue;
      fitting += weight(rows_[row]);
      ++lines;
    }
    // If parameters changed in size, a single matching line may only reflect a wider layer.
    const bool is_one_factor = lines > (resized.empty() ? 0 : 1);
    if (!is_one_factor || fitting < kMostOfChanged * changed || fitting < kMostOfAll * all) return;
    const Rows rows = open_rows(
        [&](const PairAtPoint& row) { return row.key().category != "parameter" && fits(row); });
    scale_ = factor;
    claim("scaled", "activations and what is computed from them " + factor_text(factor),
          "activation", rows);
  }

  // Allocations of unchanged size whose count changed by one factor.
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
    const bool are_results = category == "activation";  // as of several passes of forward
    claim(are_results && factor > 1 ? "more_kept" : "scaled",
          std::string(category) + " " + factor_text(factor) +
              (are_results ? ", of unchanged sizes" : ""),
          std::string(category), rows);
  }

  // Layers whose parameters changed in size, with everything that is computed in them. Those with
  // one parent are one cause; the layers of the root module are named.
  void sizes_of_parameters() {
    std::map<std::string, std::set<std::string>> layers;  // by parent
    for (const std::string& layer : resized_layers()) layers[parent_of(layer)].insert(layer);
    for (const auto& [parent, children] : layers) {
      const bool is_one = children.size() > 1 && parent.find('.') != std::string::npos;
      const std::set<std::string> groups = is_one ? std::set{parent} : children;
      const auto is_in_groups = [&](const PairAtPoint& row) {
        return std::ranges::any_of(
            groups, [&](const std::string& group) { return is_under(row.layer, group); });
      };
      const Rows parameters = open_rows(
          [&](const PairAtPoint& row) { return is_resized_parameter(row) && is_in_groups(row); });
      if (parameters.empty()) continue;  // in a group before
      const PairAtPoint& example = largest(parameters);
      std::vector<DigestModule> modules;
      for (const std::string& group : groups) {
        const bool is_first = is_under(example.layer, group);
        modules.insert(is_first ? modules.begin() : modules.end(), {.path = group});
      }
      const std::string subject = modules.front().path;
      claim("size_changed", "size of " + names_text(modules) + shapes_text(example), subject,
            open_rows(is_in_groups));
      // The line that sets the size.
      const std::string& constructor = example.key().place;
      if (!constructor.starts_with('[')) causes_.back().place = constructor;
    }
  }

  // Results of which a list, for example, has one more after each step.
  void kept_each_step() {
    std::map<std::pair<std::string, std::string>, Rows> functions;
    for (const std::size_t row : open_rows([&](const PairAtPoint& row) {
           return row.difference() > 0 && retention_.is_growing(row);
         })) {
      const report::DigestKey& key = rows_[row].key();
      functions[{key.function, key.category}].push_back(row);
    }
    for (const auto& [function, rows] : functions) {
      const std::vector<PairAtPoint> sorted = rows_of(rows);
      if (!retention_.grow_each_step(sorted)) continue;
      const std::uint64_t per_step = retention_.kept_per_step(sorted);
      const report::DigestKey& key = sorted.front().key();
      claim("kept_each_step",
            rows_text("kept_each_step", sorted) + ", " +
                (per_step == 1 ? "one" : std::to_string(per_step)) + " more each step",
            key.layer.empty() ? key.function : key.layer, rows);
    }
  }

  // Activations that backward leaves live, and the gradients that backward adds to them.
  void kept_graph() {
    if (rows_.empty() || !retention_.keeps_graph(rows_.front().key().device)) return;
    const Rows rows = open_rows([&](const PairAtPoint& row) {
      const std::string& category = row.key().category;
      const bool is_gradient = category == "gradient" || category == "activation_gradient";
      return row.difference() > 0 &&
             (is_gradient || (category == "activation" && retention_.is_kept(row)));
    });
    claim("graph_kept", "activations that backward does not free, and gradients on top of them",
          "activation", rows);
  }

  // The scratch memory of an optimizer that now updates all parameters together.
  void foreach_scratch() {
    const Rows rows =
        open_rows([](const PairAtPoint& row) { return row.key().category == "optimizer_scratch"; });
    if (rows.empty() || !is_now_foreach(largest(rows))) return;
    claim("replaced",
          rows_text({}, {largest(rows)}) + ": the optimizer updates all parameters together",
          "optimizer_scratch", rows);
    causes_.back().is_assumed = false;
  }

  void moved(const std::string& title) {
    const Rows rows = open_rows(
        [&](const PairAtPoint& row) { return retention_.is_of_another_moment(row, scale_); });
    claim(kPeakMoved, title, "", rows);
    if (rows.empty()) return;
    causes_.back().place.clear();
    causes_.back().is_assumed = false;
  }

  // Results of several layers that something keeps after their step, such as a hook.
  void kept_results() {
    std::set<std::string> layers;
    const Rows rows = open_rows([&](const PairAtPoint& row) {
      return row.difference() > 0 && row.key().category == "activation" && retention_.is_kept(row);
    });
    for (const std::size_t row : rows) layers.insert(rows_[row].key().layer);
    if (layers.size() < kSeveralLayers) return;
    const std::string text = rows_text({}, rows_of(rows));
    claim("more_kept", text + ", kept after the step", "activation", rows);
  }

  void claim_groups(const std::map<Group, Rows>& groups) {
    for (const auto& [group, rows] : groups) {
      const auto& [id, layer, function, category] = group;
      claim(id, rows_text(id, rows_of(rows)), layer.empty() ? function : layer, rows);
    }
  }

  // The same, but the allocations of one line are one cause.
  void claim_lines(const std::map<Group, Rows>& groups) {
    std::map<std::pair<std::string, std::string>, Group> first;  // by id and place
    std::map<Group, Rows> merged;
    for (const auto& [group, rows] : groups) {
      const auto& [id, layer, function, category] = group;
      const std::string& line = is_meant_to_stay(category) ? category : largest(rows).key().place;
      Rows& all = merged[first.try_emplace({id, line}, group).first->second];
      all.insert(all.end(), rows.begin(), rows.end());
    }
    claim_groups(merged);
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
  // Gradients and optimizer state form one group each, across layers.
  static Group group_of(std::string id, const report::DigestKey& key) {
    if (key.category == "gradient" || key.category == "optimizer_state") {
      return {std::move(id), "", key.category, key.category};
    }
    return {std::move(id), key.layer, key.function, key.category};
  }

  // Lines that allocate the same sizes as before, but more or less of it is live.
  void kept() {
    std::map<Group, Rows> groups;
    for (const std::size_t row :
         open_rows([](const PairAtPoint& row) { return row.pairing != Pairing::kUnpaired; })) {
      const PairAtPoint& pair = rows_[row];
      const bool is_activation = pair.key().category == "activation";
      if (is_larger(pair.after, pair.before_key) || is_larger(pair.before, pair.after_key))
        continue;
      std::string id;
      if (pair.before_bytes() == 0 && retention_.is_kept(pair)) {
        id = "more_kept";
      } else if (pair.before_bytes() == 0) {
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

  // Memory of a layer that another function allocates now, as much as before, is no cause. The rows
  // sum to 0.
  void reallocated() {
    struct Change {
      Rows rows;
      std::int64_t bytes = 0;
      std::set<std::string> before;  // functions
      std::set<std::string> after;
    };
    std::map<std::pair<std::string, std::string>, Change> changes;
    for (const std::size_t row :
         open_rows([](const PairAtPoint& row) { return row.pairing == Pairing::kUnpaired; })) {
      const PairAtPoint& pair = rows_[row];
      if (pair.layer.empty()) continue;
      Change& change = changes[{pair.layer, pair.key().category}];
      change.rows.push_back(row);
      change.bytes += pair.difference();
      (pair.after_key == nullptr ? change.before : change.after).insert(pair.key().function);
    }
    for (const auto& [group, change] : changes) {
      if (change.bytes == 0 && change.before != change.after) claim(kNoCause, "", "", change.rows);
    }
  }

  // Memory of a function of a layer that is live on one side only, and other memory of the same
  // category on the other side, if a key of them is new or gone.
  void replaced_lines() {
    std::map<std::tuple<std::string, std::string, std::string>, std::pair<Rows, Rows>> functions;
    for (const std::size_t row : open_rows(is_in_one)) {
      const report::DigestKey& key = rows_[row].key();
      auto& [gone, added] = functions[{rows_[row].layer, key.function, key.category}];
      (rows_[row].after_bytes() == 0 ? gone : added).push_back(row);
    }
    for (const auto& [function, rows] : functions) {
      const auto& [gone, added] = rows;
      Rows both = added;
      both.insert(both.end(), gone.begin(), gone.end());
      const bool is_edited = std::ranges::any_of(
          both, [&](std::size_t row) { return rows_[row].pairing == Pairing::kUnpaired; });
      if (gone.empty() || added.empty() || !is_edited) continue;
      const auto& [layer, name, category] = function;
      std::string title = replaced_text(rows_of(gone), rows_of(added));
      if (is_swap(gone, added)) {
        const Rows kept = kept_for(rows_[both.front()]);
        if (!kept.empty()) title += ", and what backward keeps for it";
        both.insert(both.end(), kept.begin(), kept.end());
      }
      claim("replaced", std::move(title), layer.empty() ? name : layer, both);
    }
  }

  // Whether one operator takes the place of one other, as after F.relu → F.gelu.
  bool is_swap(const Rows& gone, const Rows& added) const {
    std::set<std::string_view> operators;
    for (const Rows* const rows : {&gone, &added}) {
      for (const std::size_t row : *rows) operators.insert(rows_[row].key().op);
    }
    return operators.size() == 2 && rows_[gone.front()].key().op != rows_[added.front()].key().op;
  }

  // Results of other operators in the function of a swapped one, of which backward keeps another
  // number: those that the new operator saves, or that only the old one saved.
  Rows kept_for(const PairAtPoint& swapped) const {
    return open_rows([&](const PairAtPoint& row) {
      return is_on_both(row) && row.key().category == swapped.key().category &&
             row.key().function == swapped.key().function && is_under(row.layer, swapped.layer) &&
             row.before_count() != row.after_count();
    });
  }

  // Keys that only one side has. Removed and added keys in one function of a layer count as a
  // replacement.
  void unpaired() {
    std::map<std::pair<std::string, std::string>, std::pair<Rows, Rows>> functions;
    for (const std::size_t row :
         open_rows([](const PairAtPoint& row) { return row.pairing == Pairing::kUnpaired; })) {
      auto& [gone, added] = functions[{rows_[row].layer, rows_[row].key().function}];
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
    claim_lines(groups);
  }

  // An unchanged line that allocates another size has another input. So the rows that changed in
  // the same direction as the largest changed module count as computed from it.
  void consequences() {
    static const std::set<std::string_view> kOfModules = {"module_added", "module_removed",
                                                          "size_changed", "dtype_changed"};
    std::optional<std::size_t> largest_cause;
    std::size_t growing = 0;
    for (std::size_t cause = 0; cause < causes_.size(); ++cause) {
      if (!kOfModules.contains(causes_[cause].id) && !replaced_causes_.contains(cause)) continue;
      if (causes_[cause].difference_bytes > 0) ++growing;
      if (!largest_cause || std::abs(causes_[cause].difference_bytes) >
                                std::abs(causes_[*largest_cause].difference_bytes)) {
        largest_cause = cause;
      }
    }
    if (!largest_cause) return;
    DiffCause& cause = causes_[*largest_cause];
    const Rows rows = open_rows([&](const PairAtPoint& row) {
      return (row.difference() > 0) == (cause.difference_bytes > 0);
    });
    if (rows.empty()) return;
    for (const std::size_t row : rows) {
      of_row_[row] = static_cast<std::int64_t>(*largest_cause);
      cause.difference_bytes += rows_[row].difference();
    }
    cause.rows += rows.size();
    if (growing == 1) cause.own_bytes = cause.difference_bytes;
    cause.title += ", and what is computed from it";
  }

  // The remaining rows: lines whose allocations changed in size.
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
    std::int64_t difference = 0;
    for (const PairAtPoint& row : rows_) difference += row.difference();
    std::vector<std::int64_t> largest_row(causes_.size());
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (of_row_[row] < 0) {
        out.everything_else_bytes += rows_[row].difference();
        continue;
      }
      std::int64_t& most = largest_row[static_cast<std::size_t>(of_row_[row])];
      most = std::max(most, std::abs(rows_[row].difference()));
    }
    std::vector<std::size_t> order;
    for (std::size_t cause = 0; cause < causes_.size(); ++cause) {
      // At an unchanged point, a replacement that sums to 0 is what changed.
      const bool is_operator = causes_[cause].id == "replaced" && !replaced_causes_.contains(cause);
      const std::int64_t size = is_operator && difference == 0
                                    ? largest_row[cause]
                                    : std::abs(causes_[cause].difference_bytes);
      if (size >= least_bytes && causes_[cause].id != kNoCause) {
        order.push_back(cause);
      } else {
        out.everything_else_bytes += causes_[cause].difference_bytes;
      }
    }
    std::ranges::sort(order, [&](std::size_t one, std::size_t other) {
      return std::pair(-std::abs(causes_[one].difference_bytes), one) <
             std::pair(-std::abs(causes_[other].difference_bytes), other);
    });
    // Put the largest cause with the sign of the total difference first.
    const auto first = std::ranges::find_if(order, [&](std::size_t cause) {
      const std::int64_t bytes = causes_[cause].difference_bytes;
      return difference > 0 ? bytes > 0 : bytes < 0;
    });
    if (difference != 0 && first != order.end()) std::rotate(order.begin(), first, first + 1);
    std::ranges::stable_partition(
        order, [&](std::size_t cause) { return causes_[cause].id != kPeakMoved; });
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

  const Digest* before_;
  const Digest* after_;
  const std::vector<PairAtPoint>& rows_;
  std::vector<std::int64_t> of_row_;  // index of the cause that has claimed the row; -1: none
  double scale_ = 1;                  // of most activations
  bool moves_results_;                // results of another moment belong to no module that changed
  Retention retention_;
  const ModulePairs& modules_;
  std::set<std::string_view> old_lines_;  // the texts of the lines of the first digest
  std::vector<DiffCause> causes_;
  std::set<std::size_t> replaced_causes_;  // those of modules
  Modules before_modules_;                 // by name
  Modules after_modules_;
};

}  // namespace

Explained explain(const std::vector<PairAtPoint>& rows, const Digest& before, const Digest& after,
                  const Alignment& alignment, ExplainOptions options) {
  std::int64_t difference = 0;
  for (const PairAtPoint& row : rows) difference += row.difference();
  // Whether causes with the sign of the difference explain most of it.
  const auto are_most = [&](const Explained& explained) {
    std::int64_t others = 0;
    for (const DiffCause& cause : explained.causes) {
      const bool has_sign = (cause.difference_bytes > 0) == (difference > 0);
      if (cause.id != kPeakMoved && has_sign) others += std::abs(cause.difference_bytes);
    }
    return static_cast<double>(others) >= kMostOfMoved * static_cast<double>(std::abs(difference));
  };
  for (const bool moves_results : {true, false}) {
    if (options.moved.empty()) break;
    Explained explained = Explainer(rows, before, after, alignment, moves_results).run(options);
    if (are_most(explained) || std::abs(difference) < options.least_bytes) return explained;
  }
  options.moved.clear();
  return Explainer(rows, before, after, alignment, false).run(options);
}

}  // namespace plimsoll::comparison
