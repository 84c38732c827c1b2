// Random attributes of allocations that a recorder may know: stack, layer, operator, category, ...
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include "model/trace_builder.h"

namespace plimsoll::tests {

class RandomAttribution {
 public:
  // Keeps references to both.
  RandomAttribution(model::TraceBuilder& builder, std::mt19937& random)
      : builder_(builder), random_(random) {
    for (std::uint32_t line = 1; line <= 5; ++line) stacks_.push_back(make_stack(line));
  }

  model::StackId stack() { return one_in(5) ? model::kNoStack : stacks_[below(5)]; }

  // Fills in the site of an alloc event, except for its stack.
  model::Hindsight attribute(model::Event& event) {
    static constexpr std::array<std::string_view, 6> kLayers = {
        "", "Net", "Net.down", "Net.down.0.conv", "Net.up.1", "Loss"};
    static constexpr std::array<std::string_view, 6> kCategories = {
        "", "unknown", "parameter", "gradient", "activation", "temporary"};
    static constexpr std::array<std::string_view, 3> kOps = {"", "aten::mm", "aten::add"};
    event.layer = word(kLayers[below(kLayers.size())]);
    event.op = word(kOps[below(kOps.size())]);
    event.phase = static_cast<model::Phase>(below(5));
    if (one_in(4)) event.category = word(kCategories[below(kCategories.size())]);
    model::Hindsight hindsight;
    hindsight.category = word(kCategories[below(kCategories.size())]);
    if (one_in(8)) hindsight.flags = model::LifetimeFlags::kAdopted;
    if (one_in(2)) {
      hindsight.tensor = builder_.add_tensor({word(one_in(2) ? "" : "Net.down.weight"),
                                              word(one_in(2) ? "float32" : "bfloat16"),
                                              word(one_in(2) ? "[3]" : "[4, 4]")});
    }
    return hindsight;
  }

 private:
  std::uint32_t below(std::size_t limit) { return static_cast<std::uint32_t>(random_() % limit); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }
  model::StringId word(std::string_view text) { return builder_.strings().intern(text); }

  model::StackId make_stack(std::uint32_t line) {
    model::Frame native, python;
    native.function = word(line % 2 == 0 ? "at::_ops::add::call" : "f");
    python.file = word("/home/u/train.py");
    python.function = word("main");
    python.line = line;
    const std::array frames = {builder_.stacks().intern_frame(native),
                               builder_.stacks().intern_frame(python)};
    return builder_.stacks().intern_stack(frames);
  }

  model::TraceBuilder& builder_;
  std::mt19937& random_;
  std::vector<model::StackId> stacks_;
};

}  // namespace plimsoll::tests
