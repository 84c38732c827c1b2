#include "analysis/holders/edits.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "analysis/holders/chains.h"
#include "base/units.h"

namespace plimsoll::analysis::holders {
namespace {

using model::HolderLink;

class Chain {
 public:
  Chain(const model::Trace& trace, std::uint32_t last)
      : trace_(trace), rows_(chain_to(trace, last)) {}

  // The first link of this kind; 0: none.
  std::uint32_t first(plimsoll_link_kind kind) const {
    const auto found = std::ranges::find(
        rows_, kind, [&](std::uint32_t row) { return trace_.holders.links[row].kind; });
    return found == rows_.end() ? 0 : *found;
  }
  bool has(plimsoll_link_kind kind) const { return first(kind) != 0; }
  // Rows of a chain rise.
  bool is_before(plimsoll_link_kind kind, plimsoll_link_kind other) const {
    return has(kind) && (!has(other) || first(kind) < first(other));
  }
  // The link after `row`; 0: none.
  std::uint32_t after(std::uint32_t row) const {
    const auto found = std::ranges::find(rows_, row);
    return found == rows_.end() || found + 1 == rows_.end() ? 0 : found[1];
  }
  // The first function or frame with a known place, from `row` on.
  std::string place_from(std::uint32_t row) const {
    for (auto at = std::ranges::find(rows_, row); at != rows_.end(); ++at) {
      if (std::string place = place_text(trace_, *at); !place.empty()) return place;
    }
    return {};
  }

