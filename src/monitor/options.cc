// MonitorOptions: the table of all options, and the parsing, checking and printing of their values.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "base/suggestion.h"
#include "base/utf8.h"
#include "plimsoll/monitor_options.h"

namespace plimsoll {
namespace {

constexpr std::string_view kEnvironmentPrefix = "PLIMSOLL_MONITOR_";
constexpr double kBytesPerMb = 1024.0 * 1024.0;

Error wrong(std::string message) {
  return make_error(ErrorCode::kInvalidArgument, std::move(message));
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result) {
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return result;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// ---- values from text -------------------------------------------------------------------------

// true, yes, on, 1; false, no, off, 0; in any case.
std::optional<bool> to_bool(std::string_view text) {
  constexpr std::array<std::string_view, 4> kYes = {"true", "yes", "on", "1"};
  constexpr std::array<std::string_view, 4> kNo = {"false", "no", "off", "0"};
  const std::string word = lower(text);
  if (std::ranges::find(kYes, word) != kYes.end()) return true;
  if (std::ranges::find(kNo, word) != kNo.end()) return false;
  return std::nullopt;
}

template <typename Number>
std::optional<Number> to_number(std::string_view text) {
  Number number{};
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, number);
  if (error != std::errc{} || stop != end || text.empty()) return std::nullopt;
  return number;
}

std::string number_text(double number) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return {digits.data(), end};
}

// "100", "100 MB", "1.5GB"; in MB.
std::optional<double> to_mb(std::string_view text) {
  double factor = 1;
  const std::string word = lower(text);
  std::string_view digits = word;
  for (const auto& [unit, size_mb] : {std::pair{"gb", 1024.0}, {"mb", 1.0}, {"kb", 1 / 1024.0}}) {
    if (!digits.ends_with(unit)) continue;
    digits.remove_suffix(2);
    factor = size_mb;
    break;
  }
  const std::optional<double> number = to_number<double>(trimmed(digits));
  if (!number || !std::isfinite(*number)) return std::nullopt;
  return *number * factor;
}

constexpr std::size_t kMostQuoted = 80;

// Quotes a value for an error message; long text is truncated.
std::string quoted(std::string_view text) {
  if (text.size() <= kMostQuoted) return "'" + std::string(text) + "'";
  std::size_t size = 0;
  while (size < kMostQuoted) {
    size += std::max<std::size_t>(1, base::utf8_sequence_length(text.substr(size)));
  }
  return "'" + std::string(text.substr(0, size)) + "\u2026' (" + std::to_string(text.size()) +
         " bytes)";
}

// ---- phases: "0-500:10, 500-:100" -------------------------------------------------------------

std::string range_text(const MonitorPhase& phase) {
  const std::string to = phase.to == MonitorPhase::kOpenEnd ? "" : std::to_string(phase.to);
  return std::to_string(phase.from) + "-" + to;
}

std::string phases_text(const std::vector<MonitorPhase>& phases) {
  std::string text;
  for (const MonitorPhase& phase : phases) {
    text += (text.empty() ? "" : ",") + range_text(phase) + ":" + std::to_string(phase.interval);
  }
  return text;
}

Result<MonitorPhase> to_phase(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::size_t dash = text.find('-', 1);  // skips the sign of the first number
  MonitorPhase phase;
  std::optional<std::int64_t> from;
  std::optional<std::int64_t> to;
  std::optional<std::int64_t> interval;
  if (colon != std::string_view::npos && dash < colon) {
    const std::string_view end = trimmed(text.substr(dash + 1, colon - dash - 1));
    from = to_number<std::int64_t>(trimmed(text.substr(0, dash)));
    to = end.empty() ? MonitorPhase::kOpenEnd : to_number<std::int64_t>(end);
    interval = to_number<std::int64_t>(trimmed(text.substr(colon + 1)));
  }
  if (!from || !to || !interval) {
    return wrong("phases: " + quoted(text) + " is not FROM-TO:INTERVAL, such as 0-500:10");
  }
  phase = {.from = *from, .to = *to, .interval = *interval};
  if (phase.from < 0) return wrong("phases: " + range_text(phase) + " begins below 0");
  if (phase.to <= phase.from) {
    return wrong("phases: " + range_text(phase) + " has no iteration (TO is the first after it)");
  }
  if (phase.interval < 1) {
    return wrong("phases: the interval of " + range_text(phase) + " is " +
                 std::to_string(phase.interval) + "; it must be at least 1");
  }
  return phase;
}

Result<std::vector<MonitorPhase>> to_phases(std::string_view text) {
  std::vector<MonitorPhase> phases;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find_first_of(",;", start), text.size());
    const std::string_view word = trimmed(text.substr(start, comma - start));
    start = comma + 1;
    if (word.empty()) continue;
    PLIMSOLL_TRY_ASSIGN(const MonitorPhase phase, to_phase(word));
    phases.push_back(phase);
  }
  std::ranges::sort(phases, {}, &MonitorPhase::from);
  for (std::size_t i = 1; i < phases.size(); ++i) {
    if (phases[i].from >= phases[i - 1].to) continue;
    return wrong("phases: " + range_text(phases[i - 1]) + " and " + range_text(phases[i]) +
                 " both hold iteration " + std::to_string(phases[i].from));
  }
  return phases;
}

