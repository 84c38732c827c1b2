#include "cpp_types.h"

#include <cxxabi.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>
#include <typeinfo>

namespace plimsoll::libtorch::cpp_holders {
namespace {

struct NamedKind {
  std::string_view name;
  Kind kind;
};
constexpr std::array kBases = {
    NamedKind{"N3c1011StorageImplE", Kind::kStorage},
    NamedKind{"N3c1010TensorImplE", Kind::kTensor},
    NamedKind{"N5torch8autograd4NodeE", Kind::kNode},
    NamedKind{"N5torch8autograd12AutogradMetaE", Kind::kMeta},
    NamedKind{"St16_Sp_counted_baseILN9__gnu_cxx12_Lock_policyE2EE", Kind::kShared},
    NamedKind{"N5torch2nn6ModuleE", Kind::kObject}};
constexpr std::array<std::string_view, 7> kLibraries = {
    "S", "N2at", "N3c10", "N5torch", "N6caffe2", "N10__cxxabiv1", "N9__gnu_cxx"};

// Classes with no, one and several bases: the class of a type_info is another for each.
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
    // Tables of virtual functions contain addresses that the loader fills in.
    if (segment.p_type != PT_GNU_RELRO) continue;
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
  reserve(pages_, kPagesKept * kPage);
}

// Torch has thousands of classes: their constants are read page by page.
std::span<const std::byte> Types::page_at(std::uintptr_t address) {
  const std::uintptr_t page = address / kPage;
  const std::size_t place = page % kPagesKept;
  std::byte* const bytes = static_cast<std::byte*>(pages_.data()) + place * kPage;
  if (page_numbers_[place] != page) {
    page_numbers_[place] = read_memory(page * kPage, bytes, kPage) ? page : 0;
  }
  if (page_numbers_[place] != page) return {};
  return {bytes + address % kPage, kPage - address % kPage};
}

std::uintptr_t Types::word_at(std::uintptr_t address) {
  std::uintptr_t word = 0;
  const std::span<const std::byte> bytes = page_at(address);
  if (bytes.size() >= sizeof word) std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

std::string Types::name_of(std::uintptr_t type) {
  constexpr std::size_t kLongest = 4096;
  std::string name;
  for (std::uintptr_t at = word_at(type + 8); name.size() < kLongest;) {
    const std::span<const std::byte> bytes = page_at(at);
    const auto end = std::ranges::find_if(
        bytes, [](std::byte each) { return each <= std::byte{' '} || each >= std::byte{127}; });
    name.append(reinterpret_cast<const char*>(bytes.data()),
                static_cast<std::size_t>(end - bytes.begin()));
    if (end != bytes.end()) {
      if (*end != std::byte{0}) return {};
      return name.starts_with('*') ? name.substr(1) : name;  // "*": compared by address
    }
    if (bytes.empty()) return {};
    at += bytes.size();
  }
  return {};
}

// Of the first base that has a name in kBases, or of the class itself.
Kind Types::kind_of(std::uintptr_t type, const std::string& name, int depth) {
  const auto found = std::ranges::find(kBases, name, &NamedKind::name);
  if (found != kBases.end()) return found->kind;
  const auto [known, is_new] = kinds_.try_emplace(type, Kind::kNone);
  if (!is_new || depth == 16) return known->second;
  const std::uintptr_t table = word_at(type);
  std::uint64_t count = 0;
  std::uintptr_t at = type + 16;
  if (table == first_word(typeid(Single))) {
    count = 1;
  } else if (table == first_word(typeid(Several))) {
    count = std::min<std::uint64_t>(word_at(type + 16) >> 32U, 8);
    at = type + 24;
  }
  Kind kind = Kind::kNone;
  for (std::uint64_t i = 0; i < count && kind == Kind::kNone; ++i) {
    const std::uintptr_t base = word_at(at + 16 * i);
    kind = kind_of(base, name_of(base), depth + 1);
  }
  return kinds_[type] = kind;
}

bool Types::is_constant(std::uintptr_t address) const {
  const auto after = std::ranges::upper_bound(loaded_, address, {}, &Mapping::begin);
  return after != loaded_.begin() && address < std::prev(after)->end;
}

std::uint16_t Types::of(std::uintptr_t first_word) {
  if (first_word % 8 != 0 || !is_constant(first_word)) return 0;
  const auto [entry, is_new] = numbers_.try_emplace(first_word, std::uint16_t{0});
  if (!is_new || types_.size() > 0xFFFF) return entry->second;
  Type type = read(first_word);
  if (type.kind == Kind::kNone) return 0;
  types_.push_back(std::move(type));
  return entry->second = static_cast<std::uint16_t>(types_.size() - 1);
}

// The words before a table of virtual functions: 0 for a whole object, and the type_info.
Type Types::read(std::uintptr_t table) {
  const std::uintptr_t type = word_at(table - 8);
  if (word_at(table - 16) != 0 || type % 8 != 0 || !is_constant(type)) return {};
  const std::string name = name_of(type);
  if (name.empty() || !is_constant(word_at(type))) return {};
  if (name.find("8plimsoll") != name.npos) return {Kind::kOwn, {}};
  Kind kind = kind_of(type, name, 0);
  const bool is_of_library = std::ranges::any_of(
      kLibraries, [&](std::string_view each) { return name.starts_with(each); });
  if (kind == Kind::kNone && !is_of_library) kind = Kind::kObject;
  return {kind, short_name(name)};
}

}  // namespace plimsoll::libtorch::cpp_holders
