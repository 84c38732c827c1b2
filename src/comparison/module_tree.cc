#include "comparison/module_tree.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace plimsoll::comparison {
namespace {

using report::Digest;

constexpr std::size_t kMostPairs = 1'000'000;  // of modules; more are paired by name only
constexpr std::size_t kLongestKind = 200;      // of a text; a hash replaces longer ones
constexpr char kOnlyBefore = '\'';  // ends the name of a module whose path is another's now

bool is_index(std::string_view name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string_view around(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return path.substr(0, dot == std::string_view::npos ? 0 : dot);
}

// Calls visit(path of the container, its indices as *; name) and takes the name that it returns.
template <typename Visit>
std::string with_names(std::string_view path, const Visit& visit) {
  std::string out;
  std::string container;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('.', at), path.size());
    const std::string_view name = path.substr(at, end - at);
    const char* const dot = at == 0 ? "" : ".";
    out.append(dot).append(visit(container, name));
    container.append(dot).append(is_index(name) ? "*" : name);
    at = end + 1;
  }
  return out;
}

// By module: whether some of its indices are folded.
std::map<std::string, bool> indices_in(const Digest& digest) {
  std::map<std::string, bool> indices;
  for (const report::DigestModule& module : digest.modules) {
    with_names(module.path, [&](const std::string& container, std::string_view name) {
      if (name == "*" || is_index(name)) indices[container] |= name == "*";
      return name;
    });
  }
  return indices;
}

using Fold = std::function<std::string(std::string_view)>;

// What a pair of nodes has in common, as a number. An insertion changes indices, so an equal index
// decides only between pairings that are equally good.
constexpr int kSameClass = 500;
constexpr int kSameName = 400;
constexpr int kSameSize = 300;
constexpr int kOtherClass = 100;  // of modules that have nothing inside, and one name
constexpr int kSameIndex = 1;

struct Node {
  std::string path;
  std::string name;
  std::string type;
  std::string own_bytes;  // of its parameters; if its class is unknown, of all its memory
  std::string kind;       // its class and those inside; if unknown, what it allocates
  std::string sized_kind;
  int weight = 0;  // of a pair with an equal node of another name
  std::vector<Node*> children;
  Node* partner = nullptr;
};

int name_score(const Node& node) {
  return is_index(node.name) || node.name == "*" ? kSameIndex : kSameName;
}

// The modules of a digest, and the layers that its keys name. Owns the nodes.
class Tree {
 public:
  Tree(const Digest& digest, const Fold& fold) {
    for (const report::DigestModule& module : digest.modules) {
      Node& node = at(fold(module.path));
      node.type = module.type;
      const std::uint64_t each =
          module.parameter_bytes / std::max<std::uint64_t>(module.instances, 1);
      if (!node.type.empty()) node.own_bytes = std::to_string(each);
    }
    std::vector<std::int64_t> bytes(digest.keys.size());
    for (const report::DigestRow& row : digest.rows) {
      bytes[row.key] = std::max(bytes[row.key], row.bytes);
    }
    std::map<Node*, std::map<std::string, std::int64_t>> allocated;
    for (std::size_t key = 0; key < digest.keys.size(); ++key) {
      const report::DigestKey& each = digest.keys[key];
      if (each.layer.empty()) continue;
      Node& node = at(fold(each.layer));
      if (node.type.empty()) allocated[&node][each.category + ' ' + each.op] += bytes[key];
    }
    for (auto& [node, kinds] : allocated) {
      for (const auto& [kind, sum] : kinds) {
        node->kind += kind + ',';
        node->own_bytes += std::to_string(sum) + ',';
      }
    }
    for (Node* const child : root_.children) describe(*child);
  }

  Node& root() { return root_; }
  Node* find(std::string_view path) const {
    const auto found = nodes_.find(path);
    return found == nodes_.end() ? nullptr : found->second.get();
  }
  const auto& nodes() const { return nodes_; }

 private:
  Node& at(const std::string& path) {
    if (path.empty()) return root_;
    if (Node* const known = find(path)) return *known;
    Node& parent = at(std::string(around(path)));
    Node& node = *nodes_.emplace(path, std::make_unique<Node>()).first->second;
    node.path = path;
    node.name = path.substr(parent.path.empty() ? 0 : parent.path.size() + 1);
    parent.children.push_back(&node);
    return node;
  }