// ---- thresholds: "90%,12GiB" -------------------------------------------------------------------

struct SizeUnit {
  std::string_view name;  // lower case, without the B
  std::uint64_t bytes;
};
constexpr std::array kSizeUnits = {
    SizeUnit{"ti", 1ULL << 40}, SizeUnit{"gi", 1ULL << 30}, SizeUnit{"mi", 1ULL << 20},
    SizeUnit{"ki", 1ULL << 10}, SizeUnit{"t", 1ULL << 40},  SizeUnit{"g", 1ULL << 30},
    SizeUnit{"m", 1ULL << 20},  SizeUnit{"k", 1ULL << 10},  SizeUnit{"", 1}};

std::string threshold_text(const MemoryThreshold& threshold) {
  if (threshold.percent > 0) return number_text(threshold.percent) + "%";
  const auto divides = [&](const SizeUnit& unit) { return threshold.bytes % unit.bytes == 0; };
  const SizeUnit& unit = *std::ranges::find_if(kSizeUnits, divides);  // the unit "bytes" always
                                                                      // matches
  std::string name;
  if (unit.bytes != 1) name = static_cast<char>(unit.name.front() - 'a' + 'A');
  return std::to_string(threshold.bytes / unit.bytes) + name + (name.empty() ? "B" : "iB");
}

std::string thresholds_text(const std::vector<MemoryThreshold>& thresholds) {
  std::string text;
  for (const MemoryThreshold& threshold : thresholds) {
    text += (text.empty() ? "" : ",") + threshold_text(threshold);
  }
  return text;
}

std::optional<std::uint64_t> to_bytes(std::string_view text) {
  if (!text.ends_with('b')) return std::nullopt;
  text.remove_suffix(1);
  const auto is_its = [&](const SizeUnit& unit) { return text.ends_with(unit.name); };
  const SizeUnit& unit = *std::ranges::find_if(kSizeUnits, is_its);
  const auto number = to_number<double>(trimmed(text.substr(0, text.size() - unit.name.size())));
  constexpr auto kMostBytes = static_cast<double>(1ULL << 60);
  if (!number || !(*number * static_cast<double>(unit.bytes) >= 1)) return std::nullopt;
  if (*number * static_cast<double>(unit.bytes) > kMostBytes) return std::nullopt;
  return static_cast<std::uint64_t>(std::llround(*number * static_cast<double>(unit.bytes)));
}

Result<MemoryThreshold> to_threshold(std::string_view text) {
  if (text.ends_with('%')) {
    const auto percent = to_number<double>(trimmed(text.substr(0, text.size() - 1)));
    if (percent && *percent > 0 && *percent < 100) return MemoryThreshold{.percent = *percent};
  } else if (const auto bytes = to_bytes(lower(text))) {
    return MemoryThreshold{.bytes = *bytes};
  }
  return wrong("alert_above: " + quoted(text) + " is not a threshold such as 90%, 12GiB or 12GB");
}

