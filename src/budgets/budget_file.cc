#include "budgets/budget_file.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <system_error>
#include <utility>

#include "base/categories.h"
#include "base/input_file.h"
#include "base/suggestion.h"
#include "base/units.h"
#include "config/yaml_tree.h"
#include "report/finding.h"

namespace plimsoll::budgets {
namespace {

using config::YamlTree;
using config::YamlValue;
using Kind = YamlValue::Kind;
using Entries = std::vector<YamlValue::Pair>;

constexpr std::int64_t kMillion = 1'000'000;
constexpr std::int64_t kMostPercent = 1000;

const std::vector<std::string> kBudgetKeys = {
    "run",         "recording", "baseline",        "peak",           "may_grow",
    "by_category", "by_layer",  "growth_per_step", "unused_at_peak", "findings"};

// "0.5 %" or "0.5%" -> 5000 millionths.
std::optional<std::int64_t> parse_percent(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  const std::size_t dot = std::min(text.find('.'), text.size());
  std::string digits(text.substr(0, dot));
  std::string decimals(text.substr(std::min(dot + 1, text.size())));
  if (digits.empty() || decimals.size() > 4 || (dot < text.size() && decimals.empty())) {
    return std::nullopt;
  }
  digits += decimals + std::string(4 - decimals.size(), '0');
  std::int64_t millionths = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, millionths);
  const bool is_number = error == std::errc{} && end == last && digits.front() != '-';
  if (!is_number || millionths > kMostPercent * (kMillion / 100)) return std::nullopt;
  return millionths;
}

class BudgetReader {
 public:
  BudgetReader(const YamlTree& tree, std::string path) : tree_(tree) {
    file_.path = std::move(path);
  }

  Result<BudgetFile> read() {
    const YamlValue& root = tree_.root();
    if (root.kind == Kind::kNothing) {
      return make_error(ErrorCode::kInvalidArgument,
                        file_.path +
                            ": the file has no budget; write a name and, indented below it, run or "
                            "recording and a limit such as peak: 48 MiB");
    }
    PLIMSOLL_TRY_ASSIGN(const Entries entries, entries_of(root, ""));
    for (const auto& [key, value] : entries) {
      key_ = key->text;
      if (key_.empty()) return at(*key, "a budget needs a name");
      PLIMSOLL_TRY(read_budget(*key, *value));
    }
    PLIMSOLL_TRY(check_baselines());
    return std::move(file_);
  }

 private:
  Error at(const YamlValue& where, const std::string& sentence) const {
    return tree_.error(ErrorCode::kInvalidArgument, where,
                       key_.empty() ? sentence : key_ + ": " + sentence);
  }

  // The entries of a mapping with distinct keys, after merging `<<`.
  Result<Entries> entries_of(const YamlValue& map, const std::string& form) const {
    if (map.kind != Kind::kMap) {
      return at(map, "this is not a mapping" + (form.empty() ? " of names to budgets" : form));
    }
    std::map<std::string, int> lines;
    for (const auto& [key, value] : map.pairs) {
      const auto [known, is_new] = lines.emplace(key->text, key->line);
      if (is_new) continue;
      return at(*key, "duplicate key \"" + key->text + "\", first on line " +
                          std::to_string(known->second) + "; remove one of them");
    }
    return tree_.entries(map);
  }

  Status read_budget(const YamlValue& name, const YamlValue& value) {
    Budget& budget = file_.budgets.emplace_back();
    budget.name = name.text;
    if (budget.name.find(',') != budget.name.npos) {
      return at(name, "a name without a comma is needed: plimsoll check --only takes names as a,b");
    }
    budget.line = name.line;
    PLIMSOLL_TRY_ASSIGN(
        const Entries entries,
        entries_of(value, "; give run or recording, and limits: " + base::joined(kBudgetKeys)));
    const YamlValue* may_grow = nullptr;
    for (const auto& [key, content] : entries) {
      key_ = name.text;
      if (std::ranges::find(kBudgetKeys, key->text) == kBudgetKeys.end()) {
        const std::string close = base::did_you_mean(key->text, kBudgetKeys);
        return at(*key,
                  "unknown key \"" + key->text + "\"" +
                      (close.empty() ? "; the keys are " + base::joined(kBudgetKeys) : close));
      }
      key_ += "." + key->text;
      if (key->text == "may_grow") may_grow = content;
      PLIMSOLL_TRY(read_key(key->text, *key, *content, budget));
    }
    key_ = name.text;
    return check_complete(name, may_grow, budget);
  }