  // The class of a module with others inside may be renamed, so what is inside identifies it.
  static void describe(Node& node) {
    if (node.children.empty() && !node.type.empty()) node.kind = node.type;
    node.sized_kind = node.kind + ' ' + node.own_bytes;
    node.weight = kSameClass + kSameSize;
    for (Node* const child : node.children) {
      describe(*child);
      node.weight += child->weight + name_score(*child);
      node.kind += '(' + child->kind + ')';
      node.sized_kind += '(' + child->sized_kind + ')';
    }
    for (std::string* const text : {&node.kind, &node.sized_kind}) {
      if (text->size() > kLongestKind) *text = std::to_string(std::hash<std::string>()(*text));
    }
  }

  Node root_;
  std::map<std::string, std::unique_ptr<Node>, std::less<>> nodes_;
};

using Nodes = std::vector<Node*>;

bool is_sequence(const Nodes& nodes) {
  return std::ranges::all_of(
      nodes, [](const Node* node) { return is_index(node->name) || node->name == "*"; });
}

Nodes open(const Nodes& nodes) {
  Nodes out;
  std::ranges::copy_if(nodes, std::back_inserter(out),
                       [](const Node* node) { return node->partner == nullptr; });
  return out;
}

// Pairs the nodes of two trees so that most is kept. A container that only one side has is passed:
// what is inside of it is paired with what is outside on the other side.
class Pairer {
 public:
  void pair_trees(Node& before, Node& after) {
    pair_children(before, after);
    Nodes old_nodes;
    Nodes new_nodes;
    add_open(before, old_nodes);
    add_open(after, new_nodes);
    pair_moved(old_nodes, new_nodes);
    for (Node* const node : old_nodes) {
      if (node->partner != nullptr) pair_children(*node, *node->partner);
    }
  }

  // Whether a pair has two classes, and little else in common.
  bool is_replaced(const Node& before, const Node& after) {
    if (before.type.empty() || after.type.empty() || before.type == after.type) return false;
    if (before.children.empty() != after.children.empty()) return false;
    return before.children.empty() ||
           2 * score(before, after) < std::max(before.weight, after.weight);
  }

 private:
  using Pairs = std::vector<std::pair<Node*, Node*>>;

  void pair_children(Node& before, Node& after) {
    pair_lists(before.children, after.children);
    pair_inside(before);
  }

  static void join(Node& before, Node& after) {
    before.partner = &after;
    after.partner = &before;
  }

  void pair_lists(const Nodes& before, const Nodes& after) {
    for (const auto& [one, other] : best_pairs(before, after)) join(*one, *other);
    Nodes old_nodes;
    Nodes new_nodes;
    for (Node* const node : open(before)) add_inside(*node, old_nodes);
    for (Node* const node : open(after)) add_inside(*node, new_nodes);
    pair_moved(old_nodes, new_nodes);
    for (Node* const one : open(before)) {  // what has another class and other contents now
      const auto other = std::ranges::find_if(after, [&](const Node* each) {
        return each->partner == nullptr && each->name == one->name;
      });
      if (other != after.end() && !has_partner_inside(*one) && !has_partner_inside(**other)) {
        join(*one, **other);
      }
    }
  }

  // Pairs what was moved into or out of containers, large modules first. What has nothing inside is
  // known only by its size.
  void pair_moved(const Nodes& old_nodes, const Nodes& new_nodes) {
    if (old_nodes.size() * new_nodes.size() > kMostPairs) return;
    const auto is_likely = [](const Node& one, const Node& other) {
      return !one.children.empty() || one.sized_kind == other.sized_kind;
    };
    std::set<const Node*> taken;
    for (const auto& [one, other] : by_score(old_nodes, new_nodes, is_likely)) {
      if (taken.contains(one) || taken.contains(other) || has_partner_inside(*one) ||
          has_partner_inside(*other)) {
        continue;
      }
      join(*one, *other);
      take_inside(*one, taken);
      take_inside(*other, taken);
    }
  }