Result<std::vector<MemoryThreshold>> to_thresholds(std::string_view text) {
  std::vector<MemoryThreshold> thresholds;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find_first_of(",;", start), text.size());
    const std::string_view word = trimmed(text.substr(start, comma - start));
    start = comma + 1;
    if (word.empty()) continue;
    PLIMSOLL_TRY_ASSIGN(const MemoryThreshold threshold, to_threshold(word));
    thresholds.push_back(threshold);
  }
  return thresholds;
}

// ---- iterations: "1000, 5000" -----------------------------------------------------------------

std::string iterations_text(const std::vector<std::int64_t>& iterations) {
  std::string text;
  for (const std::int64_t iteration : iterations) {
    text += (text.empty() ? "" : ",") + std::to_string(iteration);
  }
  return text;
}

// In ascending order, without duplicates.
Result<std::vector<std::int64_t>> to_iterations(std::string_view name, std::string_view text) {
  std::vector<std::int64_t> iterations;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find_first_of(",;", start), text.size());
    const std::string_view word = trimmed(text.substr(start, comma - start));
    start = comma + 1;
    if (word.empty()) continue;
    const std::optional<std::int64_t> iteration = to_number<std::int64_t>(word);
    if (!iteration || *iteration < 0) {
      return wrong(std::string(name) + ": " + quoted(word) +
                   " is not an iteration; give whole numbers, such as 1000,5000");
    }
    iterations.push_back(*iteration);
  }
  std::ranges::sort(iterations);
  const auto repeated = std::ranges::unique(iterations);
  iterations.erase(repeated.begin(), repeated.end());
  return iterations;
}

// ---- the options ------------------------------------------------------------------------------

// One option: its description, and where and how its value is stored.
struct Option {
  std::string_view name;
  std::span<const std::string_view> aliases;
  std::string_view type;
  std::string_view help;
  Status (*set)(MonitorOptions&, const Option&, std::string_view value);
  std::string (*text)(const MonitorOptions&);
};

Error not_a(const Option& option, std::string_view value, const char* wanted) {
  return wrong(std::string(option.name) + " is " + quoted(value) + "; it must be " + wanted);
}

template <auto Member>
Status set_bool(MonitorOptions& options, const Option& option, std::string_view value) {
  const std::optional<bool> is_on = to_bool(value);
  if (!is_on) return not_a(option, value, "true or false");
  options.*Member = *is_on;
  return {};
}

template <auto Member, std::int64_t kLeast>
Status set_count(MonitorOptions& options, const Option& option, std::string_view value) {
  const std::optional<std::int64_t> number = to_number<std::int64_t>(value);
  if (!number || *number < kLeast) {
    return not_a(option, value,
                 kLeast == 0 ? "a whole number, 0 or more" : "a whole number of at least 1");
  }
  options.*Member = *number;
  return {};
}

template <auto Member>
Status set_percent(MonitorOptions& options, const Option& option, std::string_view value) {
  const bool has_sign = value.ends_with('%');
  const std::string_view digits = trimmed(has_sign ? value.substr(0, value.size() - 1) : value);
  const std::optional<double> number = to_number<double>(digits);
  if (!number || !(*number >= 0 && *number <= 100)) return not_a(option, value, "from 0 to 100");
  options.*Member = *number;
  return {};
}

template <auto Member>
Status set_mb(MonitorOptions& options, const Option& option, std::string_view value) {
  const std::optional<double> size_mb = to_mb(value);
  constexpr double kMostMb = 1024.0 * 1024.0 * 1024.0;  // an exabyte; in bytes it still fits 64
                                                        // bits
  if (!size_mb || !(*size_mb >= 0 && *size_mb <= kMostMb)) {
    return not_a(option, value, "a size in MB, such as 100 or 1.5GB");
  }
  options.*Member = *size_mb;
  return {};
}

template <auto Member>
Status set_text(MonitorOptions& options, const Option&, std::string_view value) {
  options.*Member = value;
  return {};
}

