#include "exporters/torch_snapshot/pickle_writer.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/export_generated.h"
#include "tests/support/pickle_text.h"

namespace plimsoll::tests {
namespace {

using exporters::torch_snapshot::PickleWriter;

std::string pickled(const std::function<void(PickleWriter&)>& write) {
  TextOutput output;
  PickleWriter pickle(output);
  write(pickle);
  EXPECT_TRUE(pickle.finish().ok());
  return output.text;
}

std::string text_of(const std::function<void(PickleWriter&)>& write) {
  return PickleText::of(pickled(write));
}

TEST(PickleWriter, integers_keep_their_value_and_take_few_bytes) {
  constexpr std::size_t kAround = 2 + 9 + 1;  // protocol, frame, stop
  const auto expect = [&](auto value, std::size_t bytes) {
    const std::string pickle = pickled([&](PickleWriter& p) { p.integer(value); });
    EXPECT_EQ(PickleText::of(pickle), std::to_string(value));
    EXPECT_EQ(pickle.size(), kAround + bytes) << value;
  };
  expect(std::uint64_t{0}, 2);
  expect(std::uint64_t{255}, 2);
  expect(std::uint64_t{256}, 3);
  expect(std::uint64_t{65'535}, 3);
  expect(std::uint64_t{65'536}, 5);
  expect(std::uint64_t{0x7FFFFFFF}, 5);
  expect(std::uint64_t{0x80000000}, 7);  // the sign takes a fifth byte
  expect(std::uint64_t{0x7FFFFFFFFF}, 7);
  expect(std::uint64_t{0x7F0000000000}, 8);
  expect(std::uint64_t{0x7FFFFFFFFFFFFFFF}, 10);
  expect(std::uint64_t{0x8000000000000000}, 11);
  expect(std::numeric_limits<std::uint64_t>::max(), 11);
  expect(std::int64_t{-1}, 5);
  expect(std::int64_t{std::numeric_limits<std::int32_t>::min()}, 5);
  expect(std::int64_t{-2'147'483'649}, 7);
  expect(std::numeric_limits<std::int64_t>::min(), 10);
}

TEST(PickleWriter, long_lists_are_written_in_batches_and_frames) {
  for (std::uint64_t count : {0u, 1u, 999u, 1000u, 1001u, 60'000u}) {
    std::string expected = "[";
    for (std::uint64_t i = 0; i < count; ++i) {
      expected += (i == 0 ? "" : ", ") + std::to_string(i);
    }
    EXPECT_EQ(text_of([&](PickleWriter& p) {
                p.list();
                for (std::uint64_t i = 0; i < count; ++i) {
                  p.item();
                  p.integer(i);
                }
                p.end_list();
              }),
              expected + "]");
  }
}

TEST(PickleWriter, remembered_values_can_be_recalled) {
  EXPECT_EQ(text_of([](PickleWriter& p) {
              p.list();
              p.item();
              p.string("short");
              p.remember(3);
              p.item();
              p.recall(3);
              p.item();
              p.list();
              p.remember(70'000);
              p.end_list();
              p.item();
              p.recall(70'000);
              p.end_list();
            }),
            "['short', 'short', [], []]");
}

TEST(PickleWriter, writes_other_values) {
  EXPECT_EQ(
      text_of([](PickleWriter& p) {
        p.dict();
        p.begin_dict_items();
        p.string("pair");
        p.integer(std::uint64_t{1});
        p.integer(std::uint64_t{2});
        p.make_pair();
        p.string("yes");
        p.boolean(true);
        p.string("half");
        p.real(0.5);
        p.string(std::string(300, 'x'));
        p.boolean(false);
        p.end_dict_items();
      }),
      "{'pair': (1, 2), 'yes': True, 'half': 0.500000, '" + std::string(300, 'x') + "': False}");
}

TEST(PickleWriter, bytes_that_python_cannot_decode_are_replaced) {
  const auto string = [](const char* text) {
    return text_of([&](PickleWriter& p) { p.string(text); });
  };
  EXPECT_EQ(string("a\xff"
                   "b\xe2\x82"),
            "'a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\xEF\xBF\xBD'");
  EXPECT_EQ(string("\xed\xb3\xbf"), "'\xed\xb3\xbf'") << "a lone surrogate: Python's own";
  EXPECT_EQ(string("\xe6\xbc\xa2"), "'\xe6\xbc\xa2'");
}

}  // namespace
}  // namespace plimsoll::tests
