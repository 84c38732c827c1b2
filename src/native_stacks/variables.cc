// The static variables of the program and its libraries, by name.
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "native_stacks/library_code.h"
#include "native_stacks/loaded_objects.h"
#include "native_stacks/object_file.h"
#include "native_stacks/seccomp_filters.h"
#include "native_stacks/source_lines.h"
#include "plimsoll/native_stacks_c.h"
#include "record/recorder.h"

namespace plimsoll::native_stacks {
namespace {

struct Memory {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

// What is loaded at a base now.
struct Loaded {
  std::uintptr_t base = 0;
  Memory first;                // a segment of it
  std::vector<Memory> memory;  // that it can write to
  Memory of_thread;            // the calling thread's copy of its thread-local variables
};

int add_loaded(dl_phdr_info* info, std::size_t /*size*/, void* to) try {
  Loaded loaded;
  loaded.base = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    const Memory memory{info->dlpi_addr + segment.p_vaddr,
                        info->dlpi_addr + segment.p_vaddr + segment.p_memsz};
    if (segment.p_type == PT_TLS && info->dlpi_tls_data != nullptr) {
      const auto begin = reinterpret_cast<std::uintptr_t>(info->dlpi_tls_data);
      loaded.of_thread = {begin, begin + segment.p_memsz};
    }
    if (segment.p_type != PT_LOAD) continue;
    if (loaded.first.end == 0) loaded.first = memory;
    if ((segment.p_flags & PF_W) != 0) loaded.memory.push_back(memory);
  }
  static_cast<std::vector<Loaded>*>(to)->push_back(std::move(loaded));
  return 0;
} catch (const std::exception&) {
  return 1;
}

// "train(int)::kept" -> "train()::kept".
std::string without_arguments(std::string_view name) {
  std::string text;
  int depth = 0;
  for (const char c : name) {
    if (c == ')') --depth;
    if (depth == 0) text += c;
    if (c == '(') ++depth;
  }
  return text;
}

class Visit {
 public:
  Visit(void (*visit)(void*, const plimsoll_variable*), void* user) : visit_(visit), user_(user) {}

  void object(const LoadedObject& object, const Loaded& loaded) {
    file_ = object.path.substr(object.path.rfind('/') + 1);
    std::vector<ObjectFile::Variable> variables;
    if (!object.is_library && !has_added_seccomp_filter()) {
      const ObjectFile file(object.is_program() ? "/proc/self/exe" : object.path);
      if (file.is_file_of(object)) variables = file.variables();
    }
    for (const Memory& memory : loaded.memory) report(variables, memory, loaded.base, false);
    report(variables, loaded.of_thread, loaded.of_thread.begin, true);
  }

 private:
  // All of the memory: what is between the variables has no name.
  void report(std::vector<ObjectFile::Variable>& variables, const Memory& memory,
              std::uintptr_t base, bool is_of_thread) {
    std::ranges::sort(variables, {}, &ObjectFile::Variable::offset);
    std::uintptr_t at = memory.begin;
    for (const ObjectFile::Variable& each : variables) {
      const std::uintptr_t begin = base + each.offset, end = begin + each.size_bytes;
      if (each.is_of_thread != is_of_thread || begin < at || end > memory.end) continue;
      report(at, begin, nullptr);
      at = end;
      CodeFrame frame;
      frame.linker_name = each.linker_name;
      const bool is_own = is_plimsoll(frame);
      report(begin, end, is_own ? "" : without_arguments(demangled(each.linker_name)).c_str());
    }
    report(at, memory.end, nullptr);
  }
  void report(std::uintptr_t begin, std::uintptr_t end, const char* name) const {
    const plimsoll_variable variable{begin, end, name, file_.c_str()};
    if (begin < end) visit_(user_, &variable);
  }

  void (*visit_)(void*, const plimsoll_variable*);
  void* user_;
  std::string file_;
};

}  // namespace
}  // namespace plimsoll::native_stacks

extern "C" void plimsoll_variables(void (*visit)(void* user, const plimsoll_variable* variable),
                                   void* user) try {
  using namespace plimsoll::native_stacks;
  std::vector<Loaded> all;
  ::dl_iterate_phdr(add_loaded, &all);
  LoadedObjects objects;
  objects.refresh();
  plimsoll::record::Recorder::get().visit_pages([&](const void* pages, std::size_t size_bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(pages);
    const plimsoll_variable own{begin, begin + size_bytes, "", ""};
    visit(user, &own);
  });
  for (const Loaded& loaded : all) {
    const CodeAddress found = objects.at(loaded.first.begin);
    if (found.object != nullptr) Visit(visit, user).object(*found.object, loaded);
  }
} catch (...) {
  return;
}
