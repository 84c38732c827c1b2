#include "attribution/trace_copy.h"

#include <utility>

namespace plimsoll::attribution {

using model::kNone;

TraceCopy::TraceCopy(const model::Trace& from, model::TraceBuilder& to)
    : from_(from),
      to_(to),
      texts_(from.strings.size(), kNone),
      frames_(from.stacks.frame_count(), kNone),
      stacks_(from.stacks.stack_count(), kNone),
      tensors_(from.tensors.size(), kNone) {
  texts_.front() = 0;
  stacks_[model::kNoStack.index()] = model::kNoStack.value;
  stacks_[model::kEmptyStack.index()] = model::kEmptyStack.value;
  tensors_.front() = 0;
}

model::StringId TraceCopy::text(model::StringId id) {
  std::uint32_t& row = texts_[id.index()];
  if (row == kNone) row = to_.strings().intern(from_.strings[id]).value;
  return model::StringId{row};
}

model::FrameId TraceCopy::frame(model::FrameId id) {
  std::uint32_t& row = frames_[id.index()];
  if (row != kNone) return model::FrameId{row};
  model::Frame frame = from_.stacks.frame(id);
  frame.file = text(frame.file);
  frame.function = text(frame.function);
  if (frame.notes != 0) {
    model::FrameNotes notes;
    for (const auto& [key, value] : from_.stacks.notes(frame.notes)) {
      notes.emplace_back(text(key), text(value));
    }
    frame.notes = to_.stacks().add_notes(std::move(notes));
  }
  const model::FrameId here = to_.stacks().intern_frame(frame);
  row = here.value;
  return here;
}

model::StackId TraceCopy::stack(model::StackId id) {
  std::uint32_t& row = stacks_[id.index()];
  if (row != kNone) return model::StackId{row};
  std::vector<model::FrameId> frames;
  for (const model::FrameId each : from_.stacks.frames(id)) frames.push_back(frame(each));
  const model::StackId here = to_.stacks().intern_stack(frames);
  row = here.value;
  return here;
}

model::TensorId TraceCopy::tensor(model::TensorId id) {
  std::uint32_t& row = tensors_[id.index()];
  if (row == kNone) {
    const model::Tensor& tensor = from_.tensors[id.index()];
    row = to_.add_tensor({text(tensor.name), text(tensor.dtype), text(tensor.shape)}).value;
  }
  return model::TensorId{row};
}

model::PoolId TraceCopy::pool(model::PoolId id) {
  return id == model::PoolId{} ? id : to_.pool(from_.pools[id.index()]);
}

model::Event TraceCopy::event(const model::DeviceTrace& device, std::size_t row) {
  model::Event event = from_.event(device, row);
  event.stream = stream(event.stream);
  event.stack = stack(event.stack);
  event.pool = pool(event.pool);
  if (event.shortage != model::ShortageId{}) {
    event.shortage = to_.add_shortage(from_.shortages[event.shortage.index()]);
  }
  for (model::StringId* word : {&event.category, &event.op, &event.inner_op, &event.forward_op,
                                &event.layer, &event.compile_context, &event.user_metadata}) {
    *word = text(*word);
  }
  return event;
}

model::Hindsight TraceCopy::hindsight(const model::DeviceTrace& device, std::size_t lifetime) {
  const model::Lifetimes& rows = device.lifetimes;
  return {text(rows.category[lifetime]), tensor(rows.tensor[lifetime]), rows.flags[lifetime],
          rows.use(lifetime)};
}

void TraceCopy::final_state(const model::DeviceTrace& device) {
  to_.name_device(device.device);
  if (device.has_block_sizes) to_.blocks_reported(device.device);
  if (device.history == model::History::kTruncated) to_.mark_truncated(device.device);
  if (!device.has_final_state) return to_.final_state_unknown(device.device);
  to_.final_state_known();
  for (std::uint32_t i = 0; i < device.segment_count; ++i) {
    model::Segment segment = from_.segments[device.first_segment + i];
    std::vector<model::Block> blocks;
    for (model::Block block : from_.blocks.span(segment.first_block, segment.block_count)) {
      block.stack = stack(block.stack);
      blocks.push_back(block);
    }
    segment.stream = stream(segment.stream);
    segment.stack = stack(segment.stack);
    segment.pool = pool(segment.pool);
    to_.add_segment(segment, blocks);
  }
}

void TraceCopy::settings() {
  if (from_.has_settings) to_.settings_known();
  for (const model::Setting& setting : from_.settings) to_.add_setting(setting);
}

void TraceCopy::program() {
  to_.program() = from_.program;
  for (model::Module module : from_.modules) {
    module.path = text(module.path);
    module.type = text(module.type);
    to_.add_module(module);
  }
  for (model::SourceLine line : from_.source.lines()) {
    line.file = text(line.file);
    to_.source().add(std::move(line));
  }
  for (const model::FunctionStart& start : from_.source.starts()) {
    to_.source().add(model::FunctionStart{text(start.file), text(start.function), start.line});
  }
}

void TraceCopy::annotations() {
  for (model::Annotation annotation : from_.annotations) {
    annotation.name = text(annotation.name);
    to_.add_annotation(annotation);
  }
}

}  // namespace plimsoll::attribution
