#include "top/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::top {
namespace {

using testing::ElementsAre;

TEST(TopText, a_command_is_named_by_its_script) {
  const auto name = [](const std::string& command) { return short_command(command, 60); };
  EXPECT_EQ(name("/venv/bin/python3 -u -X dev /home/ann/train.py --epochs 3"),
            "train.py --epochs 3");
  EXPECT_EQ(name("python3 -m plimsoll run -o a.plim --force train.py --lr 1"), "train.py --lr 1");
  EXPECT_EQ(name("python3.12 -m torch.distributed.run train.py"),
            "python3.12 -m torch.distributed.run train.py");
  EXPECT_EQ(name("/venv/bin/python -X dev -m pytest tests -x"), "python -m pytest tests -x");
  EXPECT_EQ(name("python3 -Xdev -bmpytest tests"), "python3 -m pytest tests");
  EXPECT_EQ(name("python3 -W error -bm pytest tests"), "python3 -m pytest tests");
  EXPECT_EQ(name("python3 -m plimsoll run --force -m pytest tests"), "python3 -m pytest tests");
  EXPECT_EQ(name("/venv/bin/python3 /venv/bin/pytest tests -m slow"), "pytest tests -m slow");
  EXPECT_EQ(name("python3 -c import torch"), "python3 -c import torch");
  EXPECT_EQ(name("python3 - --lr 1"), "python3 - --lr 1");
  EXPECT_EQ(name("python3 -u"), "python3 -u");
  EXPECT_EQ(name("python3 -X"), "python3 -X");
  EXPECT_EQ(name("python3"), "python3");
  EXPECT_EQ(name("/usr/bin/nvtop -x"), "nvtop -x");
  EXPECT_EQ(name(""), "");
  EXPECT_EQ(short_command("python train.py --epochs 3", 10), "train.py \u2026");
}

TEST(TopText, a_line_is_broken_between_words_and_never_before_a_unit) {
  EXPECT_THAT(wrapped_lines("swap 1.0 GiB of 8.0 GiB, shared 3.0 GiB", 2, 22),
              ElementsAre("swap 1.0 GiB of", "  8.0 GiB, shared", "  3.0 GiB"));
  EXPECT_THAT(wrapped_lines("waiting for 10 s", 2, 14), ElementsAre("waiting for", "  10 s"));
}

}  // namespace
}  // namespace plimsoll::top
