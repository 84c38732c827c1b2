#include "analysis/oom/shapes.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "model/categories.h"
#include "model/live_set.h"

namespace plimsoll::analysis::oom {
Shape parse_shape(std::string_view text) {
  Shape shape;
  if (text.size() < 3 || text.front() != '[' || text.back() != ']') return shape;
  const char* at = text.data() + 1;
  const char* const end = text.data() + text.size() - 1;
  while (at < end) {
    std::uint64_t size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc{}) return {};
    shape.push_back(size);
    at = next;
    while (at < end && (*at == ',' || *at == ' ')) ++at;
  }
  return shape;
}

std::string to_text(const Shape& shape) {
  std::string text;
  for (const std::uint64_t size : shape) {
    text += (text.empty() ? "[" : ", ") + std::to_string(size);
  }
  return text + "]";
}

std::vector<Shape> input_shapes(const History& history, const Step& step, std::uint32_t event) {
  const model::Trace& trace = history.trace();
  const model::DeviceTrace& device = history.device();
  std::vector<std::pair<std::uint64_t, Shape>> found;
  for (std::size_t at = step.first; at < step.last; ++at) {
    const Made& made = history.made()[at];
    if (made.born > event || made.died <= event) continue;
    if (trace.strings[trace.category(device, made.row)] != model::kInput) continue;
    const model::Tensor& tensor = trace.tensors[device.lifetimes.tensor[made.row].index()];
    Shape shape = parse_shape(trace.strings[tensor.shape]);
    if (!shape.empty()) found.emplace_back(made.requested_bytes, std::move(shape));
  }
  std::ranges::stable_sort(found, std::ranges::greater{},
                           [](const auto& input) { return input.first; });
  std::vector<Shape> shapes;
  for (auto& input : found) shapes.push_back(std::move(input.second));
  return shapes;
}

std::optional<std::uint64_t> batch_size(const std::vector<Shape>& inputs) {
  if (inputs.empty()) return std::nullopt;
  const std::uint64_t size = inputs.front().front();
  const bool is_shared =
      std::ranges::all_of(inputs, [&](const Shape& shape) { return shape.front() == size; });
  if (!is_shared || size == 0) return std::nullopt;
  return size;
}

}  // namespace plimsoll::analysis::oom
