// The program and the shared libraries of this process, as copies: the memory of a library can be
// unmapped as soon as the loader's lock is released.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace plimsoll::native_stacks {

struct LoadedNote {
  std::uint64_t file_offset = 0;
  std::vector<std::byte> bytes;

  bool operator==(const LoadedNote&) const = default;
};

struct LoadedObject {
  std::uintptr_t base = 0;  // where it was loaded first
  std::string path;         // as the loader names it; empty for the program
  std::vector<ElfW(Phdr)> segments;
  std::vector<LoadedNote> notes;
  std::vector<std::uint64_t> file_version;  // of a library without a build id
  std::uint32_t number = 0;
  bool is_library = false;  // of torch or below it

  bool is_program() const noexcept { return path.empty(); }
  // Whether no other code of the user can be at its addresses later.
  bool is_lasting() const noexcept { return is_program() || is_library; }
};

// Code of an object that is loaded again at another address has its first address, so that it is
// read only once.
struct CodeAddress {
  const LoadedObject* object = nullptr;  // null: code of no program or library
  std::uintptr_t address = 0;

  bool operator==(const CodeAddress&) const = default;
};

// Not thread-safe. The objects that it returns neither move nor change, and exist for the life of
// the process, even after they are unloaded.
class LoadedObjects {
 public:
  // The number of objects that have been unloaded.
  static std::uint64_t unloads() noexcept;

  // Reads the list of objects if it has changed.
  void refresh();
  // The code that was at this address at the last refresh().
  CodeAddress at(std::uintptr_t address) const noexcept;
  std::uint64_t unloads_at_refresh() const noexcept { return version_.unloads; }

  struct Version {
    std::uint64_t loads = 0;
    std::uint64_t unloads = 0;
    bool operator==(const Version&) const = default;
  };

 private:
  struct Range {
    std::uintptr_t begin;
    std::uintptr_t end;
    const LoadedObject* object;
    std::uintptr_t base;  // now
  };
  const LoadedObject& known(LoadedObject&& found);

  Version version_;
  std::vector<std::unique_ptr<const LoadedObject>> objects_;  // including those that are unloaded
  std::vector<Range> ranges_;                                 // of the loaded ones, ascending
};

}  // namespace plimsoll::native_stacks
