#include "logs/labelled.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "logs/numbers.h"
#include "sample/names.h"

namespace plimsoll::logs {
namespace {

// A label has fewer words than a sentence.
constexpr std::size_t kMostLabelWords = 5;
constexpr std::size_t kMostLabelledShares = 64;

using Words = std::vector<std::string>;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Lowercase letters and digits; everything else separates, and so does a capital in "MemAllocated".
Words words_of(std::string_view text) {
  Words words;
  bool is_inside = false;
  bool was_lower = false;
  for (const char c : text) {
    const bool is_part = is_letter(c) || is_digit(c);
    const bool is_capital = c >= 'A' && c <= 'Z';
    if (is_part && (!is_inside || (is_capital && was_lower))) words.emplace_back();
    if (is_part) words.back() += static_cast<char>(is_digit(c) ? c : c | 0x20);
    is_inside = is_part;
    was_lower = is_letter(c) && !is_capital;
  }
  return words;
}

bool has(const Words& words, std::string_view word) { return std::ranges::count(words, word) > 0; }

struct Size {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::uint64_t bytes = 0;
};

// Programs that print KB, MB or GB compute them with powers of 1024, as PyTorch's documents do.
std::optional<std::pair<double, std::size_t>> unit_at(std::string_view text) {
  constexpr std::string_view kPowers = "KMGT";
  const std::size_t power = text.empty() ? std::string_view::npos : kPowers.find(text.front());
  if (power == std::string_view::npos) return std::nullopt;
  const std::size_t length = text.substr(1).starts_with("iB") ? 3 : 2;
  if (text.size() < length || text[length - 1] != 'B') return std::nullopt;
  if (text.size() > length && (is_letter(text[length]) || is_digit(text[length]))) {
    return std::nullopt;
  }
  return std::pair(std::ldexp(1.0, 10 * static_cast<int>(power + 1)), length);
}

std::string_view without_signs(std::string_view text) {
  while (!text.empty() && std::string_view(" \t:=").find(text.back()) != std::string_view::npos) {
    text.remove_suffix(1);
  }
  return text;
}

// The last part of what precedes a size: "CPU" of "After loading: CPU: ".
Words label_before(std::string_view text) {
  text = without_signs(text);
  const std::size_t delimiter = text.find_last_of(",|;():=");
  if (delimiter != std::string_view::npos) text.remove_prefix(delimiter + 1);
  return words_of(text);
}

// The unit that a word of a label names: "allocated_gb".
std::optional<double> unit_in(std::string_view word) {
  constexpr std::array<std::string_view, 4> kPowers{"", "k", "m", "g"};
  if (word == "bytes") return 1.0;
  for (std::size_t power = 1; power < kPowers.size(); ++power) {
    for (const std::string_view end : {"b", "ib"}) {
      if (word == std::string(kPowers[power]).append(end)) {
        return std::ldexp(1.0, 10 * static_cast<int>(power));
      }
    }
  }
  return std::nullopt;
}

// The unit of a number that has none behind it: that of its label, or of a heading before it
// ("memory (MB) | allocated: 8073.4"). torch.cuda.memory_allocated() returns bytes.
std::optional<double> implied_unit(std::string_view before, std::optional<double> number) {
  const Words label = label_before(before);
  if (label.empty()) return std::nullopt;
  if (const auto unit = unit_in(label.back())) return unit;
  constexpr double kLeastBytes = 1 << 20;
  const bool is_of_torch = label.size() >= 2 && label[label.size() - 2] == "memory" &&
                           (label.back() == "allocated" || label.back() == "reserved");
  if (is_of_torch && number && *number >= kLeastBytes && *number == std::floor(*number)) return 1.0;
  const std::size_t close = before.rfind("B)");
  const std::size_t open = close == before.npos ? close : before.rfind('(', close);
  if (open == before.npos) return std::nullopt;
  const Words heading = words_of(before.substr(open, close + 1 - open));
  return heading.size() == 1 ? unit_in(heading.front()) : std::nullopt;
}

// The next size without a sign: a signed one is a difference.
std::optional<Size> next_size(std::string_view line, std::size_t from) {
  while (from < line.size()) {
    const std::size_t begin = line.find_first_of("0123456789", from);
    if (begin == std::string_view::npos) return std::nullopt;
    const std::size_t end = std::min(line.find_first_not_of("0123456789.", begin), line.size());
    from = end;
    const char before = begin > 0 ? line[begin - 1] : ' ';
    if (before == '+' || before == '-' || before == '_' || before == '.' || is_letter(before)) {
      continue;
    }
    const auto number = number_in<double>(line.substr(begin, end - begin));
    const bool has_end =
        end == line.size() || std::string_view(" ,|;)]}").find(line[end]) != line.npos;
    const std::size_t after = end < line.size() && line[end] == ' ' ? end + 1 : end;
    if (const auto unit = unit_at(line.substr(after))) {
      const auto bytes = bytes_of(number, unit->first);
      if (bytes) return Size{begin, after + unit->second, *bytes};
      continue;
    }
    const auto unit = has_end ? implied_unit(line.substr(0, begin), number) : std::nullopt;
    const auto bytes = unit ? bytes_of(number, *unit) : std::nullopt;
    if (bytes) return Size{begin, end, *bytes};
  }
  return std::nullopt;
}

bool is_dtype(std::string_view word) {
  constexpr std::array<std::string_view, 5> kKinds{"float", "bfloat", "int", "uint", "complex"};
  return word == "bool" || std::ranges::any_of(kKinds, [&](std::string_view kind) {
           return word.starts_with(kind) && word.size() > kind.size() && is_digit(word.back());
         });
}

// The category of "parameters" or "Activation".
std::optional<std::string> category_in(const Words& words) {
  if (words.front() == "optimizer") return "optimizer_state";
  if (words.size() != 1) return std::nullopt;
  for (const auto& [category, plural] : sample::kFiveWays) {
    if (words.front() == plural || words.front() == category) {
      return std::string(category.empty() ? plural : category);
    }
  }
  return std::nullopt;
}

DeviceMemory& device_named(std::string_view name, MemorySample& sample) {
  const auto known = std::ranges::find(sample.devices, name, &DeviceMemory::name);
  if (known != sample.devices.end()) return *known;
  DeviceMemory& device = sample.devices.emplace_back();
  device.name = name;
  return device;
}

// "gpu:1" of "[GPU 1] allocated", "cuda:1 allocated" or "GPU1"; empty if the words name none.
// Leaves "gpu" and what follows.
std::string take_device(Words& words) {
  for (std::size_t i = words.size(); i-- > 0;) {
    for (const std::string_view kind : {"gpu", "cuda"}) {
      if (!words[i].starts_with(kind)) continue;
      std::string number = words[i].substr(kind.size());
      const bool is_apart = number.empty() && i + 1 < words.size();
      if (is_apart) number = words[i + 1];
      if (!count_in(number)) continue;
      words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(is_apart ? i + 1 : i));
      words.front() = "gpu";
      return std::string(kind) + ':' + number;
    }
  }
  return {};
}

// The figures of a line go to the device that it named last.
struct Line {
  MemorySample& sample;
  std::string device = std::string(kUnnamedDevice);

