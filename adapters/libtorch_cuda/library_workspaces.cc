#include "library_workspaces.h"

#include <elf.h>
#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace plimsoll::libtorch_cuda {
namespace {

struct Module {
  std::uintptr_t base = 0;
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  const ElfW(Dyn) * dynamic = nullptr;
  std::string_view name;  // of its file, without the folder
};

struct ModuleSearch {
  std::uintptr_t address = 0;
  Module found;
};

int note_module(dl_phdr_info* info, std::size_t, void* data) {
  auto& search = *static_cast<ModuleSearch*>(data);
  Module module{.base = info->dlpi_addr, .begin = ~std::uintptr_t{0}, .name = {}};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type == PT_LOAD) {
      module.begin = std::min<std::uintptr_t>(module.begin, module.base + header.p_vaddr);
      module.end =
          std::max<std::uintptr_t>(module.end, module.base + header.p_vaddr + header.p_memsz);
    } else if (header.p_type == PT_DYNAMIC) {
      module.dynamic = reinterpret_cast<const ElfW(Dyn)*>(module.base + header.p_vaddr);
    }
  }
  if (search.address < module.begin || search.address >= module.end) return 0;
  module.name = info->dlpi_name == nullptr ? std::string_view() : info->dlpi_name;
  module.name.remove_prefix(module.name.rfind('/') + 1);
  search.found = module;
  return 1;
}

// Not dladdr(), whose lock is held while a library's constructors run: they may wait for the
// allocator.
Module module_of(std::uintptr_t address) {
  ModuleSearch search{.address = address, .found = {}};
  ::dl_iterate_phdr(&note_module, &search);
  return search.found;
}

std::size_t symbol_count(const std::uint32_t* gnu_hash) {
  const std::uint32_t buckets = gnu_hash[0];
  const std::uint32_t first = gnu_hash[1];
  const std::uint32_t* bucket =
      gnu_hash + 4 + gnu_hash[2] * (sizeof(ElfW(Addr)) / sizeof(std::uint32_t));
  const std::uint32_t* chain = bucket + buckets;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < buckets; ++i) last = std::max(last, bucket[i]);
  if (last < first) return first;
  while ((chain[last - first] & 1U) == 0) ++last;
  return last + 1;
}

// The name of the exported function that contains the address; "" if that function is internal.
std::string_view exported_name(const Module& module, std::uintptr_t address) {
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  std::size_t count = 0;
  for (const ElfW(Dyn)* each = module.dynamic; each != nullptr && each->d_tag != DT_NULL; ++each) {
    const auto pointer = static_cast<std::uintptr_t>(each->d_un.d_ptr);
    const std::uintptr_t at = pointer < module.base ? module.base + pointer : pointer;
    if (each->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(at);
    if (each->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(at);
    if (each->d_tag == DT_GNU_HASH) {
      count = symbol_count(reinterpret_cast<const std::uint32_t*>(at));
    }
    if (each->d_tag == DT_HASH && count == 0) count = reinterpret_cast<const std::uint32_t*>(at)[1];
  }
  if (symbols == nullptr || names == nullptr) return {};
  const std::uintptr_t offset = address - module.base;
  for (std::size_t i = 0; i < count; ++i) {
    const ElfW(Sym)& symbol = symbols[i];
    if (symbol.st_shndx == SHN_UNDEF || (symbol.st_info & 0xFU) != STT_FUNC) continue;
    if (offset < symbol.st_value || offset >= symbol.st_value + symbol.st_size) continue;
    const std::string_view name = names + symbol.st_name;
    if (!name.starts_with("_ZNSt") && !name.starts_with("_ZSt")) return name;
  }
  return {};
}

struct Taker {
  std::string_view part;  // of the mangled name
  Library library;
};

// Functions of torch that take memory for a library. The first that matches counts.
constexpr std::array kTakers{
    Taker{"getCUDABlasLtWorkspace", Library::kCublasLt},
    Taker{"getCurrentCUDABlasHandle", Library::kCublas},
    Taker{"cudnn", Library::kCudnn},
    Taker{"convolution_backward", Library::kCudnn},
    Taker{"addmm_out_sparse", Library::kCusparse},
    Taker{"addmv_out_sparse", Library::kCusparse},
    Taker{"bmm_out_sparse", Library::kCusparse},
    Taker{"bmm_sparse", Library::kCusparse},
    Taker{"sampled_addmm", Library::kCusparse},
    Taker{"triangular_solve_out_sparse", Library::kCusparse},
    Taker{"sparse_sparse_matmul", Library::kCusparse},
    Taker{"cslt_sparse_mm", Library::kCusparse},
    // Up to torch 2.8, each multiplication by cuBLASLt takes a workspace.
    Taker{"structured_addmm_out_cuda", Library::kCublasLt},
    Taker{"addmm_activation_out_cuda", Library::kCublasLt},
    Taker{"structured_mm_out_cuda", Library::kCublasLt},
    Taker{"structured_bmm_out_cuda", Library::kCublasLt},
    Taker{"structured_baddbmm_out_cuda", Library::kCublasLt},
    Taker{"_scaled_mm", Library::kCublasLt},
    Taker{"_int_mm", Library::kCublasLt},
};

Library taker(std::string_view function) {
  for (const Taker& each : kTakers) {
    if (function.find(each.part) != std::string_view::npos) return each.library;
  }
  return Library::kNone;
}

// Decides from the allocator's caller outwards, as far as torch's CUDA code goes and one function
// further. The first exported function decides.
Library library_of(const std::uintptr_t* callers, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uintptr_t call = callers[i] - 1;
    const Module module = module_of(call);
    const bool is_of_cuda = module.name.starts_with("libtorch_cuda");
    if (i == 0) {
      if (!is_of_cuda) return Library::kNone;  // a storage, or the program
      if (module.name.starts_with("libtorch_cuda_linalg")) return Library::kCusolver;
    }
    const std::string_view function = exported_name(module, call);
    if (!function.empty()) return taker(function);
    if (!is_of_cuda) return Library::kNone;
  }
  return Library::kNone;
}

__attribute__((no_sanitize("address", "thread"))) std::uintptr_t word_at(const void* frame,
                                                                         std::ptrdiff_t offset) {
  return *reinterpret_cast<const std::uintptr_t*>(static_cast<const char*>(frame) + offset);
}

}  // namespace