  static void add_inside(Node& node, Nodes& out) {
    out.push_back(&node);
    for (Node* const child : node.children) add_inside(*child, out);
  }

  // All nodes without a partner in a tree.
  static void add_open(const Node& node, Nodes& out) {
    for (Node* const child : node.children) {
      if (child->partner == nullptr) out.push_back(child);
      add_open(*child, out);
    }
  }

  static void take_inside(const Node& node, std::set<const Node*>& taken) {
    for (const Node* const child : node.children) {
      taken.insert(child);
      take_inside(*child, taken);
    }
  }

  static bool has_partner_inside(const Node& node) {
    return std::ranges::any_of(node.children, [](const Node* child) {
      return child->partner != nullptr || has_partner_inside(*child);
    });
  }

  // A module without a partner may be the wrapper of one that has.
  void pair_inside(Node& before) {
    for (Node* const child : before.children) {
      if (child->partner != nullptr) {
        pair_children(*child, *child->partner);
      } else {
        pair_inside(*child);
      }
    }
  }

  // 0: the nodes are no pair.
  int score(const Node& one, const Node& other) {
    const auto known = scores_.find({&one, &other});
    if (known != scores_.end()) return known->second;
    if (++compared_ > kMostPairs) return one.name == other.name ? kSameName : 0;
    const int value = computed_score(one, other);
    const bool is_leaf = one.children.empty() && other.children.empty();
    if (!is_leaf) scores_.emplace(std::pair(&one, &other), value);
    return value;
  }

  int computed_score(const Node& one, const Node& other) {
    const int name = one.name == other.name ? name_score(one) : 0;
    if (one.sized_kind == other.sized_kind) return one.weight + name;
    const bool has_class = !one.type.empty() && !other.type.empty();
    const bool is_leaf = one.children.empty() && other.children.empty();
    int value = 0;
    if (has_class || is_leaf) {
      if (has_class ? one.type == other.type : one.kind == other.kind) value = kSameClass;
    }
    if (is_leaf) {
      if (value == 0) return name > 0 && has_class ? kOtherClass + name : 0;
      return value + name + (one.own_bytes == other.own_bytes ? kSameSize : 0);
    }
    int inside = 0;
    for (const auto& [child, partner] : best_pairs(one.children, other.children)) {
      inside += score(*child, *partner);
    }
    const bool is_alike = 4 * inside > one.weight + other.weight;
    const bool is_same = value > 0 && name > 0;
    if (inside == 0 && !is_same) return 0;
    return is_alike || is_same || name > 0 ? std::max(1, value + name + inside) : 0;
  }

  Pairs best_pairs(const Nodes& before, const Nodes& after) {
    if (before.empty() || after.empty()) return {};
    const bool is_short = before.size() * after.size() <= kMostPairs;
    if (is_short && (is_sequence(before) || is_sequence(after))) return in_order(before, after);
    return by_score(before, after, [&](const Node& one, const Node& other) {
      return is_short || one.name == other.name;
    });
  }

  // The pairs of the highest sum that keep the order. Of several, those of the earliest modules.
  Pairs in_order(const Nodes& before, const Nodes& after) {
    std::vector<std::vector<int>> best(before.size() + 1, std::vector<int>(after.size() + 1));
    for (std::size_t i = before.size(); i-- > 0;) {
      for (std::size_t j = after.size(); j-- > 0;) {
        best[i][j] = std::max(best[i + 1][j], best[i][j + 1]);
        if (const int both = score(*before[i], *after[j]); both > 0) {
          best[i][j] = std::max(best[i][j], both + best[i + 1][j + 1]);
        }
      }
    }
    Pairs pairs;
    for (std::size_t i = 0, j = 0; i < before.size() && j < after.size();) {
      const int both = score(*before[i], *after[j]);
      if (both > 0 && best[i][j] == both + best[i + 1][j + 1]) {
        pairs.emplace_back(before[i++], after[j++]);
      } else if (best[i][j] == best[i][j + 1]) {
        ++j;
      } else {
        ++i;
      }
    }
    return pairs;
  }

