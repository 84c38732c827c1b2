// The modules that a recording names.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "report/digest.h"

namespace plimsoll::analysis::digest {

// Collects modules by their path without indices.
class Modules {
 public:
  // A module and all around it. Naming a path again has no effect.
  void add(std::string_view path);
  // A module that the recording lists; each path once.
  void add(std::string_view path, std::string_view type, std::uint64_t parameter_bytes);
  // Sorted by path.
  std::vector<report::DigestModule> take() const;

 private:
  struct Repeated {
    std::set<std::string, std::less<>> paths;
    std::set<std::uint64_t> indices;  // if the path ends in one
    std::string type;
    std::uint64_t parameter_bytes = 0;
  };

  std::map<std::string, Repeated> modules_;
};

// {0, 1, 2, 7} -> "0-2, 7"
std::string ranges_text(const std::set<std::uint64_t>& numbers);

}  // namespace plimsoll::analysis::digest
