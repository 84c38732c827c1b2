#include "findings/allocator/allocator_conf.h"

#include <gtest/gtest.h>

#include "tests/support/trace_maker.h"

namespace plimsoll::findings {
namespace {

AllocatorConf conf_of(std::vector<model::Setting> settings) {
  tests::TraceMaker maker;
  for (auto& setting : settings) maker.builder().add_setting(std::move(setting));
  return allocator_conf(maker.finish());
}

TEST(AllocatorConf, the_parsed_value_overrides_the_string) {
  const auto conf = conf_of({{"PYTORCH_CUDA_ALLOC_CONF", std::string("expandable_segments:True")},
                             {"expandable_segments", false},
                             {"max_split_size", std::int64_t{-1}}});
  EXPECT_FALSE(conf.expandable_segments);
  EXPECT_TRUE(conf.asked_for_expandable_segments);
  EXPECT_FALSE(conf.max_split_size_bytes.has_value()) << "-1 is unlimited";
}

TEST(AllocatorConf, the_string_is_used_if_no_value_was_parsed) {
  const auto conf =
      conf_of({{"PYTORCH_ALLOC_CONF",
                std::string("roundup_power2_divisions:[256:1,512:2], max_split_size_mb : 128,"
                            "garbage_collection_threshold:0.8,"
                            "expandable_segments:true")}});
  EXPECT_TRUE(conf.expandable_segments);
  EXPECT_EQ(conf.max_split_size_bytes, std::uint64_t{128} << 20);
  EXPECT_DOUBLE_EQ(conf.garbage_collection_threshold, 0.8);
}

TEST(AllocatorConf, expandable_segments_in_the_trace_count) {
  tests::TraceMaker maker;
  model::Segment segment;
  segment.total_size = 1 << 20;
  segment.is_expandable = true;
  maker.builder().add_segment(segment, {});
  const auto conf = allocator_conf(maker.finish());
  EXPECT_TRUE(conf.expandable_segments);
}

TEST(AllocatorConf, nonsense_is_not_a_setting) {
  const auto conf = conf_of(
      {{"PYTORCH_CUDA_ALLOC_CONF", std::string("max_split_size_mb:-5,expandable_segments:")}});
  EXPECT_FALSE(conf.max_split_size_bytes.has_value());
  EXPECT_FALSE(conf.expandable_segments);
}

}  // namespace
}  // namespace plimsoll::findings
