#include "exporters/torch_snapshot/shared_values.h"

#include <cstdint>
#include <limits>

namespace plimsoll::exporters::torch_snapshot {

SharedValues::SharedValues(const model::Trace& trace, PickleWriter& pickle)
    : trace_(trace),
      pickle_(pickle),
      string_places_(trace.strings.size(), model::kNone),
      frame_places_(trace.stacks.frame_count(), model::kNone),
      stack_places_(trace.stacks.stack_count(), model::kNone) {}

bool SharedValues::recalled(std::uint32_t place) {
  if (place == model::kNone) return false;
  pickle_.recall(place);
  return true;
}

void SharedValues::remember(std::uint32_t& place) {
  place = next_place_++;
  pickle_.remember(place);
}

void SharedValues::word(Word word) {
  const auto place = static_cast<std::uint32_t>(word);
  if (is_written_[place]) return pickle_.recall(place);
  is_written_[place] = true;
  pickle_.string(text_of(word));
  pickle_.remember(place);
}

void SharedValues::string(model::StringId id) {
  std::uint32_t& place = string_places_[id.index()];
  if (recalled(place)) return;
  pickle_.string(trace_.strings[id]);
  remember(place);
}

void SharedValues::frame(model::FrameId id) {
  std::uint32_t& place = frame_places_[id.index()];
  if (recalled(place)) return;
  const model::Frame& frame = trace_.stacks.frame(id);
  pickle_.dict();
  remember(place);
  pickle_.begin_dict_items();
  word(Word::kFilename);
  string(frame.file);
  word(Word::kName);
  string(frame.function);
  const bool is_known = frame.line != model::kUnknownLine;
  member(Word::kLine, is_known ? frame.line : std::numeric_limits<std::uint64_t>::max());
  if (frame.notes != 0) {
    for (const auto& [key, value] : trace_.stacks.notes(frame.notes)) {
      string(key);
      string(value);
    }
  }
  pickle_.end_dict_items();
}

void SharedValues::stack(model::StackId id) {
  std::uint32_t& place = stack_places_[id.index()];
  if (recalled(place)) return;
  pickle_.list();
  remember(place);
  for (model::FrameId frame_id : trace_.stacks.frames(id)) {
    pickle_.item();
    frame(frame_id);
  }
  pickle_.end_list();
}

void SharedValues::pool(model::PoolId id) {
  const model::Pool& pool = trace_.pools[id.index()];
  pickle_.integer(pool.first);
  pickle_.integer(pool.second);
  pickle_.make_pair();
}

void SharedValues::optional_member(Word key, model::StringId id) {
  if (id == model::StringId{}) return;
  word(key);
  string(id);
}

void SharedValues::optional_member(Word key, model::PoolId id) {
  if (id == model::PoolId{}) return;
  word(key);
  pool(id);
}

void SharedValues::optional_member(Word key, model::StackId id) {
  if (id == model::kNoStack) return;
  word(key);
  stack(id);
}

}  // namespace plimsoll::exporters::torch_snapshot
