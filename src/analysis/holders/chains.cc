#include "analysis/holders/chains.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/path_text.h"
#include "base/units.h"

namespace plimsoll::analysis::holders {
namespace {

using model::HolderLink;

// Builds the text of a chain, from the root on.
class ChainText {
 public:
  explicit ChainText(const model::Trace& trace) : trace_(trace) {}

  void add(const HolderLink& link) {
    const std::string name(trace_.strings[link.name]);
    switch (link.kind) {
      case PLIMSOLL_LINK_MODULE:
        if (name != "__main__") text_ = name;
        return;
      case PLIMSOLL_LINK_FRAME:
        around_ = " in " + place(link, name);
        return;
      case PLIMSOLL_LINK_EXCEPTION:
        text_ = name.empty() ? "the exception being handled" : name;
        return;
      case PLIMSOLL_LINK_NATIVE:
        text_ = "native code" + in_brackets(link.type);
        return;
      case PLIMSOLL_LINK_CYCLE:
        text_ = "a garbage cycle" + in_brackets(link.type);
        return;
      case PLIMSOLL_LINK_LOST:
        text_ = "a pointer that the program has lost";
        return;
      case PLIMSOLL_LINK_ATTRIBUTE:
      case PLIMSOLL_LINK_HOOK:
      case PLIMSOLL_LINK_PART:
        text_ += (text_.empty() ? "" : ".") + name;
        return;
      case PLIMSOLL_LINK_ITEM:
        text_ += "[" + item(name) + "]";
        return;
      case PLIMSOLL_LINK_LOCAL:
        text_ += (text_.empty() ? "" : ": local ") + (name.empty() ? "a local variable" : name);
        if (!left_.empty()) text_ += " of " + std::exchange(left_, {});
        return;
      case PLIMSOLL_LINK_CLOSURE:
      case PLIMSOLL_LINK_DEFAULT:
        text_ += (text_.empty() ? "" : ", ") + kind_of_function_part(link) + name;
        return;
      case PLIMSOLL_LINK_GRADIENT:
        text_ += ".grad";
        return;
      case PLIMSOLL_LINK_TRACEBACK:
        text_ += ".__traceback__";
        left_ = place(link, name);
        return;
      case PLIMSOLL_LINK_GRAD_FN:
      case PLIMSOLL_LINK_NODE:
        return node(link);
      case PLIMSOLL_LINK_SAVED:
        text_ += " → saved" + (name.empty() ? "" : " " + name);
        return;
      case PLIMSOLL_LINK_BASE:
        text_ += " → memory that it shares";
        return;
      case PLIMSOLL_LINK_OTHER:
        text_ += (text_.empty() ? "" : " → ") + std::string(trace_.strings[link.type]);
        return;
    }
  }

  std::string take() { return std::move(text_) + around_; }

  std::string place(const HolderLink& link, std::string name) const {
    const std::string_view file = trace_.strings[link.file];
    if (file.empty()) return name;
    return name + " (" + std::string(base::file_name(file)) + ":" + std::to_string(link.line) + ")";
  }

 private:
  std::string in_brackets(model::StringId type) const {
    const std::string_view text = trace_.strings[type];
    return text.empty() ? "" : " (" + std::string(text) + ")";
  }
  static std::string kind_of_function_part(const HolderLink& link) {
    return link.kind == PLIMSOLL_LINK_CLOSURE ? "closure variable " : "default of ";
  }
  // Keys that are no numbers are texts, or classes of keys.
  static std::string item(const std::string& name) {
    if (name.empty()) return "*";
    const bool is_number =
        std::ranges::all_of(name, [](char c) { return (c >= '0' && c <= '9') || c == '-'; });
    return is_number ? name : "'" + name + "'";
  }
  // Of several nodes in a row, the first and the last are named.
  void node(const HolderLink& link) {
    const std::string type(trace_.strings[link.type]);
    text_ += " → " + (link.kind == PLIMSOLL_LINK_NODE ? "… → " + type : type);
  }

  const model::Trace& trace_;
  std::string text_;
  std::string around_;
  std::string left_;  // the function that an exception has left
};

}  // namespace

std::vector<std::uint32_t> chain_to(const model::Trace& trace, std::uint32_t link) {
  std::vector<std::uint32_t> chain;
  // Parents have lower rows, so this ends.
  for (; link != 0; link = trace.holders.links[link].parent) chain.push_back(link);
  std::ranges::reverse(chain);
  return chain;
}

std::uint32_t model_of(const model::Trace& trace, std::uint32_t link) {
  const auto& links = trace.holders.links;
  if (links[link].kind != PLIMSOLL_LINK_PART) return link;
  for (const std::uint32_t each : chain_to(trace, link)) {
    if (links[each].kind == PLIMSOLL_LINK_PART) return links[each].parent;
  }
  return link;
}

std::string path_text(const model::Trace& trace, std::uint32_t link) {
  ChainText text(trace);
  for (const std::uint32_t row : chain_to(trace, link)) {
    if (is_of_tensor(trace.holders.links[row].kind)) break;
    text.add(trace.holders.links[row]);
  }
  return text.take();
}

std::string chain_text(const model::Trace& trace, std::uint32_t link) {
  ChainText text(trace);
  for (const std::uint32_t row : chain_to(trace, link)) text.add(trace.holders.links[row]);
  return text.take();
}

std::string graph_text(const model::Trace& trace, std::uint32_t link) {
  ChainText text(trace);
  bool is_graph = false;
  for (const std::uint32_t row : chain_to(trace, link)) {
    is_graph = is_graph || is_of_tensor(trace.holders.links[row].kind);
    if (is_graph) text.add(trace.holders.links[row]);
  }
  constexpr std::string_view kArrow = " → ";
  std::string all = text.take();
  return all.starts_with(kArrow) ? all.substr(kArrow.size()) : all;
}

std::string place_text(const model::Trace& trace, std::uint32_t link) {
  const HolderLink& row = trace.holders.links[link];
  if (trace.strings[row.file].empty()) return {};
  const bool is_named = row.kind == PLIMSOLL_LINK_FRAME || row.kind == PLIMSOLL_LINK_TRACEBACK;
  return ChainText(trace).place(row, std::string(trace.strings[is_named ? row.name : row.type]));
}

}  // namespace plimsoll::analysis::holders
