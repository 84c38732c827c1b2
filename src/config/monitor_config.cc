// Finds the monitoring options in a configuration. python/plimsoll/config.py has the same rules;
// python/tests/test_config_conformance.py checks both against them.
#include "plimsoll/monitor_config.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/input_file.h"
#include "base/suggestion.h"
#include "config/yaml_tree.h"

namespace plimsoll {
namespace {

using config::YamlTree;
using config::YamlValue;
using Kind = YamlValue::Kind;

constexpr std::string_view kOwnBlock = "plimsoll";
constexpr std::string_view kMissing = "???";  // OmegaConf's mark of a value that must be given

struct Setting {
  std::string name;
  const YamlValue* key;
  const YamlValue* value;
  std::string block;  // "trainer_params: ", or empty
};

// Names that are searched for in other projects' configurations.
const std::set<std::string>& foreign_names() {
  static const std::set<std::string> kNames = [] {
    std::set<std::string> names = {"profile_tensors"};
    for (const MonitorOptionHelp& option : monitor_options_help()) {
      names.insert(option.aliases.begin(), option.aliases.end());
    }
    return names;
  }();
  return kNames;
}

bool is_option(const std::string& name) {
  static const std::vector<MonitorOptionHelp> kOptions = monitor_options_help();
  return foreign_names().contains(name) ||
         std::ranges::find(kOptions, name, &MonitorOptionHelp::name) != kOptions.end();
}

class Finder {
 public:
  explicit Finder(const YamlTree& tree) : tree_(tree) {}

  Status find() {
    const YamlValue& root = tree_.root();
    if (root.kind == Kind::kNothing) return {};
    if (root.kind != Kind::kMap) {
      return tree_.error(ErrorCode::kCorrupt, root, "this is not a mapping of names to values");
    }
    PLIMSOLL_TRY_ASSIGN(const auto entries, tree_.entries(root));
    const auto is_ours = [](const YamlValue::Pair& entry) {
      return entry.first->kind == Kind::kText && is_option(entry.first->text);
    };
    if (!entries.empty() && std::ranges::all_of(entries, is_ours)) {
      has_own_block = true;
      for (const auto& [key, value] : entries) settings.push_back({key->text, key, value, ""});
      return {};
    }
    PLIMSOLL_TRY(refuse_misplaced(entries, {}));
    find_foreign(entries, "");
    const YamlValue* own = nullptr;
    for (const auto& [key, value] : entries) {
      if (key->kind == Kind::kText && key->text == kOwnBlock) {
        own = value;
      } else if (value->kind == Kind::kMap) {
        PLIMSOLL_TRY_ASSIGN(const auto inner, tree_.entries(*value));
        find_foreign(inner, key->text + ": ");
      }
    }
    return own == nullptr ? Status() : find_own(*own);
  }

  std::vector<Setting> settings;  // lowest precedence first
  bool has_own_block = false;

 private:
  void find_foreign(const std::vector<YamlValue::Pair>& entries, const std::string& block) {
    const auto first = static_cast<std::ptrdiff_t>(settings.size());
    for (const auto& [key, value] : entries) {
      if (key->kind == Kind::kText && foreign_names().contains(key->text)) {
        settings.push_back({key->text, key, value, block});
      }
    }
    std::ranges::sort(settings.begin() + first, settings.end(), {}, &Setting::name);
  }

  // Names that would have no effect: those that misspell an option, and options that enable
  // monitoring from a block where they are not searched (as in Hydra's default packages).
  Status refuse_misplaced(const std::vector<YamlValue::Pair>& entries,
                          const std::vector<std::string>& blocks) {
    for (const auto& [key, value] : entries) {
      if (key->kind != Kind::kText) continue;
      PLIMSOLL_TRY(refuse_misspelt(*key, *value, blocks));
      const bool is_own_name = key->text == kOwnBlock;
      const bool is_lost = is_own_name ? !blocks.empty() && is_own_block(*value)
                                       : blocks.size() > 1 && is_switch(key->text) && is_on(*value);
      if (is_lost) return lost(*key, blocks);
      const bool is_searched = is_own_name && blocks.empty();
      if (value->kind != Kind::kMap || is_searched || !visited_.insert(value).second) continue;
      PLIMSOLL_TRY_ASSIGN(const auto inner, tree_.entries(*value));
      std::vector<std::string> here = blocks;
      here.push_back(key->text);
      PLIMSOLL_TRY(refuse_misplaced(inner, here));
    }
    return {};
  }

