#include "native_stacks/source_lines.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "native_stacks/loaded_objects.h"
#include "tests/support/seccomp_filter.h"

namespace plimsoll::native_stacks {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

namespace fs = std::filesystem;

std::uintptr_t g_called_from = 0;

[[gnu::noinline]] void take_caller() {
  g_called_from = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)) - 1;
}

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Under another name, so that the file of a loaded library is not overwritten.
void replace(const fs::path& path, std::string_view bytes) {
  const fs::path made = path.string() + ".new";
  std::ofstream(made, std::ios::binary) << bytes;
  fs::rename(made, path);
}

// One of the libraries made from object_for_test.cc, loaded until the end of the test.
class LoadedLibrary {
 public:
  explicit LoadedLibrary(std::string_view kind) {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    path_ = fs::path(testing::TempDir()) / (std::string(test.name()) + ".so");
    replace(path_, original(kind));
  }
  ~LoadedLibrary() {
    if (library_ != nullptr) dlclose(library_);
    fs::remove(path_);
  }
  LoadedLibrary(const LoadedLibrary&) = delete;
  LoadedLibrary& operator=(const LoadedLibrary&) = delete;

  static std::string original(std::string_view kind) {
    return contents(fs::path(PLIMSOLL_TEST_OBJECTS) / ("object_" + std::string(kind) + ".so"));
  }
  const fs::path& path() const { return path_; }
  std::string name() const { return path_.filename().string(); }

  // The address from which this function calls back.
  std::uintptr_t call(const char* function) {
    if (library_ == nullptr) library_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const found = library_ != nullptr ? dlsym(library_, function) : nullptr;
    if (found == nullptr) {
      ADD_FAILURE() << dlerror();
      return 0;
    }
    reinterpret_cast<void (*)(void (*)())>(found)(take_caller);
    return g_called_from;
  }
  void unload() { dlclose(std::exchange(library_, nullptr)); }

 private:
  fs::path path_;
  void* library_ = nullptr;
};

std::vector<std::string> texts(const std::vector<CodeFrame>& frames) {
  std::vector<std::string> texts;
  for (const CodeFrame& frame : frames) {
    texts.push_back(fs::path(frame.file).filename().string() + ":" + std::to_string(frame.line) +
                    " " + frame.function);
  }
  return texts;
}

// What is known of the code at an address that is loaded now.
std::vector<CodeFrame> frames_at(std::uintptr_t address) {
  LoadedObjects loaded;
  SourceLines lines;
  loaded.refresh();
  const LoadedObject* const object = loaded.at(address).object;
  if (object == nullptr) return {};
  return lines.frames_at(*object, address).value_or(std::vector<CodeFrame>());
}

std::vector<std::string> frames_of(LoadedLibrary& object, const char* function) {
  return texts(frames_at(object.call(function)));
}

const auto kLines = ElementsAre(
    testing::AnyOf("object_for_test.cc:6 inlined", "object_for_test.cc:6 inlined(void (*)())"),
    "object_for_test.cc:18 call_inlined");

TEST(SourceLines, an_inlined_call_is_a_frame) {
  LoadedLibrary object("debug");
  EXPECT_THAT(frames_of(object, "call_inlined"), kLines);
}

TEST(SourceLines, without_debug_information_the_symbol_table_names_functions) {
  LoadedLibrary object("plain");
  EXPECT_THAT(frames_of(object, "call_inlined"), ElementsAre(object.name() + ":0 call_inlined"));
  EXPECT_THAT(frames_of(object, "call_hidden"),
              ElementsAre(object.name() + ":0 hidden(void (*)())"));
}

TEST(SourceLines, a_stripped_library_names_the_functions_that_it_exports) {
  LoadedLibrary object("stripped");
  EXPECT_THAT(frames_of(object, "call_inlined"), ElementsAre(object.name() + ":0 call_inlined"));
  EXPECT_THAT(frames_of(object, "call_hidden"), ElementsAre(StartsWith(object.name() + ":0 +0x")));
}