  Status check_complete(const YamlValue& name, const YamlValue* may_grow,
                        const Budget& budget) const {
    if (budget.run.empty() == budget.recording.empty()) {
      return at(name, budget.run.empty() ? "give run: SCRIPT, or recording: FILES"
                                         : "give run or recording, not both");
    }
    if (may_grow != nullptr && budget.baseline.empty()) {
      return at(*may_grow, "may_grow needs a baseline; add baseline: FILE");
    }
    if (budget.limits.empty() && budget.baseline.empty() && !budget.allowed_findings) {
      return at(name,
                "the budget has no limit; add peak, baseline, by_category, by_layer, "
                "growth_per_step, unused_at_peak or findings");
    }
    return {};
  }

  Status read_key(const std::string& key, const YamlValue& place, const YamlValue& value,
                  Budget& budget) {
    if (key == "run") return read_run(value, budget);
    if (key == "recording")
      return read_text(value, "a file or a pattern of files", budget.recording);
    if (key == "baseline") {
      budget.baseline_line = place.line;
      return read_text(value, "a file", budget.baseline);
    }
    if (key == "may_grow") return read_allowance(value, budget.may_grow);
    if (key == "by_category") return read_limits(LimitKind::kCategory, value, budget);
    if (key == "by_layer") return read_limits(LimitKind::kLayer, value, budget);
    if (key == "findings") {
      budget.findings_line = place.line;
      return read_findings(value, budget.allowed_findings.emplace());
    }
    if (key == "peak" && value.kind == Kind::kMap) {
      return read_limits(LimitKind::kPeak, value, budget);
    }
    const LimitKind kind = key == "peak"              ? LimitKind::kPeak
                           : key == "growth_per_step" ? LimitKind::kGrowth
                                                      : LimitKind::kUnusedAtPeak;
    Limit limit{.kind = kind, .line = place.line};
    PLIMSOLL_TRY_ASSIGN(limit.bytes, size_of(value));
    budget.limits.push_back(std::move(limit));
    return {};
  }

  Status read_text(const YamlValue& value, const std::string& form, std::string& out) const {
    if (value.kind != Kind::kText || value.text.empty() ||
        value.text.find('\0') != std::string::npos) {
      return at(value, "this is not " + form);
    }
    out = value.text;
    return {};
  }

  Status read_run(const YamlValue& value, Budget& budget) const {
    PLIMSOLL_TRY(read_text(value, "a command line, such as train.py --steps 6", budget.run));
    const auto words = split_words(budget.run);
    if (!words) return at(value, "a quote is not closed");
    return words->empty() ? Status(at(value, "the command line is empty; name a script"))
                          : Status();
  }

  Result<std::int64_t> size_of(const YamlValue& value) const {
    if (value.kind == Kind::kText) {
      if (const auto bytes = base::parse_bytes(value.text)) return *bytes;
    }
    const std::string given =
        value.kind == Kind::kText ? "\"" + value.text + "\"" : std::string("this");
    return at(value, given + " " +
                         base::size_error(value.kind == Kind::kText ? value.text : std::string()));
  }

  Status read_allowance(const YamlValue& value, Allowance& allowance) const {
    if (value.kind == Kind::kText && value.text.ends_with('%')) {
      if (const auto millionths = parse_percent(value.text)) {
        allowance.millionths = *millionths;
        return {};
      }
      return at(value, "\"" + value.text +
                           "\" is not a percentage of 0 to 1000 % with at most "
                           "four decimals");
    }
    PLIMSOLL_TRY_ASSIGN(allowance.bytes, size_of(value));
    return {};
  }

  Status read_limits(LimitKind kind, const YamlValue& value, Budget& budget) {
    const std::string around = key_;
    PLIMSOLL_TRY_ASSIGN(const Entries entries, entries_of(value, " of names to sizes"));
    for (const auto& [key, size] : entries) {
      key_ = around + "." + key->text;
      Limit limit{.kind = kind, .name = key->text, .line = key->line};
      if (key->kind != Kind::kText || key->text.empty()) return at(*key, "a name is missing");
      if (kind == LimitKind::kCategory) PLIMSOLL_TRY(check_category(*key));
      PLIMSOLL_TRY_ASSIGN(limit.bytes, size_of(*size));
      budget.limits.push_back(std::move(limit));
    }
    key_ = around;
    return entries.empty() ? Status(at(value, "this has no limits")) : Status();
  }