template <auto Member>
Status set_name(MonitorOptions& options, const Option& option, std::string_view value) {
  if (value.empty()) return wrong(std::string(option.name) + " is empty");
  options.*Member = value;
  return {};
}

// A boolean, "auto" or the name of a folder.
Status set_tensorboard(MonitorOptions& options, const Option&, std::string_view value) {
  const std::optional<bool> is_on = value.empty() ? false : to_bool(value);
  options.tensorboard = !is_on ? std::string(value) : *is_on ? "true" : "false";
  return {};
}

Status set_print_ranks(MonitorOptions& options, const Option& option, std::string_view value) {
  if (value != "all" && value != "first") return not_a(option, value, "all or first");
  options.print_ranks = value;
  return {};
}

Status check_choice(const Option& option, std::string_view value,
                    const std::vector<std::string>& choices) {
  if (std::ranges::find(choices, value) != choices.end()) return {};
  return wrong(std::string(option.name) + " is " + quoted(value) + "; it must be one of " +
               base::joined(choices) + base::did_you_mean(value, choices));
}

Status set_adapter(MonitorOptions& options, const Option& option, std::string_view value) {
  PLIMSOLL_TRY(check_choice(option, value, {"auto", "libtorch", "python", "none"}));
  options.adapter = value;
  return {};
}

Status set_uses(MonitorOptions& options, const Option& option, std::string_view value) {
  PLIMSOLL_TRY(check_choice(option, value, {"auto", "always", "sampled", "never"}));
  options.uses = value;
  return {};
}

Status set_snapshot_at(MonitorOptions& options, const Option& option, std::string_view value) {
  PLIMSOLL_TRY_ASSIGN(options.snapshot_at, to_iterations(option.name, value));
  return {};
}

Status set_phases(MonitorOptions& options, const Option&, std::string_view value) {
  PLIMSOLL_TRY_ASSIGN(options.phases, to_phases(value));
  return {};
}

Status set_alert_above(MonitorOptions& options, const Option&, std::string_view value) {
  PLIMSOLL_TRY_ASSIGN(options.alert_above, to_thresholds(value));
  return {};
}

template <auto Member>
std::string text_of(const MonitorOptions& options) {
  const auto& value = options.*Member;
  using Value = std::remove_cvref_t<decltype(value)>;
  if constexpr (std::is_same_v<Value, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<Value, std::int64_t>) {
    return std::to_string(value);
  } else if constexpr (std::is_same_v<Value, double>) {
    return number_text(value);
  } else if constexpr (std::is_same_v<Value, std::vector<MonitorPhase>>) {
    return phases_text(value);
  } else if constexpr (std::is_same_v<Value, std::vector<MemoryThreshold>>) {
    return thresholds_text(value);
  } else if constexpr (std::is_same_v<Value, std::vector<std::int64_t>>) {
    return iterations_text(value);
  } else {
    return value;
  }
}

using Aliases = std::span<const std::string_view>;
constexpr std::array<std::string_view, 1> kEnabledToo = {"enable_memory_monitoring"};
constexpr std::array<std::string_view, 1> kVerboseToo = {"memory_monitor_batches"};
constexpr std::array<std::string_view, 2> kIntervalToo = {"profile_interval",
                                                          "tensor_profile_interval"};

