// The modules that a recording names.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/trace.h"
#include "report/digest.h"

namespace plimsoll::analysis::digest {

// "blocks.3.mlp" -> "blocks.*.mlp": a name that consists of digits is an index.
std::string without_indices(std::string_view layer);

// Which indices only count repetitions of a block. In a sequence of different classes, such as
// those of an nn.Sequential, an index is a name: only the block that occurs most often is folded.
class Repetitions {
 public:
  explicit Repetitions(const model::Trace& trace);

  // "blocks.3.mlp.2" -> "blocks.*.mlp.2"
  std::string fold(std::string_view layer) const;

 private:
  struct Sequence {
    std::map<std::string, std::string, std::less<>> classes;  // by index
    std::string folded;                                       // the class; empty: none
    bool is_mixed = false;
  };
  std::map<std::string, Sequence, std::less<>> sequences_;  // by path without indices
};

// Collects modules by their folded path.
class Modules {
 public:
  explicit Modules(const Repetitions& repetitions) : repetitions_(repetitions) {}

  // A module and all around it. Naming a path again has no effect.
  void add(std::string_view path);
  // A module that the recording lists; each path once.
  void add(std::string_view path, std::string_view type, std::uint64_t parameter_bytes);
  // In the order in which they were added, but after those around them.
  std::vector<report::DigestModule> take() const;

 private:
  struct Repeated {
    std::set<std::string, std::less<>> paths;
    std::set<std::uint64_t> indices;  // if the path ends in one
    std::string type;
    std::uint64_t parameter_bytes = 0;
  };

  Repeated& folded(const std::string& path);

  const Repetitions& repetitions_;
  std::map<std::string, std::size_t> places_;
  std::vector<std::pair<std::string, Repeated>> modules_;
};

// {0, 1, 2, 7} -> "0-2, 7"
std::string ranges_text(const std::set<std::uint64_t>& numbers);

}  // namespace plimsoll::analysis::digest