const char* library_name(Library library) {
  static constexpr std::array<const char*, kLibraries> kNames{"",      "cuBLAS",   "cuBLASLt",
                                                              "cuDNN", "cuSOLVER", "cuSPARSE"};
  return kNames[static_cast<std::size_t>(library)];
}

// The return addresses outside the callback's frame.
class LibraryWorkspaces::Walk {
 public:
  static constexpr std::size_t kMostFrames = 48;

  explicit Walk(const void* frame) : frame_(frame) { ::_Unwind_Backtrace(&note, this); }

  std::size_t count() const { return count_; }
  std::uintptr_t address(std::size_t at) const { return addresses_[at]; }
  const std::uintptr_t* addresses_from(std::size_t at) const { return addresses_.data() + at; }
  // The position of a return address on the stack, in bytes from the frame; 0: unknown.
  std::ptrdiff_t offset(std::size_t at) const { return offsets_[at]; }

  // The index of the allocator's caller, or count() if there is none.
  std::size_t find_caller(const Range& own, const Range& allocator) {
    std::size_t at = 0;
    while (at < count_ && own.has(addresses_[at]) && !allocator.has(addresses_[at])) ++at;
    const std::size_t first = at;
    while (at < count_ && allocator.has(addresses_[at])) ++at;
    return caller = at == first ? count_ : at;
  }
  std::size_t caller = 0;

 private:
  static _Unwind_Reason_Code note(_Unwind_Context* context, void* data) {
    auto& walk = *static_cast<Walk*>(data);
    const std::uintptr_t address = ::_Unwind_GetIP(context);
    const auto stack = static_cast<std::uintptr_t>(::_Unwind_GetCFA(context));
    const std::uintptr_t inner = std::exchange(walk.stack_, stack);
    const auto frame = reinterpret_cast<std::uintptr_t>(walk.frame_);
    if (stack <= frame || address == 0) return _URC_NO_REASON;
    walk.addresses_[walk.count_] = address;
    walk.offsets_[walk.count_] = walk.find(address, std::max(inner, frame), stack);
    return ++walk.count_ == kMostFrames ? _URC_END_OF_STACK : _URC_NO_REASON;
  }
  // Searches the frame of the called function, [inner, outer), for a return address.
  std::ptrdiff_t find(std::uintptr_t address, std::uintptr_t inner, std::uintptr_t outer) const {
    const auto frame = reinterpret_cast<std::uintptr_t>(frame_);
#if defined(__x86_64__)
    inner = outer - sizeof(address);
#endif
    for (std::uintptr_t at = inner; at + sizeof(address) <= outer; at += sizeof(address)) {
      const auto offset = static_cast<std::ptrdiff_t>(at - frame);
      if (word_at(frame_, offset) == address) return offset;
    }
    return 0;
  }

