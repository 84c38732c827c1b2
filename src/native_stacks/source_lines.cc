#include "native_stacks/source_lines.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "native_stacks/backtrace.h"
#include "native_stacks/guarded_call.h"

namespace plimsoll::native_stacks {

// A program or shared library in this process.
struct Loaded {
  std::uintptr_t base = 0;
  std::span<const ElfW(Phdr)> segments;
  std::string path;
};

namespace {

// ---- the file of a loaded object ----------------------------------------------------------------

struct LoadedAt {
  std::uintptr_t address;
  Loaded found;
  bool is_found = false;
};

bool has_code_at(const dl_phdr_info& info, std::uintptr_t address) {
  for (const ElfW(Phdr) & segment : std::span(info.dlpi_phdr, info.dlpi_phnum)) {
    const std::uintptr_t begin = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address - begin < segment.p_memsz) return true;
  }
  return false;
}

int find_loaded(dl_phdr_info* info, std::size_t /*size*/, void* to) {
  LoadedAt& place = *static_cast<LoadedAt*>(to);
  if (!has_code_at(*info, place.address)) return 0;
  const std::string_view name = info->dlpi_name;
  place.found = {.base = info->dlpi_addr,
                 .segments = {info->dlpi_phdr, info->dlpi_phnum},
                 .path = std::string(name.empty() ? "/proc/self/exe" : name)};
  place.is_found = true;
  return 1;
}

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status{};
    if (file_ >= 0 && ::fstat(file_, &status) == 0 && S_ISREG(status.st_mode)) {
      size_bytes_ = static_cast<std::uint64_t>(status.st_size);
    }
  }
  ~OpenFile() {
    if (file_ >= 0) ::close(file_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  bool contains(std::uint64_t offset, std::uint64_t size_bytes) const {
    return size_bytes <= size_bytes_ && offset <= size_bytes_ - size_bytes;
  }
  bool read(std::uint64_t offset, std::span<std::byte> to) const {
    return contains(offset, to.size()) &&
           ::pread(file_, to.data(), to.size(), static_cast<off_t>(offset)) ==
               static_cast<ssize_t>(to.size());
  }
  bool has_same_bytes(std::uint64_t offset, std::span<const std::byte> memory) const {
    std::vector<std::byte> bytes(memory.size());
    return read(offset, bytes) && std::memcmp(bytes.data(), memory.data(), bytes.size()) == 0;
  }

 private:
  int file_;
  std::uint64_t size_bytes_ = 0;
};

// The library maps each section, and reading a page beyond the end of the file would end the
// program.
bool has_all_sections(const OpenFile& file, const ElfW(Ehdr) & header) {
  if (header.e_shnum == 0 || header.e_shentsize != sizeof(ElfW(Shdr))) return false;
  std::vector<ElfW(Shdr)> sections(header.e_shnum);
  if (!file.read(header.e_shoff, std::as_writable_bytes(std::span(sections)))) return false;
  for (const ElfW(Shdr) & section : sections) {
    if (section.sh_type != SHT_NOBITS && !file.contains(section.sh_offset, section.sh_size)) {
      return false;
    }
  }
  return true;
}

// Whether the file is complete and still the one that was loaded: the linker's table of segments
// and the build id are the same.
bool is_file_of(const Loaded& loaded) {
  constexpr std::size_t kMostNoteBytes = 4096;
  const OpenFile file(loaded.path);
  ElfW(Ehdr) header{};
  if (!file.read(0, std::as_writable_bytes(std::span(&header, 1)))) return false;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32) ||
      header.e_phnum != loaded.segments.size() || header.e_phentsize != sizeof(ElfW(Phdr)) ||
      !file.has_same_bytes(header.e_phoff, std::as_bytes(loaded.segments))) {
    return false;
  }
  for (const ElfW(Phdr) & segment : loaded.segments) {
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMostNoteBytes) continue;
    const auto* note = reinterpret_cast<const std::byte*>(loaded.base + segment.p_vaddr);
    if (!file.has_same_bytes(segment.p_offset, {note, segment.p_filesz})) return false;
  }
  return has_all_sections(file, header);
}

std::string name_of_object(const std::string& path) {
  std::error_code error;
  const std::filesystem::path file = path == "/proc/self/exe"
                                         ? std::filesystem::read_symlink(path, error)
                                         : std::filesystem::path(path);
  return error ? path : file.filename().string();
}

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

// ---- libbacktrace -------------------------------------------------------------------------------

// The object that the next new state reads.
const Loaded* g_next_object = nullptr;

struct ReportedFrame {
  std::string_view file;
  int line;
  std::string_view function;
};

// A question to libbacktrace, and its answer. A damaged file can make it divide by zero, loop
// forever or return unterminated strings, so it runs in call_guarded() and its answer is copied.
struct Question {
  const Loaded& object;
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
    question.state = backtrace_create_state(question.object.path.c_str(), 0, ignore_error, nullptr);
  }
  backtrace_pcinfo(question.state, question.address, note_frame, ignore_error, &question);
  backtrace_syminfo(question.state, question.address, note_symbol, ignore_error, &question);
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
  Loaded loaded;
  std::string name;
  backtrace_state* state = nullptr;
  bool is_readable = true;  // as far as known: the file is there and undamaged

  std::vector<CodeFrame> read(std::uintptr_t address) {
    const auto question = std::make_unique<Question>(loaded, address, state);
    if (state == nullptr) is_readable = is_readable && is_file_of(loaded);
    if (is_readable) is_readable = call_guarded(ask, question.get()) && question->state != nullptr;
    if (!is_readable) return std::vector<CodeFrame>(1);
    state = question->state;
    return reported_frames(*question);
  }
};

SourceLines::SourceLines() noexcept = default;
SourceLines::~SourceLines() = default;

// Another library may have been loaded at the address of an unloaded one.
SourceLines::Object* SourceLines::find_object(std::uintptr_t address) {
  LoadedAt place{.address = address, .found = {}};
  ::dl_iterate_phdr(find_loaded, &place);
  if (!place.is_found) return nullptr;
  for (const auto& object : objects_) {
    if (object->loaded.base == place.found.base && object->loaded.path == place.found.path) {
      return object.get();
    }
  }
  auto made = std::make_unique<Object>();
  made->name = name_of_object(place.found.path);
  made->loaded = std::move(place.found);
  return objects_.emplace_back(std::move(made)).get();
}

std::string SourceLines::object_at(std::uintptr_t address) {
  const Object* const object = find_object(address);
  return object != nullptr ? object->name : std::string();
}

std::vector<CodeFrame> SourceLines::frames_at(std::uintptr_t address) {
  Object* const object = find_object(address);
  if (object == nullptr)
    return {{.file = "[unloaded code]", .function = "?", .object = "", .linker_name = ""}};
  std::vector<CodeFrame> frames = object->read(address);
  for (CodeFrame& frame : frames) {
    frame.function = demangled(frame.linker_name);
    frame.object = object->name;
    if (frame.line == 0) frame.file = object->name;
  }
  if (frames.back().function.empty()) {
    std::array<char, 24> offset{};
    std::snprintf(offset.data(), offset.size(), "+0x%zx",
                  static_cast<std::size_t>(address - object->loaded.base));
    frames.back().function = offset.data();
  }
  return frames;
}

}  // namespace plimsoll::native_stacks
