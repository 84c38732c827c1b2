#include "logs/rank_tags.h"

#include <algorithm>
#include <array>
#include <optional>

#include "logs/labelled.h"
#include "logs/numbers.h"

namespace plimsoll::logs {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::size_t kMostDigits = 7;  // of a rank or a process ID

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The digits at the start of the text, which are removed; empty if they are no rank.
std::string take_digits(std::string_view& text) {
  const std::string_view digits = text.substr(0, text.find_first_not_of(kDigits));
  if (digits.size() > kMostDigits) return {};
  text.remove_prefix(digits.size());
  return std::string(digits);
}

bool take(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

// Whether a word counts iterations or devices.
bool is_counted(std::string_view word) {
  constexpr std::array<std::string_view, 7> kWords{"iter", "step", "epoch",     "batch",
                                                   "gpu",  "cuda", "checkpoint"};
  std::string lower(word);
  for (char& c : lower) c = static_cast<char>(is_letter(c) ? c | 0x20 : c);
  return std::ranges::any_of(kWords,
                             [&](std::string_view each) { return lower.starts_with(each); });
}

// "[rank3]: " of PyTorch, "[default3]:" of torchrun, "[1,3]<stdout>:" of mpirun.
std::optional<TaggedLine> in_brackets(std::string_view text) {
  if (!take(text, "[")) return std::nullopt;
  const std::string_view word = text.substr(0, text.find_first_of("0123456789] "));
  text.remove_prefix(word.size());
  std::string number = take_digits(text);
  const bool is_mpi = word.empty() && take(text, ",");
  if (is_mpi) number = take_digits(text);
  if (number.empty() || !take(text, "]")) return std::nullopt;
  if (is_mpi ? !(take(text, "<stdout>:") || take(text, "<stderr>:"))
             : word.empty() || is_counted(word) || !std::ranges::all_of(word, is_letter) ||
                   !take(text, ":")) {
    return std::nullopt;
  }
  return TaggedLine{"rank " + number, text};
}

// "[pod/trainer-3/main] " of kubectl logs --prefix
std::optional<TaggedLine> of_kubectl(std::string_view text) {
  const std::string_view tag = text.substr(0, text.find("] "));
  if (!tag.starts_with("[pod/") || tag.size() == text.size()) return std::nullopt;
  return TaggedLine{std::string(tag.substr(1)), text.substr(tag.size() + 2)};
}

// "(RayTrainWorker pid=123, ip=10.0.0.1) "
std::optional<TaggedLine> of_ray(std::string_view text) {
  const std::size_t end = text.find(") ");
  if (!text.starts_with('(') || end == text.npos) return std::nullopt;
  std::string_view pid = text.substr(0, end);
  pid.remove_prefix(std::min(pid.size(), pid.find("pid=")));
  if (!take(pid, "pid=")) return std::nullopt;
  const std::string number = take_digits(pid);
  if (number.empty()) return std::nullopt;
  return TaggedLine{"pid " + number, text.substr(end + 2)};
}

// "3: " of srun --label, "worker-3: " of pdsh, "trainer-1  | " of docker compose.
std::optional<TaggedLine> possible(std::string_view text) {
  const std::string_view name = text.substr(0, text.find_first_of(" :|"));
  std::string_view rest = text.substr(name.size());
  const std::size_t digits = name.find_last_not_of(kDigits) + 1;
  if (name.empty() || digits == name.size() || name.size() - digits > kMostDigits) {
    return std::nullopt;
  }
  if (digits > 0 && (!is_letter(name.front()) || is_counted(name))) return std::nullopt;
  if (take(rest, ":")) {
    if (!take(rest, " ")) return std::nullopt;
  } else if (digits == 0 || !take(rest = trimmed(rest), "| ")) {
    return std::nullopt;
  }
  return TaggedLine{digits == 0 ? "rank " + std::string(name) : std::string(name), rest};
}

// "[2026-11-29 12:00:00] Rank 3 | step 7"
std::optional<TaggedLine> by_word(std::string_view line) {
  const auto rank = number_behind(line, "rank");
  if (!rank || *rank < 0 || *rank > 1e7) return std::nullopt;
  return TaggedLine{"rank " + std::to_string(static_cast<int>(*rank)), line};
}

}  // namespace

TaggedLine RankTags::take(std::string_view line) {
  const std::string_view text = trimmed(line);
  for (const auto& sure : {in_brackets(text), of_kubectl(text), of_ray(text), by_word(text)}) {
    if (sure) return *sure;
  }
  auto tagged = possible(text);
  const bool is_repeated = tagged && tagged->process == last_;
  last_ = tagged ? tagged->process : std::string();
  if (!tagged) return {{}, line};
  are_sure_ = are_sure_ || is_repeated || iteration_in(tagged->line);
  return are_sure_ ? *tagged : TaggedLine{{}, line};
}

}  // namespace plimsoll::logs
