#include "analysis/holders/tree.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "analysis/holders/chains.h"
#include "analysis/holders/edits.h"
#include "analysis/holders/holders.h"
#include "model/last_use.h"
#include "report/rest_row.h"

namespace plimsoll::analysis::holders {
namespace {

using model::HolderLink;
using report::HolderRow;

constexpr std::size_t kMostChildren = 12;
constexpr std::size_t kMostRows = 200;
constexpr std::uint64_t kDeepest = 12;  // rows below are part of the row at this depth
constexpr double kLeastShare = 0.001;   // of the live bytes

// Memory that one link leads to.
struct Held {
  std::uint64_t bytes = 0, count = 0;
  std::uint64_t of_model = 0;  // bytes of parameters, gradients and the like: nobody needs an edit
  std::uint64_t used_again = 0;
};

struct Node {
  std::uint32_t link = 0;  // the last one of this name
  std::uint32_t parent = 0;
  std::uint32_t example = 0;           // of a graph: the last link of its chain to the most bytes
  std::uint64_t bytes = 0, count = 0;  // with those of its children
  std::uint64_t own_bytes = 0;         // without them
  std::uint64_t of_model = 0, used_again = 0;
  std::uint64_t most_bytes = 0;  // of the example
  bool is_of_tensor = false;
  std::vector<std::uint32_t> children = {};
};

class Tree {
 public:
  explicit Tree(const model::Trace& trace) : trace_(trace), links_(trace.holders.links) {}

  // Adds memory, by the last link of its chain.
  void add(const std::map<std::uint32_t, Held>& memory) {
    // Parents come before their links: from the last to the first, each passes on what it has.
    std::vector<bool> is_wanted(links_.size());
    for (auto at = links_.size(); at-- > 1;) {
      const bool is_end = memory.contains(static_cast<std::uint32_t>(at));
      is_wanted[at] = is_wanted[at] || is_end;
      if (is_wanted[at]) is_wanted[links_[at].parent] = true;
    }
    std::vector<std::uint32_t> node_of(links_.size());
    for (std::uint32_t link = 1; link < links_.size(); ++link) {
      if (!is_wanted[link]) continue;
      node_of[link] = node_for(link, node_of[links_[link].parent]);
      const auto found = memory.find(link);
      if (found == memory.end()) continue;
      Node& node = nodes_[node_of[link]];
      const auto [bytes, count, of_model, used_again] = found->second;
      node.of_model += of_model;
      node.used_again += used_again;
      node.own_bytes += bytes;
      node.bytes += bytes;
      node.count += count;
      if (bytes < node.most_bytes) continue;
      node.most_bytes = bytes;
      node.example = link;
    }
    for (auto at = nodes_.size(); at-- > 1;) {
      Node& parent = nodes_[nodes_[at].parent];
      parent.bytes += nodes_[at].bytes;
      parent.count += nodes_[at].count;
      parent.of_model += nodes_[at].of_model;
      parent.used_again += nodes_[at].used_again;
      if (nodes_[at].most_bytes <= parent.most_bytes) continue;
      parent.most_bytes = nodes_[at].most_bytes;
      parent.example = nodes_[at].example;
    }
  }

  std::vector<HolderRow> rows(std::uint64_t least_bytes) {
    least_bytes_ = least_bytes;
    const HolderIndex index(trace_);
    write_children(0, 0, 0, index);
    return std::move(rows_);
  }

 private:
  using Key = std::tuple<std::uint32_t, plimsoll_link_kind, std::uint32_t, std::uint32_t>;

  // The items of a container are what they are in.
  static bool is_transparent(const HolderLink& link) {
    return link.kind == PLIMSOLL_LINK_ITEM && link.name == model::StringId{};
  }

  std::uint32_t node_for(std::uint32_t link, std::uint32_t parent) {
    const HolderLink& row = links_[link];
    if (nodes_[parent].is_of_tensor) return parent;
    if (parent != 0 && is_transparent(row)) return parent;
    // Frames differ by their function, classes by their name.
    const bool is_named = row.name != model::StringId{};
    const Key key{parent, row.kind, row.name.value, is_named ? 0 : row.type.value};
    const auto [found, is_new] =
        nodes_by_key_.try_emplace(key, static_cast<std::uint32_t>(nodes_.size()));
    if (is_new) {
      nodes_.push_back({.parent = parent, .is_of_tensor = is_of_tensor(row.kind)});
      nodes_[parent].children.push_back(found->second);
    }
    nodes_[found->second].link = link;
    return found->second;
  }

  // `above`: the link of the row above; 0: none.
  void write_children(std::uint32_t node, std::uint32_t above, std::uint64_t depth,
                      const HolderIndex& index) {
    std::vector<std::uint32_t> order = nodes_[node].children;
    std::ranges::stable_sort(order, std::ranges::greater{},
                             [&](std::uint32_t child) { return nodes_[child].bytes; });
    HolderRow rest;
    std::uint64_t left = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Node& child = nodes_[order[i]];
      const bool is_shown = i < kMostChildren && rows_.size() < kMostRows &&
                            child.bytes >= std::max<std::uint64_t>(least_bytes_, 1);
      if (is_shown) {
        write(order[i], above, depth, index);
        continue;
      }
      ++left;
      rest.bytes += child.bytes;
      rest.count += child.count;
    }
    if (left == 0) return;
    rest.depth = depth;
    rest.name = report::rest_key(left);
    rows_.push_back(std::move(rest));
  }

