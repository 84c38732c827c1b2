#include "native_stacks/source_lines.h"

#include <cxxabi.h>
#include <errno.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "native_stacks/backtrace.h"
#include "native_stacks/guarded_call.h"
#include "native_stacks/object_file.h"
#include "native_stacks/seccomp_filters.h"

namespace plimsoll::native_stacks {

struct NamedFile {
  std::string path;
  std::string name;
};

namespace {

// ---- the file of an object ----------------------------------------------------------------------

// The file that is mapped at this address.
std::string mapped_file(std::uintptr_t address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    int path_at = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx %*s %*s %*s %*s %n", &begin, &end, &path_at) == 2 &&
        address >= begin && address < end) {
      return line.substr(static_cast<std::size_t>(path_at));
    }
  }
  return {};
}

// Under a filter of the program, its files are neither opened nor looked up. The loader has no name
// for the program. If the loader was started with the program as its
// argument, /proc/self/exe is the loader; otherwise it can be opened even if it was deleted.
NamedFile file_of(const LoadedObject& loaded, std::uintptr_t address) {
  constexpr const char* kExecutable = "/proc/self/exe";
  constexpr std::string_view kDeleted = " (deleted)";
  namespace fs = std::filesystem;
  if (!loaded.is_program()) return {loaded.path, fs::path(loaded.path).filename().string()};
  if (has_added_seccomp_filter()) return {kExecutable, ::program_invocation_short_name};
  std::error_code error;
  const std::string executable = fs::read_symlink(kExecutable, error).string();
  std::string path = mapped_file(address);
  if (path.empty()) path = executable;
  const bool is_executable = path == executable;
  if (path.ends_with(kDeleted) && !fs::exists(path, error)) {
    path.resize(path.size() - kDeleted.size());
  }
  return {is_executable ? kExecutable : path, fs::path(path).filename().string()};
}

// ---- libbacktrace -------------------------------------------------------------------------------

// The object that the next new state reads.
const LoadedObject* g_next_object = nullptr;

struct ReportedFrame {
  std::string_view file;
  int line;
  std::string_view function;
};

// A question to libbacktrace, and its answer. A damaged file can make it divide by zero, loop
// forever or return unterminated strings, so it runs in call_guarded() and its answer is copied.
struct Question {
  const LoadedObject& object;
  const char* path;
  std::uintptr_t address;
  backtrace_state* state;
  std::array<ReportedFrame, 64> frames{};
  std::size_t count = 0;
  std::string_view symbol;
  std::array<char, 1u << 16> texts;
  std::size_t used = 0;

  std::string_view copy(const char* text) {
    if (text == nullptr) return {};
    const std::size_t size = ::strnlen(text, texts.size() - used);
    const std::string_view copied(texts.data() + used, size);
    std::memcpy(texts.data() + used, text, size);
    used += size;
    return copied;
  }
};

void ignore_error(void* /*data*/, const char* /*message*/, int /*error*/) {}

int note_frame(void* to, std::uintptr_t /*pc*/, const char* file, int line, const char* function) {
  Question& question = *static_cast<Question*>(to);
  if (file == nullptr && function == nullptr) return 0;
  if (question.count == question.frames.size()) return 1;
  question.frames[question.count++] = {question.copy(file), line, question.copy(function)};
  return 0;
}

void note_symbol(void* to, std::uintptr_t /*pc*/, const char* symbol, std::uintptr_t /*value*/,
                 std::uintptr_t /*size*/) {
  Question& question = *static_cast<Question*>(to);
  question.symbol = question.copy(symbol);
}

void ask(void* to) noexcept {
  Question& question = *static_cast<Question*>(to);
  g_next_object = &question.object;
  if (question.state == nullptr) {
    question.state = backtrace_create_state(question.path, 0, ignore_error, nullptr);
  }
  backtrace_pcinfo(question.state, question.address, note_frame, ignore_error, &question);
  backtrace_syminfo(question.state, question.address, note_symbol, ignore_error, &question);
}

// Adds what a frame without a name or line has instead.
void complete(CodeFrame& frame, const LoadedObject& loaded, const std::string& object,
              std::uintptr_t address) {
  if (frame.line == 0) frame.file = object;
  frame.function = demangled(frame.linker_name);
  if (!frame.function.empty()) return;
  std::array<char, 24> offset{};
  std::snprintf(offset.data(), offset.size(), "+0x%zx",
                static_cast<std::size_t>(address - loaded.base));
  frame.function = offset.data();
}

