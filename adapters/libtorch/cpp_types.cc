#include "cpp_types.h"

#include <cxxabi.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <typeinfo>

namespace plimsoll::libtorch::cpp_holders {
namespace {

struct NamedKind {
  std::string_view name;
  Kind kind;
};
constexpr std::array kBases = {NamedKind{"N3c1011StorageImplE", Kind::kStorage},
                               NamedKind{"N3c1010TensorImplE", Kind::kTensor},
                               NamedKind{"N5torch8autograd4NodeE", Kind::kNode},
                               NamedKind{"N5torch8autograd12AutogradMetaE", Kind::kMeta},
                               NamedKind{"St16_Sp_counted_baseILN9__gnu_cxx12_Lock_policyE2EE",
                                         Kind::kShared},
                               NamedKind{"N5torch2nn6ModuleE", Kind::kObject}};
constexpr std::array<std::string_view, 9> kLibraries = {
    "St", "S", "N2at", "N3c10", "N5torch", "N6caffe2", "N10__cxxabiv1", "N9__gnu_cxx",
    "N8plimsoll"};

// One of each kind, whose type_info is of the class that tells the kind.
struct Base {
  virtual ~Base() = default;
};
struct Other {
  virtual ~Other() = default;
};
struct Single : Base {};
struct Several : Base, Other {};

std::uintptr_t first_word(const std::type_info& type) {
  return *reinterpret_cast<const std::uintptr_t*>(&type);
}

std::string text_at(std::uintptr_t address) {
  std::string text;
  std::array<char, 64> part;
  // In parts that end with a page: the next one may not be mapped.
  while (text.size() < 1024) {
    const std::size_t size = part.size() - address % part.size();
    if (!read_memory(address, part.data(), size)) return {};
    const auto end = std::find(part.begin(), part.begin() + size, '\0');
    text.append(part.begin(), end);
    if (end != part.begin() + size) return text;
    address += size;
  }
  return {};
}

std::string name_of(std::uintptr_t type) {
  std::string name = text_at(read_value<std::uintptr_t>(type + 8));
  if (name.starts_with('*')) name.erase(0, 1);  // compared by address
  const auto is_in_name = [](char c) { return c > ' ' && c < 127; };
  return std::ranges::all_of(name, is_in_name) ? name : std::string();
}

// Bases of a class, as far as one has a name in kBases.
Kind kind_of(std::uintptr_t type, const std::string& name, int depth = 0) {
  const auto found = std::ranges::find(kBases, name, &NamedKind::name);
  if (found != kBases.end()) return found->kind;
  if (depth == 16) return Kind::kNone;
  const auto table = read_value<std::uintptr_t>(type);
  std::uint32_t count = 0;
  std::uintptr_t at = type + 16;
  if (table == first_word(typeid(Single))) {
    count = 1;
  } else if (table == first_word(typeid(Several))) {
    count = std::min(read_value<std::uint32_t>(type + 20), 8U);
    at = type + 24;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto base = read_value<std::uintptr_t>(at + 16 * i);
    if (const Kind kind = kind_of(base, name_of(base), depth + 1); kind != Kind::kNone) return kind;
  }
  return Kind::kNone;
}

// "AddmmBackward0" of "torch::autograd::generated::AddmmBackward0".
std::string short_name(const std::string& mangled) {
  int status = 0;
  char* const plain = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string text = plain != nullptr ? plain : mangled;
  std::free(plain);
  const std::string_view without_arguments = std::string_view(text).substr(0, text.find('<'));
  const std::size_t scope = without_arguments.rfind("::");
  return scope == std::string_view::npos ? text : text.substr(scope + 2);
}

int add_loaded(dl_phdr_info* info, std::size_t /*size*/, void* to) {
  Mapping loaded{.begin = ~std::uintptr_t{0}};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    loaded.begin = std::min(loaded.begin, info->dlpi_addr + segment.p_vaddr);
    loaded.end = std::max(loaded.end, info->dlpi_addr + segment.p_vaddr + segment.p_memsz);
  }
  if (loaded.begin < loaded.end) static_cast<std::vector<Mapping>*>(to)->push_back(loaded);
  return 0;
}

}  // namespace

Types::Types() {
  dl_iterate_phdr(add_loaded, &loaded_);
  std::ranges::sort(loaded_, {}, &Mapping::begin);
  if (loaded_.empty()) return;
  lowest_ = loaded_.front().begin;
  highest_ = loaded_.back().end;
}

bool Types::is_code(std::uintptr_t address) const {
  return std::ranges::any_of(loaded_, [&](const Mapping& each) {
    return address >= each.begin && address < each.end;
  });
}

std::uint16_t Types::of(std::uintptr_t first_word) {
  if (first_word < lowest_ || first_word >= highest_ || first_word % 8 != 0) return 0;
  const auto [entry, is_new] = numbers_.try_emplace(first_word, std::uint16_t{0});
  if (!is_new || types_.size() > 0xFFFF || !is_code(first_word)) return entry->second;
  Type type = read(first_word);
  if (type.kind == Kind::kNone) return 0;
  types_.push_back(std::move(type));
  return entry->second = static_cast<std::uint16_t>(types_.size() - 1);
}

// The words before a table of virtual functions: 0 for a whole object, and the type_info.
Type Types::read(std::uintptr_t table) const {
  struct Before {
    std::intptr_t offset;
    std::uintptr_t type;
  };
  const auto before = read_value<Before>(table - sizeof(Before));
  if (before.offset != 0 || before.type % 8 != 0 || !is_code(before.type)) return {};
  const std::string name = name_of(before.type);
  const auto of_type = read_value<std::uintptr_t>(before.type);
  if (name.empty() || !is_code(of_type)) return {};
  Kind kind = kind_of(before.type, name);
  const bool is_of_library = std::ranges::any_of(
      kLibraries, [&](std::string_view each) { return name.starts_with(each); });
  if (kind == Kind::kNone && !is_of_library) kind = Kind::kObject;
  return {kind, short_name(name)};
}

}  // namespace plimsoll::libtorch::cpp_holders
