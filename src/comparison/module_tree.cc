#include "comparison/module_tree.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace plimsoll::comparison {
namespace {

using report::Digest;

constexpr std::size_t kLongestSequence = 1000;  // of modules whose order is compared
constexpr std::size_t kLongestKind = 200;       // of a text; a hash replaces longer ones
constexpr char kOnlyBefore = '\'';  // ends the name of a module whose path is another's now

bool is_index(std::string_view name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string_view around(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return path.substr(0, dot == std::string_view::npos ? 0 : dot);
}

// Whether the indices inside a module are folded, or names, or both.
struct Indices {
  bool are_folded = false;
  bool are_names = false;
  bool operator==(const Indices&) const = default;
};

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

std::map<std::string, Indices> indices_in(const Digest& digest) {
  std::map<std::string, Indices> indices;
  for (const report::DigestModule& module : digest.modules) {
    with_names(module.path, [&](const std::string& container, std::string_view name) {
      if (name == "*") indices[container].are_folded = true;
      if (is_index(name)) indices[container].are_names = true;
      return name;
    });
  }
  return indices;
}

using Fold = std::function<std::string(std::string_view)>;

struct Node {
  std::string path;
  std::string name;
  std::string type;
  std::string own_bytes;  // of its parameters; if its class is unknown, of all its memory
  std::string kind;       // its class and those inside; if unknown, what it allocates
  std::string sized_kind;
  std::vector<Node*> children;
  Node* partner = nullptr;
};

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
    for (Node* const child : node.children) {
      describe(*child);
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

bool is_sequence(const std::vector<Node*>& nodes) {
  return nodes.size() <= kLongestSequence &&
         std::ranges::all_of(nodes, [](const Node* node) { return is_index(node->name); });
}

std::vector<Node*> open(const std::vector<Node*>& nodes) {
  std::vector<Node*> out;
  std::ranges::copy_if(nodes, std::back_inserter(out),
                       [](const Node* node) { return node->partner == nullptr; });
  return out;
}

class Pairer {
 public:
  void pair_children(Node& before, Node& after) {
    const bool are_sequences = is_sequence(before.children) && is_sequence(after.children);
    if (are_sequences) {
      pair_in_order(before.children, after.children);
    } else {
      pair_named(before.children, after.children);
    }
    pair_inside(before);
  }

 private:
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

  static void join(Node& before, Node& after) {
    before.partner = &after;
    after.partner = &before;
  }

  // The longest common subsequence, in which equal sizes count more than equal classes. Of several
  // such pairings, the one with the earliest modules.
  static void pair_in_order(const std::vector<Node*>& before, const std::vector<Node*>& after) {
    const auto score = [](const Node& one, const Node& other) {
      return one.sized_kind == other.sized_kind ? 4 : one.kind == other.kind ? 3 : 0;
    };
    std::vector<std::vector<int>> best(before.size() + 1, std::vector<int>(after.size() + 1));
    for (std::size_t i = before.size(); i-- > 0;) {
      for (std::size_t j = after.size(); j-- > 0;) {
        best[i][j] = std::max(best[i + 1][j], best[i][j + 1]);
        if (const int both = score(*before[i], *after[j]); both > 0) {
          best[i][j] = std::max(best[i][j], both + best[i + 1][j + 1]);
        }
      }
    }
    for (std::size_t i = 0, j = 0; i < before.size() && j < after.size();) {
      const int both = score(*before[i], *after[j]);
      if (both > 0 && best[i][j] == both + best[i + 1][j + 1]) {
        join(*before[i++], *after[j++]);
      } else if (best[i][j] == best[i][j + 1]) {
        ++j;
      } else {
        ++i;
      }
    }
  }

  static void pair_named(const std::vector<Node*>& before, const std::vector<Node*>& after) {
    pair_if(before, after, [](const Node& one, const Node& other) {
      return one.name == other.name && (one.kind == other.kind || one.type == other.type);
    });
    pair_if(before, after,
            [](const Node& one, const Node& other) { return one.sized_kind == other.sized_kind; });
    pair_wrapped(before, after);
    pair_wrapped(after, before);
    pair_alike(before, after);
    pair_if(before, after,
            [](const Node& one, const Node& other) { return one.name == other.name; });
  }

  template <typename IsPair>
  static void pair_if(const std::vector<Node*>& before, const std::vector<Node*>& after,
                      const IsPair& is_pair) {
    for (Node* const one : open(before)) {
      const auto other = std::ranges::find_if(after, [&](const Node* each) {
        return each->partner == nullptr && is_pair(*one, *each);
      });
      if (other != after.end()) join(*one, **other);
    }
  }

  // Modules of one class that were renamed and resized, if as many are gone as are new.
  static void pair_alike(const std::vector<Node*>& before, const std::vector<Node*>& after) {
    std::map<std::string_view, std::pair<std::vector<Node*>, std::vector<Node*>>> kinds;
    for (Node* const node : open(before)) kinds[node->kind].first.push_back(node);
    for (Node* const node : open(after)) kinds[node->kind].second.push_back(node);
    for (const auto& [kind, sides] : kinds) {
      const auto& [gone, added] = sides;
      if (gone.size() != added.size()) continue;
      for (std::size_t i = 0; i < gone.size(); ++i) join(*gone[i], *added[i]);
    }
  }

  // Modules of one side that are inside a module of the other side.
  static void pair_wrapped(const std::vector<Node*>& inner, const std::vector<Node*>& outer) {
    for (Node* const node : open(inner)) {
      if (node->children.empty()) continue;
      for (Node* const each : open(outer)) {
        if (Node* const found = find_inside(*each, node->sized_kind)) {
          node->partner = found;
          found->partner = node;
          break;
        }
      }
    }
  }

  static Node* find_inside(const Node& node, const std::string& sized_kind) {
    for (Node* const child : node.children) {
      if (child->partner == nullptr && child->sized_kind == sized_kind) return child;
      if (Node* const found = find_inside(*child, sized_kind)) return found;
    }
    return nullptr;
  }
};

}  // namespace

ModulePairs::ModulePairs(const Digest& before, const Digest& after) {
  const auto old_indices = indices_in(before);
  for (const auto& [container, indices] : indices_in(after)) {
    const auto found = old_indices.find(container);
    if (found != old_indices.end() && found->second != indices) folded_.insert(container);
  }
  const Fold fold = [&](std::string_view path) { return name_after(path); };
  Tree old_tree(before, fold);
  Tree new_tree(after, fold);
  Pairer().pair_children(old_tree.root(), new_tree.root());
  for (const auto& [path, node] : new_tree.nodes()) {
    (node->partner == nullptr ? added_ : paired_).insert(path);
  }
  for (const auto& [path, node] : old_tree.nodes()) {  // after the modules around them
    if (node->partner != nullptr) {
      names_.emplace(path, node->partner->path);
      if (!node->children.empty() && !node->type.empty() && !node->partner->type.empty()) {
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

std::string ModulePairs::name_after(std::string_view layer) const {
  return with_names(layer, [&](const std::string& container, std::string_view name) {
    return is_index(name) && folded_.contains(container) ? std::string_view("*") : name;
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