  Status refuse_misspelt(const YamlValue& key, const YamlValue& value,
                         const std::vector<std::string>& blocks) const {
    std::vector<std::string> known(foreign_names().begin(), foreign_names().end());
    if (blocks.empty() || is_own_block(value)) known.emplace_back(kOwnBlock);
    const std::string meant = base::misspelt(key.text, known, {"memory_monitor", "mem_monitor"});
    if (meant.empty()) return {};
    std::string block;
    for (const std::string& each : blocks) block += each + ": ";
    const char* const where = meant == kOwnBlock && !blocks.empty() ? " at the top level?" : "?";
    return tree_.error(
        ErrorCode::kInvalidArgument, key,
        block + "no option '" + key.text + "': did you mean '" + meant + "'" + where);
  }

  Error lost(const YamlValue& key, const std::vector<std::string>& blocks) const {
    std::string place;
    for (const std::string& block : blocks) place += block + ".";
    return tree_.error(ErrorCode::kInvalidArgument, key,
                       place + key.text +
                           " has no effect so deep in the configuration: move it to the top level, "
                           "or begin its Hydra file with '# @package _global_'");
  }

  static bool is_switch(const std::string& name) {
    return name == "enable_memory_monitoring" || name == "profile_tensors";
  }
  static bool is_on(const YamlValue& value) {
    MonitorOptions options;
    options.enabled = false;
    return value.kind == Kind::kText && options.set("enabled", value.text) && options.enabled;
  }
  // A block of options, and not one that Hydra instantiates.
  bool is_own_block(const YamlValue& value) const {
    if (value.kind != Kind::kMap) return is_on(value);
    const auto entries = tree_.entries(value);
    return entries &&
           std::ranges::any_of(*entries,
                               [](const YamlValue::Pair& entry) {
                                 return entry.first->kind == Kind::kText &&
                                        is_option(entry.first->text);
                               }) &&
           std::ranges::none_of(*entries, [](const YamlValue::Pair& entry) {
             return entry.first->text == "_target_";
           });
  }

  Status find_own(const YamlValue& own) {
    has_own_block = true;
    const std::string block = std::string(kOwnBlock) + ": ";
    if (own.kind == Kind::kNothing) return {};
    if (own.kind == Kind::kText) {  // plimsoll: true
      if (MonitorOptions().set("enabled", own.text)) {
        settings.push_back({"enabled", &own, &own, block});
        return {};
      }
      return tree_.error(ErrorCode::kInvalidArgument, own,
                         own.text == kMissing
                             ? "plimsoll is ???: its value is missing"
                             : "plimsoll is " + own.text + "; it must hold options");
    }
    if (own.kind == Kind::kList) {
      return tree_.error(ErrorCode::kInvalidArgument, own,
                         "plimsoll is a list; it must hold options");
    }
    PLIMSOLL_TRY_ASSIGN(const auto entries, tree_.entries(own));
    for (const auto& [key, value] : entries) settings.push_back({key->text, key, value, block});
    return {};
  }

