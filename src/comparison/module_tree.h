// Pairs the modules of two digests, although modules were renamed, wrapped, inserted or resized.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "report/digest.h"

namespace plimsoll::comparison {

// Gives each module of two digests one name: that of the second digest, if it has the module.
class ModulePairs {
 public:
  ModulePairs(const report::Digest& before, const report::Digest& after);

  std::string name_before(std::string_view layer) const;  // of a layer of the first digest
  std::string name_after(std::string_view layer) const;
  // "QNet.forward" -> "Network.forward", if the class was renamed.
  std::string function_before(std::string_view function) const;

  // Modules that have another class and other contents: by name, with their earlier class.
  const std::map<std::string, std::string, std::less<>>& replaced() const { return replaced_; }

  // Whether a module, or the innermost module around the layer, is only in one digest.
  bool is_added(std::string_view name) const { return is_in(name, added_); }
  bool is_removed(std::string_view name) const { return is_in(name, removed_); }

 private:
  using Names = std::map<std::string, std::string, std::less<>>;
  using Set = std::set<std::string, std::less<>>;

  bool is_in(std::string_view name, const Set& modules) const;
  void fold_names(const report::Digest& counted, const report::Digest& named);

  Set folded_;        // modules whose indices only one digest counts; their own indices as *
  Set folded_names_;  // the same, of repetitions that only one digest names
  Names names_;       // by path in the first digest
  Names classes_;
  Names replaced_;
  Set added_;
  Set removed_;
  Set paired_;
};

}  // namespace plimsoll::comparison
