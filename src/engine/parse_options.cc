#include "engine/parse_options.h"

#include <charconv>
#include <cmath>
#include <string>
#include <utility>

namespace plimsoll::engine {
namespace {

using analysis::TimePoint;

Error bad_point(std::string_view text) {
  return make_error(ErrorCode::kInvalidArgument,
                    "at \"" + std::string(text) +
                        "\": not a point in time; use peak, start, end, oom (the last failure), "
                        "oom:1 (the first), failure-or-peak (the failure that ended the program, "
                        "else the peak), step:9 (the peak within that step), an event number such "
                        "as 1200, or a time since the first "
                        "event such as 1.5s, 300ms or 20us");
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

Result<TimePoint> parse_point(std::string_view text) {
  TimePoint point;
  if (text.empty() || text == "peak") return point;
  for (const auto& [name, kind] : {std::pair{"start", TimePoint::Kind::kStart},
                                   {"end", TimePoint::Kind::kEnd},
                                   {"oom", TimePoint::Kind::kOom},
                                   {"failure-or-peak", TimePoint::Kind::kFailureOrPeak}}) {
    if (text == name) {
      point.kind = kind;
      return point;
    }
  }
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  for (const auto& [prefix, kind] :
       {std::pair<std::string_view, TimePoint::Kind>{"oom:", TimePoint::Kind::kOom},
        {"step:", TimePoint::Kind::kStep}}) {
    if (!text.starts_with(prefix)) continue;
    auto [at, error] = std::from_chars(begin + prefix.size(), end, point.nth);
    const bool is_first = kind == TimePoint::Kind::kOom && point.nth == 0;
    if (error != std::errc{} || at != end || is_first) return bad_point(text);
    point.kind = kind;
    return point;
  }
  if (auto [at, error] = std::from_chars(begin, end, point.event);
      error == std::errc{} && at == end) {
    point.kind = TimePoint::Kind::kEvent;
    return point;
  }
  double amount = 0;
  auto [at, error] = std::from_chars(begin, end, amount);
  const std::string_view unit(at, static_cast<std::size_t>(end - at));
  const double scale = unit == "s" ? 1e9 : unit == "ms" ? 1e6 : unit == "us" ? 1e3 : 0;
  if (error != std::errc{} || scale == 0 || !(amount >= 0) || amount * scale > 9e18) {
    return bad_point(text);
  }
  point.kind = TimePoint::Kind::kTime;
  point.time_ns = std::llround(amount * scale);
  point.is_relative = true;
  point.unit_ns = static_cast<std::int64_t>(scale);
  return point;
}

}  // namespace plimsoll::engine
