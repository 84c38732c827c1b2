#include "native_stacks/object_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace plimsoll::native_stacks {

ObjectFile::ObjectFile(const std::string& path)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status{};
  if (file_ < 0) {
    is_out_of_resources_ = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
  } else if (::fstat(file_, &status) == 0 && S_ISREG(status.st_mode)) {
    size_bytes_ = static_cast<std::uint64_t>(status.st_size);
  }
}

ObjectFile::~ObjectFile() {
  if (file_ >= 0) ::close(file_);
}

bool ObjectFile::contains(std::uint64_t offset, std::uint64_t size_bytes) const {
  return size_bytes <= size_bytes_ && offset <= size_bytes_ - size_bytes;
}

bool ObjectFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  return contains(offset, to.size()) &&
         ::pread(file_, to.data(), to.size(), static_cast<off_t>(offset)) ==
             static_cast<ssize_t>(to.size());
}

bool ObjectFile::has_same_bytes(std::uint64_t offset, std::span<const std::byte> memory) const {
  std::vector<std::byte> bytes(memory.size());
  return read(offset, bytes) && std::ranges::equal(bytes, memory);
}

// libbacktrace maps each section, and reading a page beyond the end of the file would end the
// program.
std::vector<ElfW(Shdr)> ObjectFile::sections() const {
  ElfW(Ehdr) header{};
  if (!read(0, std::as_writable_bytes(std::span(&header, 1)))) return {};
  if (header.e_shentsize != sizeof(ElfW(Shdr))) return {};
  std::vector<ElfW(Shdr)> sections(header.e_shnum);
  if (!read(header.e_shoff, std::as_writable_bytes(std::span(sections)))) return {};
  for (const ElfW(Shdr) & section : sections) {
    if (section.sh_type != SHT_NOBITS && !contains(section.sh_offset, section.sh_size)) return {};
  }
  return sections;
}

bool ObjectFile::is_file_of(const LoadedObject& loaded) const {
  ElfW(Ehdr) header{};
  if (!read(0, std::as_writable_bytes(std::span(&header, 1)))) return false;
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32) &&
         header.e_phnum == loaded.segments.size() && header.e_phentsize == sizeof(ElfW(Phdr)) &&
         has_same_bytes(header.e_phoff, std::as_bytes(std::span(loaded.segments))) &&
         std::ranges::all_of(loaded.notes,
                             [&](const LoadedNote& note) {
                               return has_same_bytes(note.file_offset, note.bytes);
                             }) &&
         !sections().empty();
}

std::string ObjectFile::function_at(std::uint64_t offset) const {
  const std::vector<ElfW(Shdr)> tables = sections();
  for (const ElfW(Word) type : {ElfW(Word){SHT_SYMTAB}, ElfW(Word){SHT_DYNSYM}}) {
    const auto table = std::ranges::find(tables, type, &ElfW(Shdr)::sh_type);
    if (table == tables.end() || table->sh_link >= tables.size()) continue;
    std::vector<ElfW(Sym)> symbols(table->sh_size / sizeof(ElfW(Sym)));
    if (!read(table->sh_offset, std::as_writable_bytes(std::span(symbols)))) continue;
    const auto symbol = std::ranges::find_if(symbols, [&](const ElfW(Sym) & each) {
      return ELF64_ST_TYPE(each.st_info) == STT_FUNC && each.st_shndx != SHN_UNDEF &&
             offset - each.st_value < each.st_size;
    });
    const ElfW(Shdr)& names = tables[table->sh_link];
    if (symbol == symbols.end() || symbol->st_name >= names.sh_size) continue;
    std::array<char, 4096> name{};
    const std::span used(name.data(),
                         std::min<std::uint64_t>(name.size(), names.sh_size - symbol->st_name));
    if (!read(names.sh_offset + symbol->st_name, std::as_writable_bytes(used))) continue;
    return {name.data(), ::strnlen(name.data(), used.size())};
  }
  return {};
}

std::vector<ObjectFile::Variable> ObjectFile::variables() const {
  const std::vector<ElfW(Shdr)> tables = sections();
  for (const ElfW(Word) type : {ElfW(Word){SHT_SYMTAB}, ElfW(Word){SHT_DYNSYM}}) {
    const auto table = std::ranges::find(tables, type, &ElfW(Shdr)::sh_type);
    if (table == tables.end() || table->sh_link >= tables.size()) continue;
    std::vector<ElfW(Sym)> symbols(table->sh_size / sizeof(ElfW(Sym)));
    std::vector<char> names(tables[table->sh_link].sh_size);
    if (!read(table->sh_offset, std::as_writable_bytes(std::span(symbols)))) continue;
    if (!read(tables[table->sh_link].sh_offset, std::as_writable_bytes(std::span(names)))) continue;
    std::vector<Variable> found;
    for (const ElfW(Sym) & each : symbols) {
      const bool is_of_thread = ELF64_ST_TYPE(each.st_info) == STT_TLS;
      if (!is_of_thread && ELF64_ST_TYPE(each.st_info) != STT_OBJECT) continue;
      if (each.st_shndx == SHN_UNDEF || each.st_name >= names.size()) continue;
      const char* const name = names.data() + each.st_name;
      found.push_back({each.st_value,
                       each.st_size,
                       is_of_thread,
                       {name, ::strnlen(name, names.size() - each.st_name)}});
    }
    return found;
  }
  return {};
}

}  // namespace plimsoll::native_stacks
