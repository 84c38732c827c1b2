#include "python/holders/chains.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "python/holders/graph_edges.h"

namespace plimsoll::libtorch::holders {
namespace {

// Elements that are named one by one; with more, the names say nothing.
constexpr std::size_t kMostNamed = 16;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Keys that differ only in numbers ("step1", "step2") are of one group.
std::string group_of(const std::string& name) {
  std::string group;
  for (const char c : name) {
    if (!is_digit(c)) {
      group += c;
    } else if (group.empty() || group.back() != '#') {
      group += '#';
    }
  }
  return group.find('#') == group.npos && !group.starts_with('<') ? name : group;
}

bool is_parameter_class(PyTypeObject* type) {
  return ParameterClass != nullptr &&
         PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(ParameterClass)) != 0;
}

}  // namespace

Chains::Chains(Walk& walk) : walk_(walk), table_(walk.table()) {}

// ---- what is on a chain -------------------------------------------------------------------------

void Chains::mark() {
  for (std::uint32_t i = 1; i <= table_.size(); ++i) {
    Entry& entry = table_[i];
    if (entry.kind != Kind::kStorage || entry.has(kOwn)) continue;
    auto& storage = *static_cast<c10::StorageImpl*>(const_cast<void*>(entry.address));
    if (storage._mutable_data_ptr_no_checks().get() == nullptr) continue;
    storages_.push_back(i);
    for (std::uint32_t at = i; at != 0 && !table_[at].has(kOnChain); at = table_[at].parent) {
      table_[at].set(kOnChain);
      on_chains_.push_back(at);
      if (table_[at].kind != Kind::kTensor) continue;
      PyObject* object = object_of_tensor(*static_cast<const c10::TensorImpl*>(table_[at].address));
      if (object != nullptr && is_parameter_class(Py_TYPE(object))) entry.set(kParameter);
    }
  }
}

void Chains::build() {
  mark();
  for (const std::uint32_t entry : on_chains_) {
    if (table_[entry].parent == 0) link_root(entry);
  }
  std::ranges::sort(on_chains_, [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(table_[a].parent, a) < std::pair(table_[b].parent, b);
  });
  const std::uint32_t* const end = on_chains_.data() + on_chains_.size();
  for (const std::uint32_t* begin = on_chains_.data(); begin != end;) {
    const std::uint32_t parent = table_[*begin].parent;
    const std::uint32_t* next =
        std::find_if(begin, end, [&](std::uint32_t i) { return table_[i].parent != parent; });
    if (parent != 0) link_children(parent, begin, next);
    begin = next;
  }
}

// ---- names --------------------------------------------------------------------------------------

const ReferenceName& Chains::name_to(std::uint32_t entry) const {
  static const ReferenceName none;
  const auto found = names_.find(entry);
  return found == names_.end() ? none : found->second;
}

std::vector<Chains::Child> Chains::named_children(std::uint32_t parent, const std::uint32_t* begin,
                                                  const std::uint32_t* end) {
  std::vector<Child> children;
  std::unordered_map<const void*, std::uint32_t> wanted;
  for (const std::uint32_t* each = begin; each != end; ++each) {
    wanted.emplace(table_[*each].address, *each);
  }
  for_each_name(table_[parent], name_to(parent), [&](const void* target, ReferenceName&& name) {
    const auto found = wanted.find(target);
    if (found == wanted.end()) return;
    children.push_back({found->second, std::move(name)});
    wanted.erase(found);
  });
  for (const auto& [address, entry] : wanted) children.push_back({entry, {}});
  return children;
}

bool Chains::is_below_fan(std::uint32_t link) const {
  while (link != 0 && !links_[link - 1].is_fan) link = links_[link - 1].parent;
  return link != 0;
}

// Drops the names of elements that share a link. Numbers differ from one container to the next, and
// those of hooks say nothing.
void Chains::join_elements(std::uint32_t parent, std::vector<Child>& children) const {
  std::map<std::string, std::size_t> sizes;
  for (Child& child : children) {
    if (!child.name.is_element) continue;
    child.group = group_of(child.name.name);
    ++sizes[child.group];
  }
  const bool is_mutable = is_mutable_container(table_[parent]);
  const std::uint32_t above = table_[parent].link;
  const bool is_hooks = above != 0 && links_[above - 1].kind == PLIMSOLL_LINK_HOOK;
  const bool has_many = sizes.size() > kMostNamed || is_hooks;
  const bool has_like = is_mutable && is_below_fan(above);
  for (Child& child : children) {
    if (!child.name.is_element) continue;
    const std::size_t size = sizes[child.group];
    const bool is_joined = has_many || (is_mutable && size > 1) || size > kMostNamed ||
                           (has_like && child.group.find('#') != child.group.npos);
    if (is_joined) child.name.name.clear();
    child.group = is_joined ? "*" : "";
  }
  find_mixed(children);
}

// The elements of one container share a link even if they differ in type: an edit removes all.
void Chains::find_mixed(std::vector<Child>& children) const {
  std::string type;
  bool is_mixed = false;
  for (const Child& child : children) {
    if (child.group != "*") continue;
    const std::string own = type_of(table_[child.entry]);
    is_mixed |= !type.empty() && own != type;
    type = own;
  }
  for (Child& child : children) child.is_mixed = is_mixed && child.group == "*";
}

// ---- links --------------------------------------------------------------------------------------

std::uint32_t Chains::intern(const Link& link) {
  const Key key{link.parent, link.kind, link.name, link.type, link.file, link.line};
  const auto found = numbers_.find(key);
  if (found != numbers_.end()) {
    Link& known = links_[found->second - 1];
    known.length = std::max(known.length, link.length);
    known.limit = std::max(known.limit, link.limit);
    known.is_fan |= link.is_fan;
    return found->second;
  }
  if (links_.size() >= kMostLinks) return link.parent;
  links_.push_back(link);
  const auto number = static_cast<std::uint32_t>(links_.size());
  if (link.kind == PLIMSOLL_LINK_GRAD_FN) links_.back().graph = number;
  numbers_.emplace(key, number);
  return number;
}

