#include "analysis/digest/keys.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "model/categories.h"

namespace plimsoll::analysis::digest {
namespace {

constexpr char kBetweenParts = '\0';

std::uint64_t function_id(const model::Frame& frame) {
  return std::uint64_t{frame.file.value} << 32 | frame.function.value;
}

std::string hash_text(std::uint64_t hash) {
  std::string text(report::kHashTextSize, '0');
  text[0] = report::kHashMark;
  for (std::size_t at = text.size() - 1; at > 0; --at, hash >>= 4) {
    text[at] = "0123456789abcdef"[hash & 0xF];
  }
  return text;
}

}  // namespace

std::size_t Keys::Hash::operator()(const Parts& parts) const {
  return base::hash_bytes(&parts, sizeof parts);
}

Keys::Keys(const model::Trace& trace, const model::DeviceTrace& device,
           const model::UserLines& lines, const Repetitions& repetitions,
           std::vector<report::DigestKey>& out)
    : trace_(trace),
      device_(device),
      lines_(lines),
      repetitions_(repetitions),
      out_(out),
      layers_(trace),
      operators_(trace) {
  for (std::uint32_t row = 0; row < trace.stacks.frame_count(); ++row) {
    const model::Frame& frame = trace.stacks.frame(model::FrameId{row});
    if (frame.line == model::kUnknownLine) continue;
    const auto [place, is_new] = first_lines_.try_emplace(function_id(frame), frame.line);
    if (!is_new) place->second = std::min(place->second, frame.line);
  }
}

KeyedLayer Keys::of(const model::LiveAllocation& live) {
  const std::size_t row = live.lifetime;
  const model::Site& birth = trace_.birth(device_, row);
  const bool is_known = model::is_known_category(trace_, live.category);
  const model::LayerId layer = layers_.of(device_, row);
  const Parts parts{
      .category = is_known ? live.category.value : 0,
      .phase = static_cast<std::uint32_t>(birth.phase),
      .layer = layer.value,
      .op = operators_.id(birth.op, live.stack),
      .line = live.line.value,
      .dtype = dtype_of(live),
  };
  const auto [place, is_new] = by_parts_.try_emplace(parts, 0);
  if (is_new) place->second = intern(describe(live, parts));
  return {place->second, layer};
}

std::uint32_t Keys::unexplained() {
  report::DigestKey key;
  key.device = to_string(device_.device);
  key.category = model::kUnknownCategory;
  key.function = "[not explained by the events of the file]";
  key.place = key.function;
  return intern(std::move(key));
}

// Only of what modules and optimizers own: of other memory, it depends on when a tensor was seen.
std::uint32_t Keys::dtype_of(const model::LiveAllocation& live) const {
  const std::string_view category = trace_.strings[live.category];
  const bool is_owned = category == model::kParameter || category == model::kGradient ||
                        category == model::kOptimizerState || category == model::kBuffer;
  if (!is_owned) return 0;
  return trace_.tensors[device_.lifetimes.tensor[live.lifetime].index()].dtype.value;
}

report::DigestKey Keys::describe(const model::LiveAllocation& live, const Parts& parts) const {
  report::DigestKey key;
  key.device = to_string(device_.device);
  key.category = parts.category == 0 ? model::kUnknownCategory : trace_.strings[live.category];
  if (trace_.has_phases()) key.phase = name_of(static_cast<model::Phase>(parts.phase));
  key.example_layer = layers_.path(model::LayerId{parts.layer});
  key.layer = repetitions_.fold(key.example_layer);
  key.op = operators_.name(parts.op);
  key.dtype = trace_.strings[model::StringId{parts.dtype}];
  add_line(live, key);
  return key;
}

void Keys::add_line(const model::LiveAllocation& live, report::DigestKey& key) const {
  key.place = model::line_name(lines_, live.line);
  const bool has_frame = live.line != model::before_recording(lines_) &&
                         lines_.why(live.stack) == model::NoLine::kHasLine;
  if (!has_frame) {
    key.function = key.place;  // the reason
    return;
  }
  const model::Frame& frame = trace_.stacks.frame(lines_.frame(live.stack));
  key.function = trace_.strings[frame.function];
  if (frame.line == model::kUnknownLine) return;
  const model::SourceLine* const source = trace_.source.line(frame.file, frame.line);
  if (source != nullptr) key.text = source->text.empty() ? hash_text(source->hash) : source->text;
  std::uint32_t first = trace_.source.first_line(frame.file, frame.function, frame.line);
  if (first == 0) first = first_lines_.at(function_id(frame));
  key.offset = std::int64_t{frame.line} - first;
}

// Layers that differ only in their indices have the same key; the first one is the example.
std::uint32_t Keys::intern(report::DigestKey key) {
  std::string text;
  for (const std::string* const part : {&key.device, &key.category, &key.phase, &key.layer, &key.op,
                                        &key.function, &key.text, &key.dtype}) {
    text += *part;
    text += kBetweenParts;
  }
  if (key.text.empty()) text += std::to_string(key.offset);
  const auto next = static_cast<std::uint32_t>(out_.size());
  const auto [place, is_new] = by_text_.try_emplace(std::move(text), next);
  if (is_new) out_.push_back(std::move(key));
  return place->second;
}

}  // namespace plimsoll::analysis::digest
