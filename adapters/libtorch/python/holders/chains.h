// Makes links of what a walk has reached. Chains that differ only in the elements of a container,
// or in the middle of an autograd graph, have the same links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "plimsoll/holders_c.h"
#include "python/holders/names.h"
#include "python/holders/texts.h"
#include "python/holders/walk.h"

namespace plimsoll::libtorch::holders {

inline constexpr std::size_t kMostLinks = 4096;

struct Link {
  std::uint32_t parent = 0;
  plimsoll_link_kind kind = PLIMSOLL_LINK_OTHER;
  std::uint32_t name = 0, type = 0, file = 0;  // numbers of texts
  std::uint32_t line = 0;
  std::uint64_t length = 0, limit = 0;

  std::uint32_t graph = 0;                       // the GRAD_FN link of the graph that it is in
  bool is_fan = false;                           // of several elements of a mutable container
  std::uint32_t references = 0, containers = 0;  // that it stands for
};

class Chains {
 public:
  explicit Chains(Walk& walk);

  // Sets the links of all entries on chains to storages.
  void build();
  // The link of the reference between two entries, neither of which need be on a chain.
  std::uint32_t link_of_reference(std::uint32_t from, std::uint32_t to);

  // Numbered from 1.
  const Link& operator[](std::uint32_t number) const { return links_[number - 1]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(links_.size()); }
  const Texts& texts() const { return texts_; }
  // Storages that are reported.
  const std::vector<std::uint32_t>& storages() const { return storages_; }

 private:
  using Key =
      std::tuple<std::uint32_t, int, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
  struct Child {
    std::uint32_t entry;
    ReferenceName name;
    std::string group = {};  // of elements that may share a link
    bool is_mixed = false;   // they have several types
  };

  void mark();
  void link_root(std::uint32_t entry);
  void link_children(std::uint32_t parent, const std::uint32_t* begin, const std::uint32_t* end);
  std::vector<Child> named_children(std::uint32_t parent, const std::uint32_t* begin,
                                    const std::uint32_t* end);
  void join_elements(std::uint32_t parent, std::vector<Child>& children) const;
  bool is_below_fan(std::uint32_t link) const;
  void link_child(std::uint32_t parent, Child& child, bool is_fan);
  void find_mixed(std::vector<Child>& children) const;
  std::uint32_t make(std::uint32_t parent, const ReferenceName& name, std::uint32_t entry,
                     bool is_fan, bool is_mixed = false);
  std::uint32_t intern(const Link& link);
  const ReferenceName& name_to(std::uint32_t entry) const;
  std::uint32_t link_of(std::uint32_t entry);

  Walk& walk_;
  Table& table_;
  Texts texts_;
  std::vector<Link> links_;
  std::map<Key, std::uint32_t> numbers_;
  std::unordered_map<std::uint32_t, ReferenceName> names_;  // of references with a role
  std::vector<std::uint32_t> storages_;
  std::vector<std::uint32_t> on_chains_;
};

}  // namespace plimsoll::libtorch::holders
