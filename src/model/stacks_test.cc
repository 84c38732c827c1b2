#include "model/stacks.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::model {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Frame frame(std::uint32_t file, std::uint32_t line, std::uint32_t notes = 0) {
  return Frame{StringId{file}, StringId{1}, line, notes};
}

TEST(StackTable, equal_frames_and_stacks_are_stored_once) {
  StackTable stacks;
  const FrameId a = stacks.intern_frame(frame(1, 10));
  const FrameId b = stacks.intern_frame(frame(1, 11));
  EXPECT_EQ(stacks.intern_frame(frame(1, 10)), a);
  EXPECT_NE(stacks.intern_frame(frame(1, 10, 1)), a);  // different notes
  const StackId ab = stacks.intern_stack(std::vector{a, b});
  EXPECT_EQ(stacks.intern_stack(std::vector{a, b}), ab);
  EXPECT_NE(stacks.intern_stack(std::vector{b, a}), ab);
  EXPECT_NE(stacks.intern_stack(std::vector{a}), ab);
  EXPECT_THAT(stacks.frames(ab), ElementsAre(a, b));
}

TEST(StackTable, no_stack_is_not_the_empty_stack) {
  StackTable stacks;
  EXPECT_EQ(stacks.intern_stack({}), kEmptyStack);
  EXPECT_NE(kNoStack, kEmptyStack);
  EXPECT_THAT(stacks.frames(kNoStack), IsEmpty());
  EXPECT_THAT(stacks.frames(kEmptyStack), IsEmpty());
  EXPECT_EQ(stacks.stack_count(), 2u);
}

TEST(StackTable, finds_each_of_many_stacks) {
  StackTable stacks;
  std::vector<FrameId> frames;
  for (std::uint32_t i = 0; i < 3000; ++i) frames.push_back(stacks.intern_frame(frame(i % 7, i)));
  std::vector<StackId> ids;
  for (std::size_t i = 0; i + 2 < frames.size(); ++i) {
    ids.push_back(stacks.intern_stack({frames.data() + i, 3}));
  }
  for (std::size_t i = 0; i + 2 < frames.size(); ++i) {
    ASSERT_EQ(stacks.intern_stack({frames.data() + i, 3}), ids[i]);
    ASSERT_THAT(stacks.frames(ids[i]), ElementsAre(frames[i], frames[i + 1], frames[i + 2]));
  }
  EXPECT_EQ(stacks.frame_count(), 3000u);
  EXPECT_EQ(stacks.stack_count(), 3000u);
}

TEST(StackTable, equal_notes_are_one_row_and_row_0_is_none) {
  StackTable stacks;
  const FrameNotes notes{{StringId{1}, StringId{2}}};
  const std::uint32_t row = stacks.add_notes(notes);
  EXPECT_NE(row, 0u);
  EXPECT_EQ(stacks.add_notes(notes), row);
  EXPECT_EQ(stacks.notes(row), notes);
  EXPECT_THAT(stacks.notes(0), IsEmpty());
}

}  // namespace
}  // namespace plimsoll::model