std::vector<CodeFrame> reported_frames(const Question& question) {
  std::vector<CodeFrame> frames(std::max(question.count, std::size_t{1}));
  for (std::size_t i = 0; i < question.count; ++i) {
    const ReportedFrame& reported = question.frames[i];
    frames[i].linker_name = reported.function;
    if (reported.file.empty() || reported.line <= 0) continue;
    frames[i].file = std::filesystem::path(reported.file).lexically_normal().string();
    frames[i].line = static_cast<std::uint32_t>(reported.line);
  }
  // DWARF names functions of anonymous namespaces without their namespaces.
  if (!question.symbol.empty()) frames.back().linker_name = question.symbol;
  return frames;
}

}  // namespace

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  std::string text = plain != nullptr ? plain.get() : name;
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  for (std::size_t at = 0; (at = text.find(kAnonymous, at)) != std::string::npos;) {
    text.erase(at, kAnonymous.size());
  }
  // The compiler's copies of a function for particular arguments.
  return text.substr(0, text.find(" [clone "));
}

// libbacktrace would read every loaded object, which takes seconds for torch alone. Its calls of
// dl_iterate_phdr come here instead (CMakeLists.txt), and each state gets only its own object. The
// empty name means the file that the state was made for.
extern "C" int plimsoll_backtrace_objects(int (*callback)(dl_phdr_info*, std::size_t, void*),
                                          void* data) {
  dl_phdr_info info{};
  info.dlpi_addr = g_next_object->base;
  info.dlpi_name = "";
  info.dlpi_phdr = g_next_object->segments.data();
  info.dlpi_phnum = static_cast<ElfW(Half)>(g_next_object->segments.size());
  return callback(&info, sizeof(info), data);
}

struct SourceLines::Object {
  NamedFile file;
  backtrace_state* state = nullptr;
  bool is_checked = false;  // the file is the loaded one
  bool has_lines = true;    // as far as known: the debug information is undamaged
};

SourceLines::SourceLines() noexcept = default;
SourceLines::~SourceLines() = default;

SourceLines::Object& SourceLines::object_of(const LoadedObject& loaded, std::uintptr_t address) {
  std::unique_ptr<Object>& object = objects_[&loaded];
  if (object == nullptr) object = std::make_unique<Object>(file_of(loaded, address));
  return *object;
}

std::optional<std::vector<CodeFrame>> SourceLines::frames_at(const LoadedObject& loaded,
                                                             std::uintptr_t address) {
  if (has_added_seccomp_filter()) return {{function_at(loaded, address)}};
  Object& object = object_of(loaded, address);
  if (object.has_lines && !object.is_checked) {
    const ObjectFile file(object.file.path);
    if (file.is_out_of_resources()) return std::nullopt;
    object.is_checked = file.is_file_of(loaded);
    object.has_lines = object.is_checked;
  }
  if (!object.has_lines || !can_guard_calls()) return {{function_at(loaded, address)}};
  const auto question =
      std::make_unique<Question>(loaded, object.file.path.c_str(), address, object.state);
  const CallResult result = call_guarded(ask, question.get());
  if (result == CallResult::kNotStarted) return std::nullopt;
  object.has_lines = result == CallResult::kReturned && question->state != nullptr;
  if (!object.has_lines) return {{function_at(loaded, address)}};
  object.state = question->state;
  std::vector<CodeFrame> frames = reported_frames(*question);
  for (CodeFrame& frame : frames) complete(frame, loaded, object.file.name, address);
  return frames;
}

CodeFrame SourceLines::function_at(const LoadedObject& loaded, std::uintptr_t address) {
  CodeFrame frame;
  const NamedFile& named = object_of(loaded, address).file;
  if (!has_added_seccomp_filter()) {
    const ObjectFile file(named.path);
    if (file.is_file_of(loaded)) frame.linker_name = file.function_at(address - loaded.base);
  }
  complete(frame, loaded, named.name, address);
  return frame;
}

}  // namespace plimsoll::native_stacks
