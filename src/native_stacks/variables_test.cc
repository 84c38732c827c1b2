#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
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

std::string name_at(const void* address) {
  struct Found {
    std::uintptr_t at;
    std::string name;
  } found{reinterpret_cast<std::uintptr_t>(address), "(outside)"};
  plimsoll_variables(
      [](void* to, const plimsoll_variable* variable) {
        auto& [at, name] = *static_cast<Found*>(to);
        if (at < variable->begin || at >= variable->end) return;
        name = variable->name != nullptr ? variable->name : "(none)";
      },
      &found);
  return found.name;
}

TEST(Variables, have_their_names_in_the_program) {
  EXPECT_EQ(name_at(&program_of_the_test::kept_in_function(1)),
            "program_of_the_test::kept_in_function()::kept");
  program_of_the_test::kept_by_thread = program_of_the_test::kept_array;
  EXPECT_EQ(name_at(&program_of_the_test::kept_by_thread), "program_of_the_test::kept_by_thread");
}

TEST(Variables, of_plimsoll_and_of_libraries_have_none) {
  EXPECT_EQ(name_at(&record::Recorder::get()), "");
  EXPECT_EQ(name_at(stdout), "(none)");
  const int local = 0;
  EXPECT_EQ(name_at(&local), "(outside)");
}

}  // namespace
}  // namespace plimsoll::native_stacks