  const YamlTree& tree_;
  std::set<const YamlValue*> visited_;  // aliases make a small text a large tree
};

// ---- values as MonitorOptions::set() takes them -------------------------------------------------

Error wrong(std::string sentence) {
  return make_error(ErrorCode::kInvalidArgument, std::move(sentence));
}

// An end or the interval of a phase.
Result<std::string> number_text(const YamlValue& value) {
  if (value.kind == Kind::kList) return wrong("a phase cannot contain a list");
  if (value.kind == Kind::kMap) return wrong("a phase cannot contain a mapping");
  return value.text;
}

Result<std::string> phase_of_map(const YamlTree& tree, const YamlValue& phase) {
  PLIMSOLL_TRY_ASSIGN(const auto entries, tree.entries(phase));
  std::string from = "0";
  std::string to;
  std::string interval;
  bool has_interval = false;
  for (const auto& [key, value] : entries) {
    std::string* const place = key->text == "from"       ? &from
                               : key->text == "to"       ? &to
                               : key->text == "interval" ? &interval
                                                         : nullptr;
    has_interval |= place == &interval;
    if (place == nullptr) {
      return wrong("a phase has no '" + key->text + "': it is {from, to, interval}");
    }
    PLIMSOLL_TRY_ASSIGN(*place, number_text(*value));
  }
  if (!has_interval) return wrong("a phase needs an interval: it is {from, to, interval}");
  return from + "-" + to + ":" + interval;
}

// A text, a mapping {from, to, interval}, or a list of these.
Result<std::string> phase_text(const YamlTree& tree, const YamlValue& phase) {
  if (phase.kind == Kind::kText) return phase.text;
  if (phase.kind == Kind::kMap) return phase_of_map(tree, phase);
  if (phase.kind == Kind::kList && phase.items.size() == 3) {
    PLIMSOLL_TRY_ASSIGN(const std::string from, number_text(*phase.items[0]));
    PLIMSOLL_TRY_ASSIGN(const std::string to, number_text(*phase.items[1]));
    PLIMSOLL_TRY_ASSIGN(const std::string interval, number_text(*phase.items[2]));
    return from + "-" + to + ":" + interval;
  }
  return wrong("this is not a phase: a phase is {from, to, interval}");
}

Result<std::string> text_of(const YamlTree& tree, const YamlValue& value) {
  if (value.kind == Kind::kText) return value.text;
  if (value.kind == Kind::kMap) return wrong("a mapping is not a value");
  std::string list;
  for (const YamlValue* item : value.items) {
    PLIMSOLL_TRY_ASSIGN(const std::string text, phase_text(tree, *item));
    if (item != value.items.front()) list += ",";
    list += text;
    if (list.size() > YamlTree::kMostBytes) return wrong("this list is too long");
  }
  return list;
}

Status apply(const YamlTree& tree, const Setting& setting, MonitorOptions& options) {
  if (setting.value->kind == Kind::kNothing) return {};
  if (setting.value->kind == Kind::kText && setting.value->text == kMissing) {
    return tree.error(ErrorCode::kInvalidArgument, *setting.key,
                      setting.block + setting.name + " is ???: its value is missing");
  }
  const Result<std::string> text = text_of(tree, *setting.value);
  const Status set = text ? options.set(setting.name, *text) : Status(text.error());
  if (set) return {};
  return tree.error(ErrorCode::kInvalidArgument, *setting.key, setting.block + set.error().message);
}

bool says_enabled(const Setting& setting) {
  return (setting.name == "enabled" || setting.name == "enable_memory_monitoring") &&
         setting.value->kind != Kind::kNothing;
}

// ---- the file ----------------------------------------------------------------------------------

Error unreadable(const std::string& path, int number) {
  switch (number) {
    case ENOENT:
      return make_error(ErrorCode::kNotFound, path + ": there is no such file");
    case EACCES:
      return make_error(ErrorCode::kPermission, path + ": permission denied");
    default:
      return make_error(ErrorCode::kIo, path + ": " + std::strerror(number));
  }
}

Result<std::string> content_of(const std::string& path) {
  const base::InputFile file = base::open_input(path);
  if (file == nullptr) return unreadable(path, errno);
  auto content = base::read_rest(file.get(), YamlTree::kMostBytes);
  if (!content) return unreadable(path, errno);
  return *std::move(content);
}

}  // namespace

Result<MonitorOptions> parse_monitor_options(std::string_view yaml, const std::string& name) {
  PLIMSOLL_TRY_ASSIGN(const YamlTree tree, YamlTree::parse(yaml, name));
  Finder finder(tree);
  PLIMSOLL_TRY(finder.find());
  MonitorOptions options;
  options.enabled = finder.has_own_block;
  for (const Setting& setting : finder.settings) PLIMSOLL_TRY(apply(tree, setting, options));
  if (options.profile_tensors && std::ranges::none_of(finder.settings, says_enabled)) {
    options.enabled = true;
  }
  return options;
}

Result<MonitorOptions> load_monitor_options(const std::string& path) {
  PLIMSOLL_TRY_ASSIGN(const std::string content, content_of(path));
  PLIMSOLL_TRY_ASSIGN(MonitorOptions options, parse_monitor_options(content, path));
  PLIMSOLL_TRY(options.set_from_environment());
  return options;
}

}  // namespace plimsoll
