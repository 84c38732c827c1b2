#include "engine/parse_options.h"

#include <charconv>
#include <cmath>
#include <string>
#include <utility>

namespace plimsoll::engine {
namespace {

using analysis::Moment;

Error bad_moment(std::string_view text) {
  return make_error(ErrorCode::kInvalidArgument,
                    "at \"" + std::string(text) +
                        "\": not a point in time; use peak, start, end, oom (the last failure), "
                        "oom:1 (the first), an event number such as 1200, or a time since the "
                        "first event such as 1.5s, 300ms or 20us");
}

}  // namespace

Result<model::Device> parse_device(std::string_view text, const model::Trace& trace) {
  std::string known;
  for (const model::DeviceTrace& device : trace.devices) {
    const std::string name = to_string(device.device);
    if (text == name || text == std::to_string(device.device.ordinal)) return device.device;
    known += (known.empty() ? "" : ", ") + name;
  }
  return make_error(ErrorCode::kInvalidArgument, "device \"" + std::string(text) +
                                                     "\" is not in this file; it has " +
                                                     (known.empty() ? "no device" : known));
}

Result<Moment> parse_moment(std::string_view text) {
  Moment moment;
  if (text.empty() || text == "peak") return moment;
  for (const auto& [name, kind] : {std::pair{"start", Moment::Kind::kStart},
                                   {"end", Moment::Kind::kEnd},
                                   {"oom", Moment::Kind::kOom}}) {
    if (text == name) {
      moment.kind = kind;
      return moment;
    }
  }
  const char* const end = text.data() + text.size();
  if (constexpr std::string_view kNth = "oom:"; text.starts_with(kNth)) {
    auto [at, error] = std::from_chars(text.data() + kNth.size(), end, moment.nth);
    if (error != std::errc{} || at != end || moment.nth == 0) return bad_moment(text);
    moment.kind = Moment::Kind::kOom;
    return moment;
  }
  if (auto [at, error] = std::from_chars(text.data(), end, moment.event);
      error == std::errc{} && at == end) {
    moment.kind = Moment::Kind::kEvent;
    return moment;
  }
  double amount = 0;
  auto [at, error] = std::from_chars(text.data(), end, amount);
  const std::string_view unit(at, static_cast<std::size_t>(end - at));
  const double scale = unit == "s" ? 1e9 : unit == "ms" ? 1e6 : unit == "us" ? 1e3 : 0;
  if (error != std::errc{} || scale == 0 || !(amount >= 0) || amount * scale > 9e18) {
    return bad_moment(text);
  }
  moment.kind = Moment::Kind::kTime;
  moment.time_ns = std::llround(amount * scale);
  moment.is_relative = true;
  moment.unit_ns = static_cast<std::int64_t>(scale);
  return moment;
}

}  // namespace plimsoll::engine