  Status check_category(const YamlValue& key) const {
    const std::vector<std::string> known(base::kCategoryNames.begin(), base::kCategoryNames.end());
    if (std::ranges::find(known, key.text) != known.end()) return {};
    const std::string close = base::did_you_mean(key.text, known);
    return at(key, "unknown category" +
                       (close.empty() ? "; the categories are " + base::joined(known) : close));
  }

  Status read_findings(const YamlValue& value, std::vector<std::string>& allowed) const {
    if (value.kind == Kind::kText && value.text == "none") return {};
    if (value.kind != Kind::kList) {
      return at(value, "write none, or a list of allowed ids, such as [gradients_kept]");
    }
    const std::vector<std::string> known(report::kFindingIds.begin(), report::kFindingIds.end());
    for (const YamlValue* const item : value.items) {
      if (std::ranges::find(known, item->text) == known.end()) {
        return at(*item,
                  "unknown finding \"" + item->text + "\"" + base::did_you_mean(item->text, known));
      }
      allowed.push_back(item->text);
    }
    return {};
  }

  // Two budgets with the same baseline file would overwrite each other's baseline.
  Status check_baselines() const {
    std::map<std::filesystem::path, const Budget*> owners;
    for (const Budget& budget : file_.budgets) {
      if (budget.baseline.empty()) continue;
      const auto path = std::filesystem::path(budget.baseline).lexically_normal();
      const auto [owner, is_new] = owners.emplace(path, &budget);
      if (is_new) continue;
      return make_error(ErrorCode::kInvalidArgument,
                        file_.path + ":" + std::to_string(budget.baseline_line) + ": " +
                            budget.name + ".baseline: " + budget.baseline +
                            " is also the baseline of " + owner->second->name +
                            "; give each budget its own file");
    }
    return {};
  }

  const YamlTree& tree_;
  BudgetFile file_;
  std::string key_;  // the key being read, for error messages: "net.by_layer"
};

}  // namespace

std::int64_t Allowance::of(std::int64_t baseline_bytes) const {
  if (baseline_bytes <= 0 || millionths == 0) return bytes;
  // Multiply quotient and remainder separately: the full product may overflow 64 bits.
  const std::int64_t whole = baseline_bytes / kMillion;
  if (whole > (std::numeric_limits<std::int64_t>::max() >> 1) / millionths) {
    return std::numeric_limits<std::int64_t>::max();
  }
  return whole * millionths + baseline_bytes % kMillion * millionths / kMillion;
}

std::optional<std::vector<std::string>> split_words(std::string_view line) {
  std::vector<std::string> words;
  bool is_in_word = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char letter = line[i];
    if (letter == ' ' || letter == '\t' || letter == '\n') {
      is_in_word = false;
      continue;
    }
    if (!std::exchange(is_in_word, true)) words.emplace_back();
    if (letter == '\\' && i + 1 < line.size()) {
      words.back() += line[++i];
    } else if (letter == '\'' || letter == '"') {
      for (++i; i < line.size() && line[i] != letter; ++i) {
        const bool is_escape = letter == '"' && line[i] == '\\' && i + 1 < line.size() &&
                               (line[i + 1] == '"' || line[i + 1] == '\\');
        words.back() += line[is_escape ? ++i : i];
      }
      if (i == line.size()) return std::nullopt;
    } else {
      words.back() += letter;
    }
  }
  return words;
}

Result<BudgetFile> parse_budgets(std::string_view yaml, const std::string& path) {
  const auto read = [&]() -> Result<BudgetFile> {
    PLIMSOLL_TRY_ASSIGN(const YamlTree tree, YamlTree::parse(yaml, path));
    return BudgetReader(tree, path).read();
  };
  auto file = read();
  if (file) return file;
  // The user wrote the file, so all that is wrong with it is a usage error.
  return make_error(ErrorCode::kInvalidArgument, file.error().message);
}

Result<BudgetFile> read_budgets(const std::string& path) {
  const base::InputFile file = base::open_input(path);
  if (file == nullptr) {
    const bool is_missing = errno == ENOENT;
    return make_error(
        is_missing ? ErrorCode::kNotFound : ErrorCode::kIo,
        path + ": " +
            (is_missing ? "there is no such file; docs/budgets.md shows how to write one"
                        : std::strerror(errno)));
  }
  std::string yaml;
  char buffer[65536];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, file.get())) {
    yaml.append(buffer, got);
    if (yaml.size() > YamlTree::kMostBytes) break;  // parse() reports that it is too large
  }
  if (std::ferror(file.get()) != 0) {
    return make_error(ErrorCode::kIo, path + ": cannot read: " + std::strerror(errno));
  }
  return parse_budgets(yaml, path);
}

}  // namespace plimsoll::budgets
