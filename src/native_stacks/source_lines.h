// Names the code at an address of this process: function, file and line, with one frame for each
// inlined call. The lines come from the DWARF data of the program or shared library, function names
// also from its symbol table. Reading them takes milliseconds, so hooks never do it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace plimsoll::native_stacks {

struct CodeFrame {
  std::string file;         // the source file, or the object if there is no line
  std::string function;     // demangled, or "+0x12ab": the offset in an object without names
  std::string object;       // the file name of the program or shared library
  std::string linker_name;  // as in the symbol table; empty if unknown
  std::uint32_t line = 0;   // 0: unknown
};

// Not thread-safe. Keeps what it has read for the life of the process.
class SourceLines {
 public:
  SourceLines() noexcept;
  ~SourceLines();
  SourceLines(const SourceLines&) = delete;
  SourceLines& operator=(const SourceLines&) = delete;

  // The file name of the program or shared library, which is not read; empty if it was unloaded.
  std::string object_at(std::uintptr_t address);

  // Innermost first; never empty. The last one is the function that contains the inlined calls.
  std::vector<CodeFrame> frames_at(std::uintptr_t address);

 private:
  struct Object;
  Object* find_object(std::uintptr_t address);

  std::vector<std::unique_ptr<Object>> objects_;
};

}  // namespace plimsoll::native_stacks
