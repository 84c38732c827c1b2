// SharedValues: writes the values that a snapshot repeats (keys, strings, frames, stacks). Each is
// written once and then recalled from the pickle's memo.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "exporters/torch_snapshot/pickle_strings.h"
#include "exporters/torch_snapshot/pickle_writer.h"
#include "model/trace.h"

namespace plimsoll::exporters::torch_snapshot {

class SharedValues {
 public:
  SharedValues(const model::Trace& trace, PickleWriter& pickle);

  void word(Word word);
  void string(model::StringId id);
  void stack(model::StackId id);
  void pool(model::PoolId id);

  void member(Word key, std::uint64_t value) {
    word(key);
    pickle_.integer(value);
  }
  void member(Word key, Word value) {
    word(key);
    word(value);
  }
  // Omitted if the model has no value.
  void optional_member(Word key, model::StringId id);
  void optional_member(Word key, model::PoolId id);
  void optional_member(Word key, model::StackId id);

 private:
  void frame(model::FrameId id);
  // Returns true if the value was recalled from `place`. Otherwise the caller writes the value and
  // calls remember().
  bool recalled(std::uint32_t place);
  void remember(std::uint32_t& place);

  const model::Trace& trace_;
  PickleWriter& pickle_;
  std::array<bool, kWordCount> is_written_{};
  std::vector<std::uint32_t> string_places_;
  std::vector<std::uint32_t> frame_places_;
  std::vector<std::uint32_t> stack_places_;
  std::uint32_t next_place_ = kWordCount;
};

}  // namespace plimsoll::exporters::torch_snapshot
