#include "native_stacks/source_lines.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

std::vector<std::string> frames_of(LoadedLibrary& object, const char* function) {
  SourceLines lines;
  return texts(lines.frames_at(object.call(function)));
}

TEST(SourceLines, an_inlined_call_is_a_frame) {
  LoadedLibrary object("debug");
  EXPECT_THAT(frames_of(object, "call_inlined"),
              ElementsAre(testing::AnyOf("object_for_test.cc:6 inlined",
                                         "object_for_test.cc:6 inlined(void (*)())"),
                          "object_for_test.cc:18 call_inlined"));
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
      SourceLines lines;
      EXPECT_FALSE(lines.frames_at(address).empty());
    }
  }
}

TEST(SourceLines, unloaded_code_is_named) {
  LoadedLibrary object("debug");
  const std::uintptr_t address = object.call("call_inlined");
  object.unload();
  SourceLines lines;
  EXPECT_THAT(texts(lines.frames_at(address)), ElementsAre("[unloaded code]:0 ?"));
}

TEST(SourceLines, the_program_has_lines) {
  SourceLines lines;
  take_caller();
  const std::vector<CodeFrame> frames = lines.frames_at(g_called_from);
  EXPECT_THAT(frames, testing::Not(testing::IsEmpty()));
  EXPECT_THAT(frames.back().function, testing::HasSubstr("TestBody"));
}

}  // namespace
}  // namespace plimsoll::native_stacks
