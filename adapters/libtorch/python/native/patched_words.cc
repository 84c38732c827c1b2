#include "python/native/patched_words.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

namespace plimsoll::libtorch {
namespace {

// The protection of the page with this address; -1: unknown.
int protection_at(std::uintptr_t address) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "re"),
                                                             std::fclose);
  char line[512];
  while (maps != nullptr && std::fgets(line, sizeof(line), maps.get()) != nullptr) {
    unsigned long begin = 0, end = 0;
    char mode[5] = "";
    if (std::sscanf(line, "%lx-%lx %4s", &begin, &end, mode) != 3) continue;
    if (address < begin || address >= end) continue;
    return (mode[0] == 'r' ? PROT_READ : 0) | (mode[1] == 'w' ? PROT_WRITE : 0) |
           (mode[2] == 'x' ? PROT_EXEC : 0);
  }
  return -1;
}

bool write(void** place, void* value) {
  const auto address = reinterpret_cast<std::uintptr_t>(place);
  const auto size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  void* const page = reinterpret_cast<void*>(address & ~(size - 1));
  const int protection = protection_at(address);
  if (protection < 0) return false;
  const bool is_writable = (protection & PROT_WRITE) != 0;
  if (!is_writable && mprotect(page, size, protection | PROT_WRITE) != 0) return false;
  __atomic_store_n(place, value, __ATOMIC_RELEASE);
  if (!is_writable) mprotect(page, size, protection);
  return true;
}

struct ImportSearch {
  std::string_view symbol;
  std::vector<void**> places;
};

int find_imports(dl_phdr_info* info, std::size_t /*size*/, void* user) {
  ImportSearch& search = *static_cast<ImportSearch*>(user);
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_DYNAMIC) continue;
    dynamic = reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + header.p_vaddr);
  }
  // Of the kernel's own library, the dynamic section holds no addresses.
  if (dynamic == nullptr || info->dlpi_name[0] != '/') return 0;
  const ElfW(Sym)* symbols = nullptr;
  const char* strings = nullptr;
  const ElfW(Rela) * tables[2] = {};
  std::size_t bytes[2] = {};
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    const auto value = dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(value);
    if (dynamic->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(value);
    if (dynamic->d_tag == DT_JMPREL) tables[0] = reinterpret_cast<const ElfW(Rela)*>(value);
    if (dynamic->d_tag == DT_PLTRELSZ) bytes[0] = value;
    if (dynamic->d_tag == DT_RELA) tables[1] = reinterpret_cast<const ElfW(Rela)*>(value);
    if (dynamic->d_tag == DT_RELASZ) bytes[1] = value;
  }
  if (symbols == nullptr || strings == nullptr) return 0;
  for (int table = 0; table < 2; ++table) {
    for (std::size_t i = 0; i < bytes[table] / sizeof(ElfW(Rela)); ++i) {
      const ElfW(Rela)& each = tables[table][i];
      const auto type = ELF64_R_TYPE(each.r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
      if (search.symbol != strings + symbols[ELF64_R_SYM(each.r_info)].st_name) continue;
      search.places.push_back(reinterpret_cast<void**>(info->dlpi_addr + each.r_offset));
    }
  }
  return 0;
}

// The library that contains the address, which stays loaded until it is closed; null if unknown.
void* open_library_of(void** place) {
  Dl_info info{};
  if (dladdr(place, &info) == 0 || info.dli_fname == nullptr) return nullptr;
  return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

}  // namespace

bool PatchedWords::replace(void** place, void* ours) {
  void* const library = open_library_of(place);
  if (library == nullptr) return false;
  words_.push_back({.place = place, .original = *place, .ours = ours, .library = library});
  if (write(place, ours)) return true;
  words_.pop_back();
  dlclose(library);
  return false;
}

int PatchedWords::replace_imports(const char* symbol, void* ours) {
  ImportSearch search{.symbol = symbol, .places = {}};
  dl_iterate_phdr(find_imports, &search);
  int count = 0;
  for (void** place : search.places) count += replace(place, ours) ? 1 : 0;
  return count;
}

void PatchedWords::restore() noexcept {
  for (const Word& word : words_) {
    if (__atomic_load_n(word.place, __ATOMIC_ACQUIRE) == word.ours) {
      write(word.place, word.original);
    }
    dlclose(word.library);
  }
  words_.clear();
}

}  // namespace plimsoll::libtorch
