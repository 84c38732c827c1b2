#include "logs/labelled.h"

#include <algorithm>
#include <array>
#include <cmath>
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

// Lowercase letters and digits; everything else separates.
Words words_of(std::string_view text) {
  Words words;
  bool is_inside = false;
  for (const char c : text) {
    const bool is_part = is_letter(c) || is_digit(c);
    if (is_part && !is_inside) words.emplace_back();
    if (is_part) words.back() += static_cast<char>(is_digit(c) ? c : c | 0x20);
    is_inside = is_part;
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

// The next size without a sign: a signed one is a difference.
std::optional<Size> next_size(std::string_view line, std::size_t from) {
  while (from < line.size()) {
    const std::size_t begin = line.find_first_of("0123456789", from);
    if (begin == std::string_view::npos) return std::nullopt;
    std::size_t end = std::min(line.find_first_not_of("0123456789.", begin), line.size());
    from = end;
    const char before = begin > 0 ? line[begin - 1] : ' ';
    if (before == '+' || before == '-' || before == '_' || before == '.' || is_letter(before)) {
      continue;
    }
    const auto number = number_in<double>(line.substr(begin, end - begin));
    if (end < line.size() && line[end] == ' ') ++end;
    const auto unit = unit_at(line.substr(end));
    const auto bytes = unit ? bytes_of(number, unit->first) : std::nullopt;
    if (bytes) return Size{begin, end + unit->second, *bytes};
  }
  return std::nullopt;
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

bool take_share(const Words& label, std::uint64_t bytes, MemorySample& sample) {
  const auto category = category_in(label);
  if (!category && !(label.size() == 1 && is_dtype(label.front()))) return false;
  DeviceMemory& device = unnamed_device(sample);
  auto& shares = category ? device.categories : device.dtypes;
  if (shares.size() == kMostLabelledShares) return false;
  shares.push_back({category.value_or(label.front()), bytes, 0});
  if (category) device.live_bytes += bytes;
  return true;
}

bool take_size(const Words& label, std::uint64_t bytes, MemorySample& sample) {
  if (label.empty() || label.size() > kMostLabelWords) return false;
  const std::string& last = label.back();
  const bool is_peak = has(label, "peak") || has(label, "max");
  const bool is_device = has(label, "gpu") || has(label, "vram") || has(label, "cuda");
  if (last == "reserved" || last == "cached") {
    if (!is_peak) unnamed_device(sample).reserved_bytes = bytes;
    return true;
  }
  if (is_peak && (is_device || last == "allocated" || last == "peak")) {
    unnamed_device(sample).peak_bytes = bytes;
    return true;
  }
  if (last == "allocated" || (is_device && label.size() <= 2)) {
    unnamed_device(sample).allocated_bytes = bytes;
    return true;
  }
  if (last == "cpu" || last == "rss" || last == "ram") {
    sample.host.rss_bytes = bytes;
    return true;
  }
  return take_share(label, bytes, sample);
}

// "Total Tensors: 1267", "Large Tensors (>100MB): 7"
bool take_count(std::string_view line, MemorySample& sample) {
  const std::size_t colon = line.rfind(':');
  if (colon == std::string_view::npos) return false;
  const Words label = words_of(line.substr(0, line.find_first_of("(:")));
  if (label == Words{"fragmentation"}) return true;  // computed from the sizes
  const auto count = count_in(trimmed(line.substr(colon + 1)));
  if (!count || label.empty() || label.size() > 2 || label.back() != "tensors") return false;
  DeviceMemory& device = unnamed_device(sample);
  if (label.front() != "large") {
    device.live_count = *count;
    return true;
  }
  device.large_count = *count;
  if (const auto least = next_size(line, 0)) sample.large_tensor_bytes = least->bytes;
  return true;
}

// The number behind a word: 0.1 of "loss=0.1".
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

}  // namespace

DeviceMemory& unnamed_device(MemorySample& sample) {
  const auto known = std::ranges::find(sample.devices, kUnnamedDevice, &DeviceMemory::name);
  if (known != sample.devices.end()) return *known;
  DeviceMemory& device = sample.devices.emplace_back();
  device.name = kUnnamedDevice;
  return device;
}

bool take_labelled(std::string_view line, MemorySample& sample) {
  if (take_count(line, sample)) return true;
  bool is_taken = false;
  std::size_t from = 0;
  for (auto size = next_size(line, 0); size; size = next_size(line, size->end)) {
    const std::string_view before = line.substr(from, size->begin - from);
    std::string_view after = line.substr(size->end);
    after = after.substr(0, after.find_first_of(",|;()"));
    const Words behind = words_of(after);
    const bool is_behind = behind.size() == 1 && label_before(before).size() <= 1;
    is_taken = (is_behind && take_size(behind, size->bytes, sample)) ||
               take_size(label_before(before), size->bytes, sample) || is_taken;
    from = size->end;
  }
  if (is_taken && !sample.loss) sample.loss = number_behind(line, "loss");
  return is_taken;
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
