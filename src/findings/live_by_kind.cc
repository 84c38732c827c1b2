#include "findings/live_by_kind.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "findings/text.h"
#include "model/categories.h"
#include "model/live_set.h"

namespace plimsoll::findings {

LiveByKind live_by_kind(const Facts& facts, const DeviceFacts& device, std::int64_t event) {
  LiveByKind live;
  const model::Trace& trace = facts.trace;
  for (const std::uint32_t row :
       live_set(device.trace, model::default_liveness(device.trace), event)) {
    const std::uint64_t bytes = trace.lifetime_bytes(device.trace, row);
    const std::string_view category = trace.strings[trace.category(device.trace, row)];
    live.all += bytes;
    if (category == model::kActivation) {
      live.activations += bytes;
    } else if (category == model::kActivationGradient) {
      live.activation_gradients += bytes;
    } else if (category == model::kParameter || category == model::kBuffer) {
      live.parameters += bytes;
    } else if (category == model::kGradient) {
      live.gradients += bytes;
    } else if (category == model::kOptimizerState) {
      live.optimizer_state += bytes;
    }
  }
  return live;
}

std::string kinds_text(const LiveByKind& live) {
  std::array kinds{std::pair{"parameters", live.parameters}, std::pair{"gradients", live.gradients},
                   std::pair{"optimizer state", live.optimizer_state},
                   std::pair{"activations", live.activations},
                   std::pair{"gradients of activations", live.activation_gradients}};
  std::ranges::stable_sort(kinds, std::ranges::greater{},
                           [](const auto& kind) { return kind.second; });
  std::string text;
  for (const auto& [kind, bytes] : kinds) {
    if (bytes > 0)
      text += (text.empty() ? "" : ", ") + (std::string(kind) + " ") + bytes_text(bytes);
  }
  return text;
}

}  // namespace plimsoll::findings