  // The pairs with the highest score first; of equal ones, those of the earliest modules.
  template <typename IsLikely>
  Pairs by_score(const Nodes& before, const Nodes& after, const IsLikely& is_likely) {
    std::vector<std::tuple<int, std::size_t, std::size_t>> candidates;
    for (std::size_t i = 0; i < before.size(); ++i) {
      for (std::size_t j = 0; j < after.size(); ++j) {
        if (!is_likely(*before[i], *after[j])) continue;
        const int both = score(*before[i], *after[j]);
        if (both > 0) candidates.emplace_back(-both, i, j);
      }
    }
    std::ranges::sort(candidates);
    Pairs pairs;
    std::vector<bool> has_old(before.size());
    std::vector<bool> has_new(after.size());
    for (const auto& [score, i, j] : candidates) {
      if (has_old[i] || has_new[j]) continue;
      has_old[i] = has_new[j] = true;
      pairs.emplace_back(before[i], after[j]);
    }
    return pairs;
  }

  std::size_t compared_ = 0;
  std::map<std::pair<const Node*, const Node*>, int> scores_;  // unless both have nothing inside
};

}  // namespace

ModulePairs::ModulePairs(const Digest& before, const Digest& after) {
  const auto old_indices = indices_in(before);
  for (const auto& [container, are_folded] : indices_in(after)) {
    const auto found = old_indices.find(container);
    if (found != old_indices.end() && found->second != are_folded) folded_.insert(container);
  }
  fold_names(before, after);
  fold_names(after, before);
  const Fold fold = [&](std::string_view path) { return name_after(path); };
  Tree old_tree(before, fold);
  Tree new_tree(after, fold);
  Pairer pairer;
  pairer.pair_trees(old_tree.root(), new_tree.root());
  for (const auto& [path, node] : new_tree.nodes()) {
    (node->partner == nullptr ? added_ : paired_).insert(path);
  }
  for (const auto& [path, node] : old_tree.nodes()) {  // after the modules around them
    if (node->partner != nullptr) {
      names_.emplace(path, node->partner->path);
      if (pairer.is_replaced(*node, *node->partner)) {
        replaced_.emplace(node->partner->path, node->type);
      } else if (!node->children.empty() && !node->type.empty() && !node->partner->type.empty()) {
        classes_.emplace(node->type, node->partner->type);
      }
      continue;
    }
    std::string name = name_before(path);
    if (new_tree.find(name) != nullptr) name += kOnlyBefore;
    removed_.insert(name);
    names_.emplace(path, std::move(name));
  }
}

// Repetitions that only one digest counts, and the other one names, as in a ModuleDict.
void ModulePairs::fold_names(const Digest& counted, const Digest& named) {
  for (const report::DigestModule& module : counted.modules) {
    if (!module.path.ends_with(".*") || module.type.empty() || module.instances < 2) continue;
    const std::string container(around(module.path));
    std::uint64_t instances = 0;
    const bool are_repetitions = std::ranges::all_of(named.modules, [&](const auto& each) {
      if (around(each.path) != container) return true;
      ++instances;
      return each.type == module.type && !each.path.ends_with('*');
    });
    if (are_repetitions && instances == module.instances) folded_names_.insert(container);
  }
}

std::string ModulePairs::name_after(std::string_view layer) const {
  return with_names(layer, [&](const std::string& container, std::string_view name) {
    const bool is_folded = is_index(name) ? folded_.contains(container)
                                          : !container.empty() && folded_names_.contains(container);
    return is_folded ? std::string_view("*") : name;
  });
}

std::string ModulePairs::name_before(std::string_view layer) const {
  const std::string path = name_after(layer);
  for (std::string_view part = path; !part.empty(); part = around(part)) {
    const auto found = names_.find(part);
    if (found != names_.end()) return found->second + path.substr(part.size());
  }
  return path;
}

std::string ModulePairs::function_before(std::string_view function) const {
  return with_names(function, [&](const std::string&, std::string_view name) {
    const auto found = classes_.find(name);
    return found == classes_.end() ? name : std::string_view(found->second);
  });
}

bool ModulePairs::is_in(std::string_view name, const Set& modules) const {
  for (; !name.empty(); name = around(name)) {
    if (modules.contains(name)) return true;
    if (paired_.contains(name)) return false;
  }
  return false;
}

}  // namespace plimsoll::comparison
