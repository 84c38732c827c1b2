// The file of a program or shared library, read with bounds checks: it may be damaged, or not be
// the file that was loaded.
#pragma once

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "native_stacks/loaded_objects.h"

namespace plimsoll::native_stacks {

class ObjectFile {
 public:
  explicit ObjectFile(const std::string& path);
  ~ObjectFile();
  ObjectFile(const ObjectFile&) = delete;
  ObjectFile& operator=(const ObjectFile&) = delete;

  // Whether a limit of open files or a lack of memory kept the file from being opened.
  bool is_out_of_resources() const noexcept { return is_out_of_resources_; }

  // Whether the file is complete and still the one that was loaded: the linker's table of segments
  // and the build id are the same.
  bool is_file_of(const LoadedObject& loaded) const;

  // The linker name of the function at this offset from the object's base; empty if unknown.
  std::string function_at(std::uint64_t offset) const;

  struct Variable {
    std::uint64_t offset = 0;  // from the object's base, or in the memory of each thread
    std::uint64_t size_bytes = 0;
    bool is_of_thread = false;
    std::string linker_name;
  };
  std::vector<Variable> variables() const;

 private:
  bool contains(std::uint64_t offset, std::uint64_t size_bytes) const;
  bool read(std::uint64_t offset, std::span<std::byte> to) const;
  bool has_same_bytes(std::uint64_t offset, std::span<const std::byte> memory) const;
  std::vector<ElfW(Shdr)> sections() const;  // empty unless all of them lie within the file

  int file_ = -1;
  std::uint64_t size_bytes_ = 0;
  bool is_out_of_resources_ = false;
};

}  // namespace plimsoll::native_stacks
