#include "top/trend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <ranges>
#include <vector>

#include "base/units.h"

namespace plimsoll::top {
namespace {

constexpr std::array<const char*, 8> kLetters = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr double kFlat = 0.01;

}  // namespace

void Trend::add(std::int64_t time_ns, std::uint64_t bytes, std::int64_t step) {
  points_.push_back({time_ns, bytes, step});
  while (points_.front().time_ns < time_ns - kSpanNs) points_.pop_front();
}

std::string Trend::sparkline(std::size_t columns) const {
  if (points_.empty()) return std::string(columns, ' ');
  const std::int64_t from_ns = points_.back().time_ns - kSpanNs;
  std::vector<std::optional<std::uint64_t>> highest(columns);
  for (const Point& point : points_) {
    const double place =
        static_cast<double>(point.time_ns - from_ns) / static_cast<double>(kSpanNs);
    const auto column = static_cast<std::size_t>(place * static_cast<double>(columns));
    auto& value = highest[std::min(column, columns - 1)];
    value = std::max(value.value_or(0), point.bytes);
  }
  const auto [low, high] = std::ranges::minmax(points_, {}, &Point::bytes);
  const auto range = static_cast<double>(high.bytes - low.bytes);
  const bool is_flat = range <= kFlat * static_cast<double>(high.bytes);
  std::string text;
  for (const auto& value : highest) {
    if (!value) {
      text += ' ';
      continue;
    }
    const double share = is_flat ? 0.5 : static_cast<double>(*value - low.bytes) / range;
    text += kLetters[static_cast<std::size_t>(std::lround(share * (kLetters.size() - 1)))];
  }
  return text;
}

std::optional<Trend::Thirds> Trend::thirds() const {
  constexpr std::ptrdiff_t kPointsOfThird = 3;
  const auto known =
      std::ranges::find_if(points_, [](const Point& point) { return point.step > 0; });
  const std::ptrdiff_t third = (points_.end() - known) / 3;
  if (third < kPointsOfThird) return std::nullopt;
  const auto range_of = [&](std::ptrdiff_t part) {
    const auto begin = known + part * third;
    const auto [low, high] =
        std::ranges::minmax(std::ranges::subrange(begin, begin + third), {}, &Point::bytes);
    return Range{low, high};
  };
  return Thirds{range_of(0), range_of(1), range_of(2)};
}

std::string Trend::change() const {
  if (points_.size() < 2) return {};
  Point first = points_.front();
  Point last = points_.back();
  std::string span;
  if (has_steps()) {
    const auto parts = thirds();
    if (!parts) return {};
    first = parts->first.low;
    last = parts->last.low;
    const std::int64_t steps = last.step - first.step;
    if (steps <= 0) return {};
    span = base::counted(static_cast<std::uint64_t>(steps), "step");
  } else {
    span = std::to_string((last.time_ns - first.time_ns + 500'000'000) / 1'000'000'000) + " s";
  }
  const auto change =
      static_cast<std::int64_t>(last.bytes) - static_cast<std::int64_t>(first.bytes);
  return (change >= 0 ? "+" : "") + base::bytes_text(change) + " in " + span;
}

void Trend::set_left_behind(std::optional<std::uint64_t> bytes_per_step) {
  knows_allocations_ = true;
  left_behind_ = bytes_per_step;
}

std::string Trend::growth() const {
  if (knows_allocations_) {
    if (left_behind_.value_or(0) == 0) return {};
    return "+" + base::bytes_text(*left_behind_) + " per step";
  }
  constexpr std::int64_t kFewestSteps = 6;
  const auto parts = thirds();
  if (!parts) return {};
  const auto& [first, middle, last] = *parts;
  const bool rises = first.low.bytes < middle.low.bytes && middle.low.bytes < last.low.bytes &&
                     first.high.bytes < middle.high.bytes && middle.high.bytes < last.high.bytes;
  const std::int64_t steps = last.low.step - first.low.step;
  if (!rises || steps < kFewestSteps) return {};
  const std::uint64_t grown = last.low.bytes - first.low.bytes;
  if (static_cast<double>(grown) < kFlat * static_cast<double>(last.high.bytes)) return {};
  return "+" + base::bytes_text(static_cast<std::int64_t>(grown) / steps) + " per step";
}

}  // namespace plimsoll::top
