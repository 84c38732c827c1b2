#include "analysis/oom/shapes.h"

#include <charconv>
#include <string_view>

#include "model/categories.h"

namespace plimsoll::analysis::oom {

Inputs inputs_of(const History& history, const Step& step, std::uint32_t event) {
  const model::Trace& trace = history.trace();
  const model::DeviceTrace& device = history.device();
  Inputs inputs;
  std::uint64_t largest = 0;
  bool is_shared = true;
  for (std::size_t at = step.first; at < step.last; ++at) {
    const Made& made = history.made()[at];
    if (made.born > event || made.died <= event) continue;
    if (trace.strings[trace.category(device, made.row)] != model::kInput) continue;
    const model::Tensor& tensor = trace.tensors[device.lifetimes.tensor[made.row].index()];
    const std::string_view shape = trace.strings[tensor.shape];
    std::uint64_t size = 0;
    if (shape.size() < 3) continue;
    const auto parsed = std::from_chars(shape.data() + 1, shape.data() + shape.size(), size);
    if (parsed.ec != std::errc{}) continue;
    is_shared = is_shared && inputs.batch_size.value_or(size) == size && size > 0;
    inputs.batch_size = size;
    if (made.requested_bytes <= largest) continue;
    largest = made.requested_bytes;
    inputs.largest = shape;
  }
  if (!is_shared) inputs.batch_size.reset();
  return inputs;
}

}  // namespace plimsoll::analysis::oom
