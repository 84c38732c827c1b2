#include "readers/oom_message/log_text.h"

#include <gtest/gtest.h>

namespace plimsoll::readers::oom_message {
namespace {

TEST(LogText, lines_of_docker_are_joined_as_the_program_wrote_them) {
  EXPECT_EQ(prepared_log("{\"log\":\"CUDA out of \",\"stream\":\"stderr\",\"time\":\"t\"}\n"
                         "{\"log\":\"memory\\n\",\"stream\":\"stderr\",\"time\":\"t\"}\n"
                         "plain\n"),
            "CUDA out of memory\nplain\n");
}

TEST(LogText, a_logger_of_json_repeats_nothing) {
  EXPECT_EQ(
      prepared_log("{\"levelname\": \"ERROR\", \"message\": \"boom\", \"exc_info\": "
                   "\"Traceback (most recent call last):\\n  File \\\"a.py\\\", line 3, in "
                   "f\\nValueError: boom\"}\n"),
      "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\nValueError: boom\n");
}

TEST(LogText, frames_of_a_structured_traceback_precede_the_message) {
  EXPECT_EQ(
      prepared_log("{\"event\": \"step failed\", \"exception\": [{\"exc_value\": \"boom\", "
                   "\"frames\": [{\"filename\": \"a.py\", \"lineno\": 3, \"name\": \"f\"}]}]}"
                   "\n"),
      "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\nstep failed\nboom\n");
}

TEST(LogText, a_message_under_any_key_is_kept) {
  EXPECT_EQ(
      prepared_log("{\"exception\": \"OutOfMemoryError\", \"args\": [\"CUDA out of memory.\"], "
                   "\"host\": \"gpu7\"}\n"),
      "OutOfMemoryError\nCUDA out of memory.\n");
}

TEST(LogText, other_braces_are_left_alone) {
  for (const char* const text : {"{'loss': 0.5}\n", "{\"loss\": 0.5}\n", "{\n}\n", "{"}) {
    EXPECT_EQ(prepared_log(text), text);
  }
}

TEST(LogText, escape_sequences_are_removed) {
  EXPECT_EQ(prepared_log("\x1b[31m8\x1b[0m0 GiB\x1b["), "80 GiB");
}

TEST(LogText, the_column_of_rich_is_blank_where_a_message_goes_on) {
  EXPECT_EQ(prepared_log("[12:00:00] ERROR    out of      train.py:12\n"
                         "                    memory\n"),
            "[12:00:00] ERROR    out of                 \n                    memory\n");
  const char* const one_line = "[12:00:00] ERROR    out of      train.py:12\nnext\n";
  EXPECT_EQ(prepared_log(one_line), one_line);
}

TEST(LogText, a_json_log_is_recognized) {
  EXPECT_TRUE(begins_as_json_log("{\"log\":\"a\\n\",\"stream\":\"stdout\"}\n"));
  EXPECT_FALSE(begins_as_json_log("{\"traceEvents\": []}"));
  EXPECT_FALSE(begins_as_json_log("{\"loss\": 1}"));
}

TEST(LogText, a_quotation_is_one_line) {
  EXPECT_EQ(quotation("a\n  b c\nd", 6), "b c");
  EXPECT_EQ(quotation("", 0), "");
}

}  // namespace
}  // namespace plimsoll::readers::oom_message