  void write(std::uint32_t at, std::uint32_t above, std::uint64_t depth, const HolderIndex& index) {
    // A chain of nodes that hold the same is one row, up to the first with a result of a cut.
    while (depth > 0 && nodes_[at].children.size() == 1 && nodes_[at].own_bytes == 0 &&
           index.cut(nodes_[at].link) == nullptr &&
           !nodes_[nodes_[at].children.front()].is_of_tensor) {
      at = nodes_[at].children.front();
    }
    const Node& node = nodes_[at];
    const HolderLink& link = links_[node.link];
    HolderRow row;
    row.depth = depth;
    row.bytes = node.bytes;
    row.count = node.count;
    if (node.is_of_tensor) {
      row.name = graph_text(trace_, node.example);
    } else {
      row.path = path_text(trace_, node.link);
      row.name = depth == 0 ? root_name(link, row.path) : name_below(node.link, above, row.path);
      row.place = place_below(node.link, above);
    }
    // The class of a root, such as module, says nothing.
    if (depth > 0 && !node.is_of_tensor) {
      row.type = trace_.strings[link.type];
      row.length = link.length;
      row.limit = link.limit;
    }
    if (const model::HolderCut* const cut = index.cut(node.link); cut != nullptr) {
      row.is_cut = true;
      row.freed_bytes = cut->freed_bytes;
      row.left_bytes = cut->left_bytes;
      if (cut->other != 0) row.other = path_text(trace_, cut->other);
      row.is_native = cut->is_native;
      if (index.holder(node.example) == node.link) {
        row.edit = edit_text(trace_, {.link = node.link,
                                      .example = node.example,
                                      .count = node.count,
                                      .bytes = node.bytes,
                                      .of_model = node.of_model,
                                      .used_again = node.used_again,
                                      .has_grown = index.has_grown(node.link),
                                      .cut = cut});
      }
    }
    rows_.push_back(std::move(row));
    if (!node.is_of_tensor && depth < kDeepest) {
      write_children(at, node.link, depth + 1, index);
    }
  }

  // Of the last function on the way from the row above. The name of a frame has its place.
  std::string place_below(std::uint32_t link, std::uint32_t above) const {
    for (; link != 0 && link != above; link = links_[link].parent) {
      if (links_[link].kind == PLIMSOLL_LINK_FRAME) break;
      if (std::string place = place_text(trace_, link); !place.empty()) return place;
    }
    return {};
  }

  std::string root_name(const HolderLink& link, const std::string& path) const {
    switch (link.kind) {
      case PLIMSOLL_LINK_MODULE:
        return "module " + std::string(trace_.strings[link.name]);
      case PLIMSOLL_LINK_FRAME:
        return path.starts_with(" in ") ? "function " + path.substr(4) : path;
      default:
        return path;
    }
  }

  // "history" of "trainer.history", if the row above is trainer.
  std::string name_below(std::uint32_t link, std::uint32_t above, std::string_view path) const {
    std::uint32_t root = link;
    while (links_[root].parent != 0) root = links_[root].parent;
    std::string name(path);
    std::string before = path_text(trace_, above);
    if (links_[root].kind == PLIMSOLL_LINK_FRAME) {
      const std::string around = path_text(trace_, root);
      for (std::string* const text : {&name, &before}) {
        if (text->ends_with(around)) text->resize(text->size() - around.size());
      }
    }
    if (!name.starts_with(before)) return name;
    name.erase(0, before.size());
    for (const std::string_view mark : {".", ", "}) {
      if (name.starts_with(mark)) name.erase(0, mark.size());
    }
    return name.empty() ? std::string(path) : name;
  }

  const model::Trace& trace_;
  const std::vector<HolderLink>& links_;
  std::uint64_t least_bytes_ = 0;
  std::vector<Node> nodes_{Node{}};  // row 0: above the roots
  std::map<Key, std::uint32_t> nodes_by_key_;
  std::vector<HolderRow> rows_;
};

}  // namespace

std::vector<HolderRow> holder_tree(const model::Trace& trace, const model::DeviceTrace& device,
                                   std::span<const model::LiveAllocation> live,
                                   std::int64_t event) {
  if (!device.lifetimes.holder.present()) return {};
  const model::LastUses uses(trace, device);
  std::map<std::uint32_t, Held> memory;
  std::uint64_t live_bytes = 0;
  for (const model::LiveAllocation& each : live) {
    live_bytes += each.size_bytes;
    const std::uint32_t link = device.lifetimes.holder[each.lifetime];
    if (link == 0) continue;
    Held& held = memory[link];
    held.bytes += each.size_bytes;
    ++held.count;
    if (model::is_kept_category(trace.strings[each.category])) held.of_model += each.size_bytes;
    const bool is_used =
        trace.has_uses && uses.used_again(each.lifetime, event) == model::UsedAgain::kYes;
    if (is_used) held.used_again += each.size_bytes;
  }
  if (memory.empty()) return {};
  Tree tree(trace);
  tree.add(memory);
  std::vector<HolderRow> rows =
      tree.rows(static_cast<std::uint64_t>(kLeastShare * static_cast<double>(live_bytes)));
  for (HolderRow& row : rows) row.device = device.device.ordinal;
  return rows;
}

}  // namespace plimsoll::analysis::holders
