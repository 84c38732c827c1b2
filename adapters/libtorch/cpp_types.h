// What an object of C++ is, by its pointer to virtual functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
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
  kOwn,      // Plimsoll's
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
  // Whether it is in memory that only the loader writes to, as tables of virtual functions are.
  bool is_constant(std::uintptr_t address) const;
  const Type& operator[](std::uint16_t number) const { return types_[number]; }

 private:
  static constexpr std::size_t kPage = 4096, kPagesKept = 1024;

  Type read(std::uintptr_t table);
  Kind kind_of(std::uintptr_t type, const std::string& name, int depth);
  std::string name_of(std::uintptr_t type);
  std::uintptr_t word_at(std::uintptr_t address);
  std::span<const std::byte> page_at(std::uintptr_t address);

  std::vector<Mapping> loaded_;  // constants of the program and its libraries
  std::unordered_map<std::uintptr_t, std::uint16_t> numbers_;  // by the first word
  std::unordered_map<std::uintptr_t, Kind> kinds_;             // by type_info
  std::vector<Type> types_{Type{}};
  Pages pages_;
  std::array<std::uintptr_t, kPagesKept> page_numbers_{};
};

}  // namespace plimsoll::libtorch::cpp_holders
