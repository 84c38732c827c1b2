// Under ThreadSanitizer, functions have names but no lines. The other tests do not run there.
#include <gtest/gtest.h>

#include <bit>

#include "native_stacks/guarded_call.h"
#include "native_stacks/loaded_objects.h"
#include "native_stacks/source_lines.h"

namespace plimsoll::native_stacks {

[[gnu::noinline]] int function_for_test(int number) { return number + 1; }

namespace {

TEST(ThreadSanitizer, starts_no_guarded_process) {
  bool was_called = false;
  EXPECT_FALSE(can_guard_calls());
  EXPECT_EQ(call_guarded([](void* to) noexcept { *static_cast<bool*>(to) = true; }, &was_called),
            CallResult::kNotStarted);
  EXPECT_FALSE(was_called);
}

TEST(ThreadSanitizer, leaves_functions_without_lines) {
  LoadedObjects loaded;
  loaded.refresh();
  const CodeAddress code = loaded.at(std::bit_cast<std::uintptr_t>(&function_for_test));
  SourceLines lines;
  const auto frames = lines.frames_at(*code.object, code.address);
  ASSERT_TRUE(frames.has_value());
  ASSERT_EQ(frames->size(), 1U);
  EXPECT_EQ(frames->front().function, "plimsoll::native_stacks::function_for_test(int)");
  EXPECT_EQ(frames->front().line, 0U);
}

}  // namespace
}  // namespace plimsoll::native_stacks
