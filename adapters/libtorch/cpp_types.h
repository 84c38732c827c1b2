// What an object of C++ is, by its pointer to virtual functions.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpp_heap.h"

namespace plimsoll::libtorch::cpp_holders {

enum class Kind : std::uint8_t {
  kNone,
  kStorage,  // c10::StorageImpl
  kTensor,   // c10::TensorImpl
  kNode,     // torch::autograd::Node
  kMeta,     // torch::autograd::AutogradMeta
  kShared,   // the reference counts of a std::shared_ptr
  kObject    // of a class of the program, or a torch::nn::Module
};

struct Type {
  Kind kind = Kind::kNone;
  std::string name;  // without namespaces
};

class Types {
 public:
  Types();
  // The number of the type of an object that begins with this word. 0: it is none that matters.
  std::uint16_t of(std::uintptr_t first_word);
  const Type& operator[](std::uint16_t number) const { return types_[number]; }

 private:
  Type read(std::uintptr_t table) const;
  bool is_code(std::uintptr_t address) const;

  std::uintptr_t lowest_ = 0, highest_ = 0;  // of all that is loaded
  std::vector<Mapping> loaded_;
  std::unordered_map<std::uintptr_t, std::uint16_t> numbers_;  // by the first word
  std::vector<Type> types_{Type{}};
};

}  // namespace plimsoll::libtorch::cpp_holders