  DeviceMemory& memory() { return device_named(device, sample); }
};

bool take_share(const Words& label, std::uint64_t bytes, Line& line) {
  const auto category = category_in(label);
  if (!category && !(label.size() == 1 && is_dtype(label.front()))) return false;
  DeviceMemory& device = line.memory();
  auto& shares = category ? device.categories : device.dtypes;
  if (shares.size() == kMostLabelledShares) return false;
  shares.push_back({category.value_or(label.front()), bytes, 0});
  if (category) device.live_bytes += bytes;
  return true;
}

bool take_size(const Words& label, std::uint64_t bytes, Line& line) {
  if (label.empty() || label.size() > kMostLabelWords) return false;
  const std::string& last = label.back();
  const bool is_peak = has(label, "peak") || has(label, "max");
  const bool is_device = has(label, "gpu") || has(label, "vram") || has(label, "cuda");
  // "GPU" and "GPU memory", but not "GPU total"
  const auto is_other = [](const std::string& word) {
    return word == "total" || word == "free" || word == "available" || word == "limit";
  };
  const bool is_whole = label.size() <= 2 && std::ranges::none_of(label, is_other);
  if (last == "reserved" || last == "cached") {
    if (!is_peak) line.memory().reserved_bytes = bytes;
    return true;
  }
  if (is_peak && (is_device || last == "allocated" || last == "peak")) {
    line.memory().peak_bytes = bytes;
    return true;
  }
  if (last == "allocated" || (is_device && is_whole)) {
    line.memory().allocated_bytes = bytes;
    return true;
  }
  if (last == "cpu" || last == "rss" || last == "ram") {
    line.sample.host.rss_bytes = bytes;
    return true;
  }
  return take_share(label, bytes, line);
}

// "Total Tensors: 1267", "Large Tensors (>100MB): 7"
bool take_count(std::string_view line, MemorySample& sample) {
  const std::size_t colon = line.rfind(':');
  if (colon == std::string_view::npos) return false;
  const Words label = words_of(line.substr(0, line.find_first_of("(:")));
  if (label == Words{"fragmentation"}) return true;  // computed from the sizes
  const auto count = count_in(trimmed(line.substr(colon + 1)));
  if (!count || label.empty() || label.size() > 2 || label.back() != "tensors") return false;
  DeviceMemory& device = device_named(kUnnamedDevice, sample);
  if (label.front() != "large") {
    device.live_count = *count;
    return true;
  }
  device.large_count = *count;
  if (const auto least = next_size(line, 0)) sample.large_tensor_bytes = least->bytes;
  return true;
}

}  // namespace

