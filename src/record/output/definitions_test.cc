#include "record/output/definitions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plimsoll/recorder_c.h"
#include "record/ledger/site_table.h"
#include "tests/support/trace_replay.h"

namespace plimsoll::record {
namespace {

using format::Frame;
using testing::ElementsAre;
using tests::TraceReplay;

class Written final : public format::BlockOutput {
 public:
  Written() : bytes_(format::kPreludeBytes) { format::Encoder::prelude(bytes_.data()); }
  void write(const format::FinishedBlock& block) noexcept override {
    bytes_.insert(bytes_.end(), block.bytes.begin(), block.bytes.end());
  }
  TraceReplay replay() const { return TraceReplay::of_bytes(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

TraceReplay written(Definitions& definitions, DefinitionCursor& cursor) {
  Written output;
  format::Encoder encoder(output);
  definitions.write_new(cursor, encoder);
  encoder.flush();
  return output.replay();
}

TEST(Definitions, the_same_text_has_the_same_id) {
  Definitions definitions;
  const std::uint32_t conv = definitions.name("conv");
  EXPECT_NE(conv, 0u);
  EXPECT_NE(definitions.name("relu"), conv);
  EXPECT_EQ(definitions.name(std::string("co") + "nv"), conv);
  EXPECT_EQ(definitions.name(""), 0u);
  for (int i = 0; i < 10'000; ++i) definitions.name("name." + std::to_string(i));
  EXPECT_EQ(definitions.name("conv"), conv);
  EXPECT_EQ(definitions.refused(), 0u);
}

TEST(Definitions, facts_are_written_when_new_and_when_changed) {
  Definitions definitions;
  DefinitionCursor cursor;
  const std::uint32_t one = definitions.name("expandable_segments");
  definitions.setting({one, PLIMSOLL_SETTING_BOOLEAN, 0});
  definitions.setting({one, PLIMSOLL_SETTING_BOOLEAN, 1});
  definitions.notice({PLIMSOLL_NOTICE_SIZES_CORRECTED, 1, 3, 0});
  definitions.notice({PLIMSOLL_NOTICE_SIZES_CORRECTED, 2, 7, 0});
  TraceReplay first = written(definitions, cursor);
  EXPECT_THAT(first.settings, ElementsAre(format::Setting{one, PLIMSOLL_SETTING_BOOLEAN, 1}));
  EXPECT_THAT(first.notices, ElementsAre(format::Notice{PLIMSOLL_NOTICE_SIZES_CORRECTED, 1, 3, 0},
                                         format::Notice{PLIMSOLL_NOTICE_SIZES_CORRECTED, 2, 7, 0}));
  definitions.setting({one, PLIMSOLL_SETTING_BOOLEAN, 1});
  definitions.notice({PLIMSOLL_NOTICE_SIZES_CORRECTED, 1, 4, 0});
  TraceReplay second = written(definitions, cursor);
  EXPECT_TRUE(second.settings.empty());
  EXPECT_THAT(second.notices,
              ElementsAre(format::Notice{PLIMSOLL_NOTICE_SIZES_CORRECTED, 1, 4, 0}));
  definitions.forget_facts_of_recordings();
  DefinitionCursor anew;
  EXPECT_THAT(written(definitions, anew).settings, ElementsAre(format::Setting{one, 0, 1}));
  EXPECT_TRUE(written(definitions, cursor).notices.empty());
}

TEST(Definitions, functions_are_written_once_and_modules_when_changed) {
  Definitions definitions;
  DefinitionCursor cursor;
  definitions.function({1, 2, 30});
  definitions.function({1, 2, 30});
  definitions.function({1, 2, 40});  // another one of this name
  definitions.module({5, 6, 100});
  definitions.module({7, 6, 200});
  TraceReplay first = written(definitions, cursor);
  EXPECT_THAT(first.functions, ElementsAre(format::Function{1, 2, 30}, format::Function{1, 2, 40}));
  EXPECT_THAT(first.modules, ElementsAre(format::Module{5, 6, 100}, format::Module{7, 6, 200}));
  definitions.module({7, 6, 200});
  definitions.module({5, 6, 300});
  TraceReplay second = written(definitions, cursor);
  EXPECT_TRUE(second.functions.empty());
  EXPECT_THAT(second.modules, ElementsAre(format::Module{5, 6, 300}));
  definitions.forget_facts_of_recordings();
  DefinitionCursor anew;
  EXPECT_EQ(written(definitions, anew).functions.size(), 2u);
  definitions.module({7, 6, 200});
  EXPECT_THAT(written(definitions, anew).modules, ElementsAre(format::Module{7, 6, 200}));
}

TEST(Definitions, all_frames_are_copied_piece_by_piece) {
  Definitions definitions;
  const std::vector<Frame> frames = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
  definitions.stack(frames);
  std::vector<Frame> piece(2);
  EXPECT_EQ(definitions.copy_all_frames(0, piece), 2u);
  EXPECT_EQ(definitions.copy_all_frames(2, piece), 1u);
  EXPECT_EQ(piece[0].line, 9u);
  EXPECT_EQ(definitions.copy_all_frames(3, piece), 0u);
}

TEST(Definitions, facts_are_bounded) {
  Definitions definitions({.settings = 2, .notices = 1, .functions = 1, .modules = 1});
  for (std::uint32_t name = 1; name <= 3; ++name) definitions.setting({name, 1, name});
  for (std::uint8_t device = 1; device <= 3; ++device) definitions.notice({1, device, 1, 0});
  EXPECT_EQ(definitions.refused(), 3u);
  for (std::uint32_t id = 1; id <= 3; ++id) definitions.function({id, id, 1});
  for (std::uint32_t id = 1; id <= 3; ++id) definitions.module({id, id, 1});
  EXPECT_EQ(definitions.refused(), 7u);
}

TEST(Definitions, the_same_frames_are_the_same_stack) {
  Definitions definitions;
  const std::vector<Frame> outer = {{1, 2, 3}, {4, 5, 6}};
  const std::vector<Frame> inner = {{1, 2, 3}};
  const std::uint32_t stack = definitions.stack(outer);
  EXPECT_EQ(definitions.stack(outer), stack);
  EXPECT_NE(definitions.stack(inner), stack);
  EXPECT_EQ(definitions.stack({}), 0u);
}

TEST(Definitions, a_stack_may_be_reported_later_than_its_id) {
  Definitions definitions;
  const std::vector<Frame> frames = {{1, 2, 3}};
  const std::uint32_t stack = definitions.reserve_stack();
  DefinitionCursor cursor;
  EXPECT_FALSE(written(definitions, cursor).stacks.contains(stack));
  definitions.define_stack(stack, frames);
  EXPECT_EQ(written(definitions, cursor).stacks.at(stack).at(0).line, 3u);
  const std::vector<Frame> others = {{7, 8, 9}};
  definitions.define_stack(stack, others);  // too late: it is already defined
  definitions.define_stack(99, others);     // unknown id
  EXPECT_EQ(definitions.stack(frames), stack);
  EXPECT_TRUE(written(definitions, cursor).stacks.empty());
}

TEST(Definitions, a_file_receives_only_new_definitions) {
  Definitions definitions;
  const std::uint32_t first = definitions.name("first");
  DefinitionCursor cursor;
  EXPECT_EQ(written(definitions, cursor).names.at(first), "first");
  const std::uint32_t second = definitions.name("second");
  const std::uint32_t tensor = definitions.tensor({PLIMSOLL_ROLE_GRADIENT, second, 0, 0});
  TraceReplay replay = written(definitions, cursor);
  EXPECT_EQ(replay.names.size(), 1u);
  EXPECT_EQ(replay.names.at(second), "second");
  EXPECT_EQ(replay.tensors.at(tensor).role, PLIMSOLL_ROLE_GRADIENT);
  DefinitionCursor other;
  EXPECT_EQ(written(definitions, other).names.size(), 2u);
}

TEST(Definitions, beyond_its_limits_returns_a_placeholder_and_counts) {
  DefinitionLimits limits;
  limits.names = 2;
  limits.longest_name_bytes = 5;
  limits.stacks = 1;
  limits.tensors = 1;
  Definitions definitions(limits);
  EXPECT_EQ(definitions.name("abcdefgh"), definitions.name("abcdeXYZ"));  // truncated
  EXPECT_EQ(definitions.name("abcd\xC3\xA4"), definitions.name("abcd"));  // no half characters
  EXPECT_EQ(definitions.beyond().name, 0u);
  const std::uint32_t beyond = definitions.name("third");
  EXPECT_EQ(definitions.name("fourth"), beyond);
  EXPECT_EQ(definitions.beyond().name, beyond);
  EXPECT_EQ(definitions.text(beyond), "(beyond the limit of names)");
  EXPECT_EQ(definitions.refused(), 2u);
  EXPECT_EQ(definitions.reserve_stack(), 1u);
  const std::vector<Frame> frames = {{1, 2, 3}};
  const std::uint32_t stack = definitions.stack(frames);
  EXPECT_EQ(definitions.reserve_stack(), stack);
  EXPECT_EQ(definitions.beyond().stack, stack);
  std::vector<Frame> reported(2);
  EXPECT_EQ(definitions.copy_frames(stack, reported), 1u);
  EXPECT_EQ(reported[0].file, beyond);
  EXPECT_EQ(reported[0].function, beyond);
  EXPECT_EQ(definitions.tensor({1, 1, 1, 1}), 1u);
  const std::uint32_t tensor = definitions.tensor({2, 1, 1, 1});  // its role is kept
  EXPECT_EQ(definitions.tensor({2, 7, 7, 7}), tensor);
  EXPECT_NE(definitions.tensor({3, 1, 1, 1}), tensor);
  EXPECT_TRUE(definitions.is_beyond(tensor));
  EXPECT_FALSE(definitions.is_beyond(1));
  DefinitionCursor cursor;
  const auto names = written(definitions, cursor).names;
  EXPECT_EQ(names.size(), 3u);
  EXPECT_EQ(names.at(beyond), "(beyond the limit of names)");
}

TEST(Definitions, every_cpu_is_device_0_and_excess_devices_share_one) {
  Definitions definitions;
  EXPECT_EQ(definitions.device({PLIMSOLL_DEVICE_CPU, -1}), 0);
  EXPECT_EQ(definitions.device({PLIMSOLL_DEVICE_CUDA, 0}), 1);
  EXPECT_EQ(definitions.device({PLIMSOLL_DEVICE_CUDA, 1}), 2);
  EXPECT_EQ(definitions.device({PLIMSOLL_DEVICE_CUDA, 0}), 1);
  for (int i = 2; i < 300; ++i) definitions.device({PLIMSOLL_DEVICE_CUDA, i});
  EXPECT_EQ(definitions.device({PLIMSOLL_DEVICE_CUDA, 400}), 255);
  EXPECT_GT(definitions.refused(), 0u);
}

TEST(SiteTable, gives_each_site_one_id) {
  SiteTable sites;
  const std::uint32_t id = sites.id({1, 2, 3, 4, 5, 1, 0});
  EXPECT_EQ(sites.id({1, 2, 3, 4, 5, 1, 0}), id);
  EXPECT_NE(sites.id({1, 2, 3, 4, 5, 2, 0}), id);
  EXPECT_NE(sites.id({1, 2, 3, 4, 5, 1, 1}), id);
  EXPECT_EQ(sites[id].layer, 1u);
}

TEST(SiteTable, beyond_its_limit_keeps_only_phase_and_device) {
  SiteTable sites(2);
  const std::uint32_t known = sites.id({1, 2, 3, 4, 0, 1, 0});
  sites.id({1, 2, 3, 4, 77, 1, 0});
  EXPECT_EQ(sites.id({1, 2, 3, 4, 78, 1, 0}), known);
  const std::uint32_t bare = sites.id({9, 9, 9, 9, 9, 3, 2});
  EXPECT_EQ(sites[bare], (format::Site{0, 0, 0, 0, 0, 3, 2}));
  EXPECT_EQ(sites.refused(), 2u);
}

}  // namespace
}  // namespace plimsoll::record