 private:
  const model::Trace& trace_;
  std::vector<std::uint32_t> rows_;
};

// What ends the growth of a container, by its class. `{}`: its path.
struct ContainerEdit {
  std::string_view type;
  std::string_view text;
};
constexpr std::string_view kEditOfDict = "Remove entries from {} after their last use (pop).";
constexpr std::string_view kEditOfQueue =
    "Take entries out of {} as fast as they are put in, or give it a maxsize: put() then waits.";
constexpr std::string_view kEditOfCache =
    "Pass a small maxsize to the lru_cache of {}, or call its cache_clear().";
constexpr std::array kContainerEdits = {
    ContainerEdit{"list",
                  "Remove from {} what is no longer needed, or bound it: "
                  "collections.deque(maxlen=…) keeps the newest entries."},
    ContainerEdit{"deque", "Give {} a maxlen: it then keeps the newest entries."},
    ContainerEdit{"dict", kEditOfDict},
    ContainerEdit{"OrderedDict", kEditOfDict},
    ContainerEdit{"defaultdict", kEditOfDict},
    ContainerEdit{"set", "Remove elements from {} after their last use (discard)."},
    ContainerEdit{"Queue", kEditOfQueue},
    ContainerEdit{"LifoQueue", kEditOfQueue},
    ContainerEdit{"PriorityQueue", kEditOfQueue},
    ContainerEdit{"_lru_cache_wrapper", kEditOfCache},
};
constexpr std::string_view kEditOfOthers = "Remove from {} what is no longer needed.";

std::string container_edit(std::string_view type, const std::string& path) {
  const auto found = std::ranges::find_if(
      kContainerEdits, [&](const ContainerEdit& each) { return type.ends_with(each.type); });
  const bool is_exact =
      found != kContainerEdits.end() &&
      (type.size() == found->type.size() || type[type.size() - found->type.size() - 1] == '.');
  std::string text(is_exact ? found->text : kEditOfOthers);
  text.replace(text.find("{}"), 2, path);
  return text;
}

// A variable, attribute or entry that is no container.
std::string variable_edit(const model::Trace& trace, const HolderLink& link,
                          const std::string& path) {
  const std::string name(trace.strings[link.name]);
  switch (link.kind) {
    case PLIMSOLL_LINK_LOCAL:
      if (name.empty()) return "End the scope of " + path + " earlier, or clear it.";
      return "Delete " + path + " after its last use (del " + name + ").";
    case PLIMSOLL_LINK_ITEM:
      return "Remove " + path + " after its last use (del).";
    case PLIMSOLL_LINK_CLOSURE:
      return "Set " + name + " to None after its last use: " + path + " keeps it.";
    default:
      return "Set " + path + " to None after its last use.";
  }
}

std::string_view type_of(const model::Trace& trace, std::uint32_t row) {
  return trace.strings[trace.holders.links[row].type];
}

}  // namespace

std::string edit_text(const model::Trace& trace, const Holder& holder, std::string_view instead) {
  const HolderLink& link = trace.holders.links[holder.link];
  const Chain chain(trace, holder.example);
  const std::string path = path_text(trace, holder.link);
  const std::string_view type = trace.strings[link.type];
  const std::uint32_t next = chain.after(holder.link);
  const bool holds_items =
      (next != 0 && trace.holders.links[next].kind == PLIMSOLL_LINK_ITEM) || is_queue_type(type);
  if (link.kind == PLIMSOLL_LINK_LOST) {
    return "Delete what new has made, or keep it in a std::unique_ptr.";
  }
  if (const std::uint32_t hook = chain.first(PLIMSOLL_LINK_HOOK); hook != 0) {
    const std::string place = chain.place_from(hook);
    return "Call remove() on the handle of the hook" + (place.empty() ? "" : " " + place) +
           ", which " + path_text(trace, hook) + " keeps.";
  }
  if (chain.has(PLIMSOLL_LINK_TRACEBACK) || chain.has(PLIMSOLL_LINK_EXCEPTION)) {
    const std::string place = chain.place_from(chain.first(PLIMSOLL_LINK_TRACEBACK));
    const std::string locals = "its traceback keeps the locals of " +
                               (place.empty() ? "the functions that it left" : place) + ".";
    return link.kind == PLIMSOLL_LINK_EXCEPTION || chain.has(PLIMSOLL_LINK_EXCEPTION)
               ? "Leave the except block before you allocate again: the exception is kept until "
                 "then, and " +
                     locals
               : "Store str(error) instead of the exception in " + path + ": " + locals;
  }
  if (chain.is_before(PLIMSOLL_LINK_GRADIENT, PLIMSOLL_LINK_GRAD_FN)) {
    return "Set the .grad of the tensors in " + path + " to None after their last use.";
  }
  if (chain.has(PLIMSOLL_LINK_GRAD_FN)) {
    return holds_items ? "Add x.detach(), or x.item(), to " + path +
                             " instead of the tensor x: it keeps the graph of its forward."
                       : "Detach what " + path +
                             " keeps (.detach(), .item()): it keeps the graph "
                             "that made it.";
  }
  if (link.kind == PLIMSOLL_LINK_NATIVE) return {};
  if (link.kind == PLIMSOLL_LINK_CYCLE) {
    return "Break the cycle of references, or call gc.collect() between steps.";
  }
  // What a model and its optimizer hold, they need.
  if (!holder.has_grown && holder.of_model > 0 && holder.of_model * 2 >= holder.bytes) return {};
  // Most arrays are of a whole tensor.
  if (const std::uint32_t base = chain.first(PLIMSOLL_LINK_BASE);
      base != 0 && !type_of(trace, trace.holders.links[base].parent).ends_with("ndarray")) {
    return "Store copies (.clone()) in " + path + ": views keep the whole memory that they share.";
  }
  if (holder.used_again > 0 && holder.used_again * 2 >= holder.bytes) return {};
  if (link.kind == PLIMSOLL_LINK_DEFAULT) {
    return "Give " + std::string(trace.strings[link.name]) +
           " the default None, and make its value inside the function: a default lives as long as "
           "its function.";
  }
  if (link.limit != 0 && !type.ends_with("lru_cache_wrapper")) {
    return "Make " + path + " shorter, if it may keep fewer than " +
           base::format_count(link.limit) + " entries.";
  }
  if (holds_items) {
    return container_edit(type, path).append(instead.empty() ? "" : " ").append(instead);
  }
  return link.kind == PLIMSOLL_LINK_PART ? "" : variable_edit(trace, link, path);
}

}  // namespace plimsoll::analysis::holders