  const void* frame_;
  std::uintptr_t stack_ = 0;
  std::array<std::uintptr_t, kMostFrames> addresses_{};
  std::array<std::ptrdiff_t, kMostFrames> offsets_{};
  std::size_t count_ = 0;
};

void LibraryWorkspaces::begin(const void* allocator) noexcept {
  const std::lock_guard lock(mutex_);
  const Module code = module_of(reinterpret_cast<std::uintptr_t>(allocator));
  const Module own = module_of(reinterpret_cast<std::uintptr_t>(&library_name));
  allocator_ = {.begin = code.begin, .end = code.end};
  own_ = {.begin = own.begin, .end = own.end};
}

Library LibraryWorkspaces::of_caller(const void* frame) noexcept {
  const std::size_t count = layout_count_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    const Layout& layout = layouts_[i];
    std::size_t same = 0;
    while (same < layout.count && word_at(frame, layout.offsets[same]) == layout.addresses[same]) {
      ++same;
    }
    if (same < layout.count) continue;
    if (const Place* place = find(word_at(frame, layout.caller))) return place->library;
  }
  return walks() < kMostPlaces ? walk(frame) : Library::kNone;
}

Library LibraryWorkspaces::walk(const void* frame) noexcept {
  const std::lock_guard lock(mutex_);
  walks_.fetch_add(1, std::memory_order_relaxed);
  Walk walk(frame);
  const std::size_t caller = walk.find_caller(own_, allocator_);
  if (caller == walk.count()) return Library::kNone;
  const Place* known = find(walk.address(caller));
  const Library library = known != nullptr
                              ? known->library
                              : library_of(walk.addresses_from(caller), walk.count() - caller);
  if (known == nullptr) add_place(walk.address(caller), library);
  add_layout(walk);
  return library;
}

void LibraryWorkspaces::add_layout(const Walk& walk) {
  Layout layout;
  if (walk.caller >= Layout::kMostFrames || walk.offset(walk.caller) == 0) return;
  for (; layout.count < walk.caller; ++layout.count) {
    layout.addresses[layout.count] = walk.address(layout.count);
    layout.offsets[layout.count] = walk.offset(layout.count);
    if (walk.offset(layout.count) == 0) return;
  }
  layout.caller = walk.offset(walk.caller);
  const std::size_t count = layout_count_.load(std::memory_order_relaxed);
  const bool is_known =
      std::any_of(layouts_.begin(), layouts_.begin() + static_cast<std::ptrdiff_t>(count),
                  [&](const Layout& each) {
                    return each.count == layout.count && each.caller == layout.caller &&
                           each.addresses == layout.addresses && each.offsets == layout.offsets;
                  });
  if (is_known || count == layouts_.size()) return;
  layouts_[count] = layout;
  layout_count_.store(count + 1, std::memory_order_release);  // pairs with of_caller()
}

const LibraryWorkspaces::Place* LibraryWorkspaces::find(std::uintptr_t address) const noexcept {
  if (address == 0) return nullptr;
  for (std::size_t at = (address >> 2U) * 0x9E3779B97F4A7C15U >> 53U;; ++at) {
    const Place& place = places_[at % places_.size()];
    const std::uintptr_t known = place.address.load(std::memory_order_acquire);  // with add_place()
    if (known == address) return &place;
    if (known == 0) return nullptr;
  }
}

void LibraryWorkspaces::add_place(std::uintptr_t address, Library library) {
  if (place_count_ == kMostPlaces) return;
  ++place_count_;
  std::size_t at = (address >> 2U) * 0x9E3779B97F4A7C15U >> 53U;
  while (places_[at % places_.size()].address.load(std::memory_order_relaxed) != 0) ++at;
  Place& place = places_[at % places_.size()];
  place.library = library;
  place.address.store(address, std::memory_order_release);  // pairs with find()
}

LibraryWorkspaces& library_workspaces() {
  static auto* workspaces = new LibraryWorkspaces;  // threads may allocate until the end
  return *workspaces;
}

}  // namespace plimsoll::libtorch_cuda
