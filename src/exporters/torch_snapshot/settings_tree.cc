#include "exporters/torch_snapshot/settings_tree.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace plimsoll::exporters::torch_snapshot {
namespace {

// A setting, and the rest of its name that is still to be written.
using Entry = std::pair<std::string_view, const model::Setting*>;

void write_value(PickleWriter& pickle, const model::Setting& setting) {
  std::visit(
      [&]<typename Value>(const Value& value) {
        if constexpr (std::is_same_v<Value, bool>) {
          pickle.boolean(value);
        } else if constexpr (std::is_same_v<Value, double>) {
          pickle.real(value);
        } else if constexpr (std::is_same_v<Value, std::string>) {
          pickle.string(value);
        } else {
          pickle.integer(value);
        }
      },
      setting.value);
}

void write_dict(PickleWriter& pickle, const std::vector<Entry>& entries) {
  pickle.dict();
  pickle.begin_dict_items();
  std::vector<bool> is_written(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (is_written[i]) continue;
    const auto& [name, setting] = entries[i];
    const std::size_t dot = name.find('.');
    pickle.string(name.substr(0, dot));
    if (dot == std::string_view::npos) {
      write_value(pickle, *setting);
      continue;
    }
    const std::string_view prefix = name.substr(0, dot + 1);
    std::vector<Entry> inner;
    for (std::size_t k = i; k < entries.size(); ++k) {
      if (!entries[k].first.starts_with(prefix)) continue;
      inner.emplace_back(entries[k].first.substr(prefix.size()), entries[k].second);
      is_written[k] = true;
    }
    write_dict(pickle, inner);
  }
  pickle.end_dict_items();
}

}  // namespace

void write_settings(PickleWriter& pickle, const std::vector<model::Setting>& settings) {
  std::vector<Entry> entries;
  for (const model::Setting& setting : settings) entries.emplace_back(setting.name, &setting);
  write_dict(pickle, entries);
}

}  // namespace plimsoll::exporters::torch_snapshot