std::optional<double> number_behind(std::string_view line, std::string_view word) {
  std::string lower(line);
  for (char& c : lower) c = static_cast<char>(is_letter(c) ? c | 0x20 : c);
  for (std::size_t at = lower.find(word); at != lower.npos; at = lower.find(word, at + 1)) {
    if (at > 0 && (is_letter(lower[at - 1]) || lower[at - 1] == '_')) continue;
    std::size_t begin = lower.find_first_not_of(" :=#", at + word.size());
    if (begin == lower.npos || begin == at + word.size()) continue;
    const std::size_t end = std::min(lower.find_first_of(" ,;|/:)]", begin), lower.size());
    if (const auto number = number_in<double>(line.substr(begin, end - begin))) return number;
  }
  return std::nullopt;
}

bool take_labelled(std::string_view line, MemorySample& sample) {
  if (take_count(line, sample)) return true;
  Line figures{sample};
  bool is_taken = false;
  std::size_t from = 0;
  for (auto size = next_size(line, 0); size; size = next_size(line, size->end)) {
    const std::string_view before = line.substr(from, size->begin - from);
    std::string_view after = line.substr(size->end);
    after = after.substr(0, after.find_first_of(",|;()"));
    const Words behind = words_of(after);
    Words words = words_of(before);
    if (std::string device = take_device(words); !device.empty()) {
      figures.device = std::move(device);
    }
    Words label = label_before(before);
    take_device(label);
    // "step 1 loss 0.5 memory allocated": a number ends the label before it.
    const auto number = std::find_if(label.rbegin(), label.rend(),
                                     [](const std::string& word) { return count_in(word); });
    if (number != label.rbegin()) label.erase(label.begin(), number.base());
    if (!label.empty() && unit_in(label.back())) label.pop_back();
    if (label.size() == 2 && label.back() == "memory") label.pop_back();  // "Allocated memory"
    if (label.size() == 1 && figures.device.ends_with(":" + label.front()))
      label = {"gpu"};  // "cuda:1: 23.1 MB"
    const bool is_behind = behind.size() == 1 && label.size() <= 1;
    is_taken = (is_behind && take_size(behind, size->bytes, figures)) ||
               take_size(label, size->bytes, figures) || is_taken;
    from = size->end;
  }
  if (is_taken && !sample.loss) sample.loss = number_behind(line, "loss");
  return is_taken;
}

void add_figures(MemorySample&& later, MemorySample& sample) {
  const auto replace = [](auto& figure, const auto& newer) {
    if (newer) figure = newer;
  };
  for (DeviceMemory& from : later.devices) {
    DeviceMemory& to = device_named(from.name, sample);
    replace(to.allocated_bytes, from.allocated_bytes);
    replace(to.reserved_bytes, from.reserved_bytes);
    replace(to.peak_bytes, from.peak_bytes);
    for (const auto shares : {&DeviceMemory::categories, &DeviceMemory::dtypes}) {
      const std::size_t room = kMostLabelledShares - (to.*shares).size();
      (from.*shares).resize(std::min(room, (from.*shares).size()));
      std::ranges::move(from.*shares, std::back_inserter(to.*shares));
    }
    to.live_bytes += from.live_bytes;
    if (from.live_count > 0) to.live_count = from.live_count;
    if (from.large_count > 0) to.large_count = from.large_count;
  }
  replace(sample.host.rss_bytes, later.host.rss_bytes);
  if (!sample.loss) sample.loss = later.loss;
  if (later.large_tensor_bytes > 0) sample.large_tensor_bytes = later.large_tensor_bytes;
}

std::optional<std::int64_t> iteration_in(std::string_view line) {
  for (const std::string_view word : {"iteration", "iter", "step"}) {
    const auto number = number_behind(line, word);
    if (number && *number >= 0 && *number <= static_cast<double>(kMostInLogs)) {
      return static_cast<std::int64_t>(*number);
    }
  }
  return std::nullopt;
}

}  // namespace plimsoll::logs