using O = MonitorOptions;
constexpr std::array kOptions = {
    Option{"enabled", kEnabledToo, "bool", "Enable monitoring.", set_bool<&O::enabled>,
           text_of<&O::enabled>},
    Option{"verbose_batches", kVerboseToo, "count",
           "Number of batches (or loss evaluations) of each epoch that get a line.",
           set_count<&O::verbose_batches, 0>, text_of<&O::verbose_batches>},
    Option{"profile_tensors", Aliases{}, "bool",
           "Observe operators before each sample, for dtypes of activations; write TensorBoard.",
           set_bool<&O::profile_tensors>, text_of<&O::profile_tensors>},
    Option{"interval", kIntervalToo, "iterations",
           "Iterations from one sample to the next; 0 takes samples in `phases` only.",
           set_count<&O::interval, 0>, text_of<&O::interval>},
    Option{"phases", Aliases{}, "list of FROM-TO:INTERVAL",
           "Ranges of iterations (TO is the first after it, or left out) with their own interval.",
           set_phases, text_of<&O::phases>},
    Option{
        "snapshot_at", Aliases{}, "list of iterations",
        "Iterations to record completely: a trace of each, and PyTorch's snapshot if CUDA is used.",
        set_snapshot_at, text_of<&O::snapshot_at>},
    Option{"output_dir", Aliases{}, "folder", "Folder for text logs and event files.",
           set_name<&O::output_dir>, text_of<&O::output_dir>},
    Option{"text_log", Aliases{}, "bool",
           "Write each sample to output_dir/profiles/tensor_profile_TIMESTAMP.log.",
           set_bool<&O::text_log>, text_of<&O::text_log>},
    Option{"tensorboard", Aliases{}, "bool, auto or folder",
           "Write samples for TensorBoard; true: output_dir/tensorboard, auto: as profile_tensors.",
           set_tensorboard, text_of<&O::tensorboard>},
    Option{"section", Aliases{}, "text",
           "TensorBoard section; auto: TensorProfiling with profile_tensors, else Memory.",
           set_name<&O::section>, text_of<&O::section>},
    Option{"image_every", Aliases{}, "iterations",
           "Iterations from one picture of memory over time in TensorBoard to the next; 0: one at "
           "the end.",
           set_count<&O::image_every, 0>, text_of<&O::image_every>},
    Option{"large_tensor_mb", Aliases{}, "MB", "Size above which a tensor counts as large.",
           set_mb<&O::large_tensor_mb>, text_of<&O::large_tensor_mb>},
    Option{"top_layers", Aliases{}, "count", "Number of layers that a sample names.",
           set_count<&O::top_layers, 0>, text_of<&O::top_layers>},
    Option{"alerts", Aliases{}, "bool", "Check samples for growth, fragmentation and jumps.",
           set_bool<&O::alerts>, text_of<&O::alerts>},
    Option{"fragmentation_percent", Aliases{}, "percent",
           "Alert when more than this share of reserved memory is not allocated.",
           set_percent<&O::fragmentation_percent>, text_of<&O::fragmentation_percent>},
    Option{"growth_percent", Aliases{}, "percent",
           "Alert when memory keeps growing and has grown by more than this.",
           set_percent<&O::growth_percent>, text_of<&O::growth_percent>},
    Option{"alert_every", Aliases{}, "samples",
           "Raise the same alert at most once in this number of samples, or when it doubles; "
           "growth only when it doubles.",
           set_count<&O::alert_every, 1>, text_of<&O::alert_every>},
    Option{"fail_on_alert", Aliases{}, "bool",
           "End the program with exit code 1 if there was an alert.", set_bool<&O::fail_on_alert>,
           text_of<&O::fail_on_alert>},
    Option{"adapter", Aliases{}, "auto, libtorch, python or none",
           "How to observe PyTorch's allocations.", set_adapter, text_of<&O::adapter>},
    Option{"record", Aliases{}, "file", "Trace file for the whole run; empty for none.",
           set_text<&O::record>, text_of<&O::record>},
    Option{"nvtx", Aliases{}, "bool",
           "Send phases, layers, steps and memory to Nsight Systems as NVTX.", set_bool<&O::nvtx>,
           text_of<&O::nvtx>},
    Option{"batch_size", Aliases{}, "count",
           "Number of items in a batch, to suggest a batch that fits; 0 if unknown.",
           set_count<&O::batch_size, 0>, text_of<&O::batch_size>},
    Option{"print_ranks", Aliases{}, "all or first",
           "Ranks of a distributed run that print lines; alerts are always printed.",
           set_print_ranks, text_of<&O::print_ranks>},
    Option{
        "alert_above", Aliases{}, "list of PERCENT% or SIZE",
        "Alert when memory rises above a share of the device or machine (90%), or bytes (12GiB).",
        set_alert_above, text_of<&O::alert_above>},
    Option{"wandb", Aliases{}, "bool", "Log each sample to the active Weights & Biases run.",
           set_bool<&O::wandb>, text_of<&O::wandb>},
    Option{"uses", Aliases{}, "auto, always, sampled or never",
           "Steps in which uses are observed, to state what no operator has used for two steps.",
           set_uses, text_of<&O::uses>},
};

