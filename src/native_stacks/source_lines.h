// Names the code at an address of this process: function, file and line, with one frame for each
// inlined call. The lines come from the DWARF data of the program or shared library, function names
// also from its symbol table. Reading them takes milliseconds, so hooks never do it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "native_stacks/loaded_objects.h"

namespace plimsoll::native_stacks {

struct CodeFrame {
  std::string file;         // the source file, or the object if there is no line
  std::string function;     // demangled, or "+0x12ab": the offset in an object without names
  std::string linker_name;  // as in the symbol table; empty if unknown
  std::uint32_t line = 0;   // 0: unknown
};

// Without anonymous namespaces; the name itself if it is no linker name.
std::string demangled(const std::string& name);

// Not thread-safe. Keeps what it has read for the life of the process. The object need not be
// loaded any more: only its file is read.
class SourceLines {
 public:
  SourceLines() noexcept;
  ~SourceLines();
  SourceLines(const SourceLines&) = delete;
  SourceLines& operator=(const SourceLines&) = delete;

  // Innermost first; never empty. The last one is the function that contains the inlined calls.
  // Empty optional: a limit of the process was reached; try later.
  std::optional<std::vector<CodeFrame>> frames_at(const LoadedObject& object,
                                                  std::uintptr_t address);

  // Without lines and inlined calls. Needs no other process.
  CodeFrame function_at(const LoadedObject& object, std::uintptr_t address);

 private:
  struct Object;
  Object& object_of(const LoadedObject& loaded, std::uintptr_t address);

  std::unordered_map<const LoadedObject*, std::unique_ptr<Object>> objects_;
};

}  // namespace plimsoll::native_stacks