void Chains::link_root(std::uint32_t entry) {
  const auto found = walk_.roots().find(entry);
  if (found == walk_.roots().end()) return;
  const Root& root = found->second;
  Link link{.kind = root.kind, .name = texts_.number_of(root.name)};
  if (root.code != nullptr) {
    link.file = texts_.number_of(text_of_string(root.code->co_filename));
    link.line = root.line > 0 ? static_cast<std::uint32_t>(root.line) : 0;
  } else if (root.kind != PLIMSOLL_LINK_MODULE) {
    const Description description = describe(table_[entry]);
    link.type = texts_.number_of(description.type);
    link.file = texts_.number_of(description.file);
    link.line = static_cast<std::uint32_t>(std::max(description.line, 0));
  } else {
    names_[entry] = {.role = Role::kAttributes};
  }
  table_[entry].link = intern(link);
  table_[entry].set(kStartsLink);
}

std::uint32_t Chains::make(std::uint32_t parent, const ReferenceName& name, std::uint32_t entry,
                           bool is_fan, bool is_mixed) {
  const Description description = is_mixed ? Description() : describe(table_[entry]);
  Link link{.parent = parent,
            .kind = name.kind,
            .name = texts_.number_of(name.kind == PLIMSOLL_LINK_TRACEBACK ? description.function
                                                                          : name.name),
            .type = texts_.number_of(description.type),
            .file = texts_.number_of(description.file),
            .line = static_cast<std::uint32_t>(std::max(description.line, 0)),
            .length = description.length,
            .limit = description.limit,
            .is_fan = is_fan};
  if (parent == 0) return intern(link);
  if (!name.attribute.empty()) {
    link.parent = parent = intern({.parent = parent,
                                   .kind = PLIMSOLL_LINK_ATTRIBUTE,
                                   .name = texts_.number_of(name.attribute),
                                   .type = texts_.number_of("list")});
  }
  const Link above = links_[parent - 1];
  const bool is_graph = name.kind == PLIMSOLL_LINK_NODE || name.kind == PLIMSOLL_LINK_GRAD_FN;
  if (is_graph && above.graph != 0) {
    // The nodes between the first and this one are left out.
    link.kind = PLIMSOLL_LINK_NODE;
    link.parent = link.graph = above.graph;
  } else if (name.kind == PLIMSOLL_LINK_TRACEBACK && above.kind == PLIMSOLL_LINK_TRACEBACK) {
    link.parent = above.parent;  // only the innermost frame
  } else if (name.kind == PLIMSOLL_LINK_NODE) {
    link.kind = PLIMSOLL_LINK_GRAD_FN;
  } else if (name.kind == PLIMSOLL_LINK_SAVED) {
    link.graph = above.graph;
  }
  // A list of objects that refer to the next one is one link.
  const bool is_repeated = above.kind == link.kind && above.name == link.name &&
                           above.type == link.type && above.file == link.file &&
                           above.line == link.line && link.parent == parent;
  return is_repeated ? parent : intern(link);
}

void Chains::link_child(std::uint32_t parent, Child& child, bool is_fan) {
  Entry& entry = table_[child.entry];
  const std::uint32_t above = table_[parent].link;
  if (child.name.is_shown) {
    entry.link = make(above, child.name, child.entry, is_fan, child.is_mixed);
    entry.set(kStartsLink);
    if (entry.link != 0) ++links_[entry.link - 1].references;
  } else {
    entry.link = above;
  }
  if (child.name.role != Role::kNone) names_[child.entry] = std::move(child.name);
}

void Chains::link_children(std::uint32_t parent, const std::uint32_t* begin,
                           const std::uint32_t* end) {
  std::vector<Child> children = named_children(parent, begin, end);
  join_elements(parent, children);
  const bool is_mutable = is_mutable_container(table_[parent]);
  std::vector<std::uint32_t> made;
  for (Child& child : children) {
    const bool is_shown = child.name.is_shown;
    link_child(parent, child, is_mutable && child.group == "*" && children.size() > 1);
    if (is_shown) made.push_back(table_[child.entry].link);
  }
  std::ranges::sort(made);
  made.erase(std::unique(made.begin(), made.end()), made.end());
  for (const std::uint32_t link : made) {
    if (link != 0) ++links_[link - 1].containers;
  }
}

std::uint32_t Chains::link_of(std::uint32_t entry) {
  std::vector<std::uint32_t> path;
  for (std::uint32_t at = entry; at != 0 && table_[at].link == 0; at = table_[at].parent) {
    path.push_back(at);
  }
  for (auto each = path.rbegin(); each != path.rend(); ++each) {
    const std::uint32_t parent = table_[*each].parent;
    if (parent == 0) {
      link_root(*each);
    } else {
      const std::uint32_t child = *each;
      link_children(parent, &child, &child + 1);
    }
  }
  return table_[entry].link;
}

std::uint32_t Chains::link_of_reference(std::uint32_t from, std::uint32_t to) {
  const std::uint32_t above = link_of(from);
  if (above == 0) return 0;
  std::vector<Child> children = named_children(from, &to, &to + 1);
  if (children.empty() || !children[0].name.is_shown) return above;
  const bool is_element = children[0].name.is_element && is_mutable_container(table_[from]);
  if (is_element) children[0].name.name.clear();
  return make(above, children[0].name, to, is_element);
}

}  // namespace plimsoll::libtorch::holders
