#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <iterator>
#include <map>
#include <string>

#include "plimsoll/native_stacks_c.h"
#include "record/recorder.h"

// Outside Plimsoll's namespace, whose variables have no names here.
namespace program_of_the_test {
namespace {

int* const volatile kept_array = new int[3];
thread_local int* kept_by_thread = nullptr;

int*& kept_in_function(int /*unused*/) {
  static int* kept = new int[4];
  return kept;
}

}  // namespace
}  // namespace program_of_the_test

namespace plimsoll::native_stacks {
namespace {

// By begin.
std::map<std::uintptr_t, plimsoll_variable> variables(
    std::map<std::uintptr_t, std::string>& names) {
  struct Found {
    std::map<std::uintptr_t, plimsoll_variable> variables;
    std::map<std::uintptr_t, std::string>& names;
  } found{{}, names};
  plimsoll_variables(
      [](void* to, const plimsoll_variable* variable) {
        auto& [variables, names] = *static_cast<Found*>(to);
        variables[variable->begin] = *variable;
        names[variable->begin] = variable->name != nullptr ? variable->name : "(none)";
      },
      &found);
  return found.variables;
}

std::string name_at(const void* address) {
  std::map<std::uintptr_t, std::string> names;
  const auto all = variables(names);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto after = all.upper_bound(at);
  if (after == all.begin() || at >= std::prev(after)->second.end) return "(outside)";
  return names[std::prev(after)->first];
}

TEST(Variables, have_their_names_in_the_program) {
  EXPECT_EQ(name_at(&program_of_the_test::kept_in_function(1)),
            "program_of_the_test::kept_in_function()::kept");
  program_of_the_test::kept_by_thread = program_of_the_test::kept_array;
  EXPECT_EQ(name_at(&program_of_the_test::kept_by_thread), "program_of_the_test::kept_by_thread");
}

TEST(Variables, of_plimsoll_and_of_libraries_have_none) {
  EXPECT_EQ(name_at(&record::Recorder::get()), "");
  EXPECT_EQ(name_at(&stdout), "(none)");
  const int local = 0;
  EXPECT_EQ(name_at(&local), "(outside)");
}

}  // namespace
}  // namespace plimsoll::native_stacks
