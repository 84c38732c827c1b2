#include "base/timestamps.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>

namespace plimsoll::base {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

// Consumes what it parses from the front of a text.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  std::optional<int> digits(std::size_t count) {
    int value = 0;
    if (rest_.size() < count) return std::nullopt;
    const std::string_view text = rest_.substr(0, count);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
    rest_.remove_prefix(count);
    return value;
  }
  bool any_of(std::string_view letters) {
    if (rest_.empty() || letters.find(rest_.front()) == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // The digits after a decimal point, as nanoseconds.
  std::int64_t fraction_ns() {
    std::int64_t ns = 0;
    for (std::int64_t unit = kNsPerSecond / 10; !rest_.empty() && is_digit(rest_.front());
         unit /= 10) {
      ns += unit * (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    return ns;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  static bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

  std::string_view rest_;
};

// Seconds since 1970 at the start of a day, or nullopt if the day does not exist.
std::optional<std::int64_t> day_seconds(Scanner& scan) {
  namespace chrono = std::chrono;
  const auto year = scan.digits(4);
  const bool is_split = scan.any_of("-/");
  const auto month = scan.digits(2);
  const bool is_split_again = scan.any_of("-/");
  const auto day = scan.digits(2);
  if (!year || !month || !day || !is_split || !is_split_again) return std::nullopt;
  const chrono::year_month_day date{chrono::year{*year},
                                    chrono::month(static_cast<unsigned>(*month)),
                                    chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  return chrono::seconds(chrono::sys_days(date).time_since_epoch()).count();
}

// The offset of a time zone from UTC.
std::optional<std::int64_t> zone_seconds(Scanner& scan) {
  if (scan.at_end() || (scan.any_of("Z") && scan.at_end())) return 0;
  const bool is_behind = scan.any_of("-");
  if (!is_behind && !scan.any_of("+")) return std::nullopt;
  const auto hours = scan.digits(2);
  scan.any_of(":");
  const auto minutes = scan.digits(2);
  if (!hours || !scan.at_end()) return std::nullopt;
  const std::int64_t seconds = (std::int64_t{*hours} * 60 + minutes.value_or(0)) * 60;
  return is_behind ? -seconds : seconds;
}

}  // namespace

std::int64_t now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::string utc_text(std::int64_t time_ns) {
  const std::int64_t milliseconds = std::max<std::int64_t>(time_ns, 0) / 1'000'000;
  const std::time_t seconds = static_cast<std::time_t>(milliseconds / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> day{};
  strftime(day.data(), day.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%s.%03dZ", day.data(),
                static_cast<int>(milliseconds % 1000));
  return text.data();
}

std::string local_stamp(std::int64_t time_ns) {
  const std::time_t seconds = static_cast<std::time_t>(time_ns / kNsPerSecond);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  strftime(text.data(), text.size(), "%Y%m%d_%H%M%S", &parts);
  return text.data();
}

std::optional<std::int64_t> parse_time(std::string_view text) {
  Scanner scan(text);
  const auto day = day_seconds(scan);
  if (!day || !scan.any_of("T ")) return std::nullopt;
  const auto hours = scan.digits(2);
  const bool is_split = scan.any_of(":");
  const auto minutes = scan.digits(2);
  const bool is_split_again = scan.any_of(":");
  const auto seconds = scan.digits(2);
  if (!hours || !minutes || !seconds || !is_split || !is_split_again) return std::nullopt;
  if (*hours > 23 || *minutes > 59 || *seconds > 60) return std::nullopt;
  const std::int64_t fraction_ns = scan.any_of(".,") ? scan.fraction_ns() : 0;
  const auto zone = zone_seconds(scan);
  if (!zone) return std::nullopt;
  const std::int64_t in_day = (std::int64_t{*hours} * 60 + *minutes) * 60 + *seconds;
  const std::int64_t point = *day + in_day - *zone;
  if (point < 0 || point > INT64_MAX / kNsPerSecond - 1) return std::nullopt;
  return point * kNsPerSecond + fraction_ns;
}

}  // namespace plimsoll::base
