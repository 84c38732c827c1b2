#include "readers/foreign_file.h"

#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::readers {
namespace {

using namespace std::string_view_literals;
using testing::HasSubstr;

std::string about(std::string_view text) {
  return foreign_file(std::as_bytes(std::span(text.data(), text.size())));
}

TEST(ForeignFile, databases_name_the_way_to_a_pickle) {
  EXPECT_THAT(about("SQLite format 3\0..."sv), HasSubstr("_dump_snapshot"));
}

TEST(ForeignFile, files_of_other_tools_name_their_command) {
  EXPECT_THAT(about("memray\0\1"sv), HasSubstr("memray flamegraph"));
  EXPECT_THAT(about("\x18\0\0\0\0\0\0\0\xA3\x7F\x4B\x22\x09\0\0\0\0\0\0\0\0\x1A\x0D"
                    "brain.Event:2"sv),
              HasSubstr("tensorboard --logdir"));
  EXPECT_THAT(about("| NVIDIA-SMI 550.54"sv), HasSubstr("plimsoll analyze"));
  EXPECT_THAT(about("timestamp, memory.used [MiB]\n"sv), HasSubstr("plimsoll analyze"));
}

TEST(ForeignFile, archives_and_programs_name_the_next_step) {
  EXPECT_THAT(about("PK\x03\x04model/data.pkl"sv), HasSubstr("torch.save()"));
  EXPECT_THAT(about("\x28\xB5\x2F\xFD"sv), HasSubstr("zstd -d"));
  EXPECT_THAT(about("\x7F"
                    "ELF\2"sv),
              HasSubstr("plimsoll run -- FILE"));
  EXPECT_THAT(about("import os\nimport torch\n"sv), HasSubstr("plimsoll run FILE"));
}

TEST(ForeignFile, text_that_no_tool_writes_is_not_recognized) {
  EXPECT_EQ(about(""), "");
  EXPECT_EQ(about("\xFF\xFE\x01"sv), "");
  EXPECT_EQ(about("hello"), "");
  EXPECT_EQ(about("  File \"a.py\", line 1\n    import torch\nImportError\n"), "");
}

// Report and analyze name each other only if the other one can read the file.
TEST(ForeignFile, only_logs_that_analyze_reads_name_it) {
  EXPECT_THAT(about("# Plimsoll tensor profile, format 1. MB are\n"sv),
              HasSubstr("plimsoll analyze FILE"));
  EXPECT_THAT(about("timestamp, memory.used [MiB]\n"sv), HasSubstr("plimsoll analyze FILE"));
  EXPECT_THAT(about("[INFO] [utils.py:786:see_memory_usage] MA 1 GB  Max_MA 1 GB\n"sv),
              HasSubstr("plimsoll analyze FILE"));
  EXPECT_EQ(about("we print memory.used each step\n"), "");
}

}  // namespace
}  // namespace plimsoll::readers