TEST(SourceLines, a_file_that_is_not_the_loaded_one_is_not_read) {
  const std::string whole = LoadedLibrary::original("debug");
  std::string grown = whole;
  grown.insert(whole.size() / 2, 4096, '\0');
  for (const std::string& bytes :
       {whole.substr(0, whole.size() / 2), whole.substr(0, 40), std::string(),
        LoadedLibrary::original("plain"), std::string(whole.size(), '\xff'), grown}) {
    LoadedLibrary object("debug");
    object.call("call_inlined");
    replace(object.path(), bytes);
    EXPECT_THAT(frames_of(object, "call_inlined"),
                ElementsAre(StartsWith(object.name() + ":0 +0x")));
  }
}

TEST(SourceLines, a_deleted_file_leaves_the_offset) {
  LoadedLibrary object("debug");
  object.call("call_inlined");
  fs::remove(object.path());
  EXPECT_THAT(frames_of(object, "call_inlined"), ElementsAre(StartsWith(object.name() + ":0 +0x")));
}

// The library's file stays the loaded one, but its sections of debug information are garbage. A
// zero makes libbacktrace divide by it.
TEST(SourceLines, damaged_debug_information_does_no_harm) {
  const std::string whole = LoadedLibrary::original("debug");
  for (const char garbage : {'\xff', '\0'}) {
    for (std::size_t at = whole.size() / 4; at + 64 < whole.size() - 4096; at += 127) {
      std::string damaged = whole;
      std::memset(damaged.data() + at, garbage, 24);
      LoadedLibrary object("debug");
      const std::uintptr_t address = object.call("call_inlined");
      replace(object.path(), damaged);
      EXPECT_FALSE(frames_at(address).empty());
    }
  }
}

TEST(SourceLines, a_library_that_was_unloaded_since_has_its_lines) {
  LoadedLibrary object("debug");
  LoadedObjects loaded;
  const std::uintptr_t address = object.call("call_inlined");
  loaded.refresh();
  const LoadedObject& known = *loaded.at(address).object;
  object.unload();
  SourceLines lines;
  EXPECT_THAT(texts(*lines.frames_at(known, address)), kLines);
}

// Such a file is loaded, but its note is nowhere in memory.
TEST(SourceLines, a_note_that_is_not_loaded_is_not_read) {
  std::string bytes = LoadedLibrary::original("debug");
  ElfW(Ehdr) header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  int changed = 0;
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    char* const at = bytes.data() + header.e_phoff + i * sizeof(ElfW(Phdr));
    ElfW(Phdr) segment{};
    std::memcpy(&segment, at, sizeof segment);
    if (segment.p_type != PT_NOTE) continue;
    segment.p_vaddr = 0x7000000000;
    std::memcpy(at, &segment, sizeof segment);
    ++changed;
  }
  ASSERT_GT(changed, 0);
  LoadedLibrary object("debug");
  replace(object.path(), bytes);
  EXPECT_THAT(frames_of(object, "call_inlined"), kLines);
}

TEST(SourceLines, a_library_in_the_place_of_another_is_another) {
  LoadedLibrary object("debug");
  LoadedObjects loaded;
  SourceLines lines;
  const auto call = [&] {
    const std::uintptr_t address = object.call("call_inlined");
    loaded.refresh();
    return loaded.at(address);
  };
  const CodeAddress first = call();
  const std::uint64_t unloads = LoadedObjects::unloads();
  EXPECT_THAT(texts(*lines.frames_at(*first.object, first.address)), kLines);
  object.unload();
  EXPECT_EQ(LoadedObjects::unloads(), unloads + 1);
  loaded.refresh();
  EXPECT_EQ(loaded.at(first.address).object, nullptr);

  replace(object.path(), LoadedLibrary::original("plain"));
  const CodeAddress other = call();
  EXPECT_NE(other.object, first.object);
  EXPECT_THAT(texts(*lines.frames_at(*other.object, other.address)),
              ElementsAre(object.name() + ":0 call_inlined"));
}

