#include "record/range_listeners.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "format/decoder.h"
#include "plimsoll/recorder.h"

namespace plimsoll::record {
namespace {

struct Marks : format::NoRecords {
  void on_name(std::uint32_t id, std::string_view text) { names[id] = text; }
  void on_mark(const format::Mark& mark) {
    if (mark.kind != PLIMSOLL_MARK_LAYER_BEGIN && mark.kind != PLIMSOLL_MARK_LAYER_END) return;
    seen.push_back((mark.kind == PLIMSOLL_MARK_LAYER_BEGIN ? "+" : "-") +
                   names[static_cast<std::uint32_t>(mark.value)]);
  }
  std::map<std::uint32_t, std::string> names;
  std::vector<std::string> seen;
};

std::vector<std::string> calls_in(const plimsoll::Recording& recording) {
  Marks marks;
  format::Decoder<Marks> decoder(marks);
  decoder.push(recording.copy());
  decoder.finish();
  return marks.seen;
}

plimsoll::Recording recording(bool marks_layer_calls) {
  auto started = plimsoll::Recording::start({.marks_layer_calls = marks_layer_calls});
  EXPECT_TRUE(started.ok());
  return std::move(started).value();
}

void call_net() {
  PLIMSOLL_LAYER("Net");
  PLIMSOLL_LAYER("fc");
}

TEST(RangeListeners, layer_calls_are_only_in_the_recording_that_requests_them) {
  const plimsoll::Recording ordinary = recording(false);
  call_net();
  EXPECT_EQ(*plimsoll_recorder()->range_listener, nullptr) << "nobody is called";
  {
    const plimsoll::Recording marking = recording(true);
    call_net();
    EXPECT_EQ(calls_in(marking), (std::vector<std::string>{"+Net", "+Net.fc", "-Net.fc", "-Net"}));
  }
  EXPECT_EQ(*plimsoll_recorder()->range_listener, nullptr);
  EXPECT_TRUE(calls_in(ordinary).empty());
}

TEST(RangeListeners, the_programs_listener_is_called_as_well) {
  static int begun = 0;
  static constexpr plimsoll_range_listener kListener = {
      [](std::uint8_t range, std::uint32_t) { begun += range == PLIMSOLL_RANGE_LAYER ? 1 : 0; },
      [](std::uint8_t, std::uint32_t) {}, [](std::uint64_t) {}};
  plimsoll_listen_to_ranges(&kListener);
  {
    const plimsoll::Recording marking = recording(true);
    call_net();
    EXPECT_EQ(begun, 2);
    EXPECT_EQ(calls_in(marking).size(), 4u);
  }
  EXPECT_EQ(*plimsoll_recorder()->range_listener, &kListener);
  plimsoll_listen_to_ranges(nullptr);
}

// An autograd node reports the layer that built it, but is not a call of that layer.
TEST(RangeListeners, a_range_inside_an_operator_is_not_a_call) {
  const plimsoll::Recording marking = recording(true);
  plimsoll_context* const context = plimsoll_recorder()->context();
  context->outer_op = plimsoll_recorder()->name("AddmmBackward0", 14);
  (*plimsoll_recorder()->range_listener)->begin(PLIMSOLL_RANGE_LAYER, 1);
  (*plimsoll_recorder()->range_listener)->end(PLIMSOLL_RANGE_LAYER, 1);
  context->outer_op = 0;
  EXPECT_TRUE(calls_in(marking).empty());
}

}  // namespace
}  // namespace plimsoll::record