const Option* find(std::string_view name) {
  const auto has_name = [name](const Option& option) {
    return option.name == name || std::ranges::find(option.aliases, name) != option.aliases.end();
  };
  const auto found = std::ranges::find_if(kOptions, has_name);
  return found == kOptions.end() ? nullptr : &*found;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Option& option : kOptions) all.emplace_back(option.name);
  for (const Option& option : kOptions) {
    for (const std::string_view alias : option.aliases) all.emplace_back(alias);
  }
  return all;
}

std::string unknown(std::string_view name) {
  const std::string near = base::nearest(name, names());
  const std::string advice = near.empty() ? "; docs/monitoring-reference.md lists the options"
                                          : ": did you mean '" + near + "'?";
  return "no option " + quoted(name) + advice;
}

}  // namespace

Status MonitorOptions::set(std::string_view name, std::string_view value) {
  const Option* const option = find(name);
  if (option == nullptr) return wrong(unknown(name));
  if (value.find('\0') != std::string_view::npos) {  // the system would end the path there
    return wrong(std::string(option->name) + " contains a zero byte");
  }
  if (!base::is_utf8(value)) {  // Python could not read it
    return wrong(std::string(option->name) + " is '" + base::escaped(value) +
                 "'; it must be UTF-8");
  }
  return option->set(*this, *option, trimmed(value));
}

Status MonitorOptions::set_from_environment() {
  MonitorOptions changed = *this;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with(kEnvironmentPrefix)) continue;
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::string_view variable = text.substr(0, equals);
    const std::string name = lower(variable.substr(kEnvironmentPrefix.size()));
    const std::string_view value = equals == text.size() ? "" : text.substr(equals + 1);
    if (Status status = changed.set(name, value); !status) {
      return wrong("the environment's " + std::string(variable) + ": " + status.error().message);
    }
  }
  *this = std::move(changed);
  return {};
}

Status MonitorOptions::check() const {
  MonitorOptions scratch;
  for (const Option& option : kOptions) {
    PLIMSOLL_TRY(option.set(scratch, option, option.text(*this)));
  }
  return {};
}

std::string MonitorOptions::text(std::string_view name) const {
  const Option* const option = find(name);
  return option == nullptr ? "" : option->text(*this);
}

std::int64_t MonitorOptions::interval_at(std::int64_t iteration) const {
  for (const MonitorPhase& phase : phases) {
    if (phase.from <= iteration && iteration < phase.to) return phase.interval;
  }
  return interval;
}

bool MonitorOptions::is_due(std::int64_t iteration) const {
  const std::int64_t every = interval_at(iteration);
  return enabled && every > 0 && iteration % every == 0;
}

std::string MonitorOptions::tensorboard_dir() const {
  const bool is_auto = tensorboard == "auto";
  if (tensorboard.empty() || tensorboard == "false" || (is_auto && !profile_tensors)) return "";
  return tensorboard == "true" || is_auto ? output_dir + "/tensorboard" : tensorboard;
}

std::string MonitorOptions::tensorboard_section() const {
  if (section != "auto") return section;
  return profile_tensors ? "TensorProfiling" : "Memory";
}

std::uint64_t MonitorOptions::large_tensor_bytes() const {
  return static_cast<std::uint64_t>(std::llround(large_tensor_mb * kBytesPerMb));
}

std::vector<MonitorOptionHelp> monitor_options_help() {
  std::vector<MonitorOptionHelp> all;
  const MonitorOptions defaults;
  for (const Option& option : kOptions) {
    MonitorOptionHelp& help = all.emplace_back();
    help.name = option.name;
    help.aliases.assign(option.aliases.begin(), option.aliases.end());
    help.type = option.type;
    help.default_value = option.text(defaults);
    help.help = option.help;
  }
  return all;
}

}  // namespace plimsoll