// Its debug information is not read again.
TEST(SourceLines, a_library_that_is_loaded_elsewhere_is_the_same) {
  LoadedLibrary object("debug");
  LoadedObjects loaded;
  const std::uintptr_t first = object.call("call_inlined");
  loaded.refresh();
  const CodeAddress at_first = loaded.at(first);
  object.unload();
  constexpr std::size_t kBytes = 4096;
  void* const begin = std::bit_cast<void*>(at_first.object->base);
  void* const taken = ::mmap(begin, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const std::uintptr_t again = object.call("call_inlined");
  loaded.refresh();
  EXPECT_NE(again, first);
  EXPECT_EQ(loaded.at(again), at_first);
  ::munmap(taken, kBytes);
}

TEST(SourceLines, function_names_need_no_debug_information) {
  for (const std::string_view kind : {"debug", "plain"}) {
    LoadedLibrary object(kind);
    LoadedObjects loaded;
    const std::uintptr_t address = object.call("call_hidden");
    loaded.refresh();
    const LoadedObject& known = *loaded.at(address).object;
    SourceLines lines;
    EXPECT_EQ(lines.function_at(known, address).function, "hidden(void (*)())");
    replace(object.path(), LoadedLibrary::original("stripped"));
    EXPECT_THAT(lines.function_at(known, address).function, StartsWith("+0x"));
  }
}

// As many processes as the user may have: the lines are read once there are fewer.
TEST(SourceLines, a_limit_of_processes_only_delays_the_lines) {
  LoadedLibrary object("debug");
  const std::uintptr_t address = object.call("call_inlined");
  const auto read_twice = [&] {
    LoadedObjects loaded;
    loaded.refresh();
    const LoadedObject& known = *loaded.at(address).object;
    if (::getuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
    rlimit limit{};
    ::getrlimit(RLIMIT_NPROC, &limit);
    const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
    ::setrlimit(RLIMIT_NPROC, &none);
    SourceLines lines;
    const bool is_delayed = !lines.frames_at(known, address).has_value();
    const std::string function = lines.function_at(known, address).function;
    ::setrlimit(RLIMIT_NPROC, &limit);
    const auto frames = lines.frames_at(known, address);
    ::_exit(is_delayed && function == "call_inlined" && frames && frames->size() == 2 ? 0 : 1);
  };
  EXPECT_EXIT(read_twice(), testing::ExitedWithCode(0), "");
}

TEST(SourceLines, under_a_seccomp_filter_of_the_program_no_process_is_started) {
  LoadedLibrary object("debug");
  const std::uintptr_t address = object.call("call_inlined");
  EXPECT_EXIT(
      {
        tests::add_seccomp_filter(SECCOMP_RET_KILL_PROCESS);
        const std::vector<std::string> frames = texts(frames_at(address));
        ::_exit(frames.size() == 1 && frames.front().starts_with(object.name() + ":0 +0x") ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(SourceLines, a_seccomp_filter_from_before_the_program_does_not_matter) {
  EXPECT_EXIT(
      {
        tests::add_seccomp_filter(SECCOMP_RET_ALLOW);
        ::execl("/proc/self/exe", "native_stacks_test",
                "--gtest_filter=SourceLines.an_inlined_call_is_a_frame", nullptr);
      },
      testing::ExitedWithCode(0), "");
}

TEST(SourceLines, the_program_has_lines) {
  take_caller();
  const std::vector<CodeFrame> frames = frames_at(g_called_from);
  ASSERT_THAT(frames, testing::Not(testing::IsEmpty()));
  EXPECT_THAT(frames.back().function, testing::HasSubstr("TestBody"));
}

TEST(SourceLines, a_program_that_the_loader_started_has_lines) {
  const std::string loader = [] {
    LoadedObjects loaded;
    loaded.refresh();
    return loaded.at(::getauxval(AT_BASE)).object->path;
  }();
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  EXPECT_EXIT(::execl(loader.c_str(), loader.c_str(), program.c_str(),
                      "--gtest_filter=SourceLines.the_program_has_lines", nullptr),
              testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace plimsoll::native_stacks
