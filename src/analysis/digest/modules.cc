#include "analysis/digest/modules.h"

#include <algorithm>
#include <charconv>

namespace plimsoll::analysis::digest {
namespace {

bool is_index(std::string_view name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

// The path around a layer, and its name.
std::pair<std::string_view, std::string_view> split(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return {{}, path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

// Replaces the indices that `is_folded(path of the container, index)`.
template <typename IsFolded>
std::string replaced(std::string_view layer, const IsFolded& is_folded) {
  std::string out;
  for (std::size_t at = 0; at < layer.size();) {
    const std::size_t end = std::min(layer.find('.', at), layer.size());
    const std::string_view name = layer.substr(at, end - at);
    const std::string_view around = layer.substr(0, at == 0 ? 0 : at - 1);
    out += is_index(name) && is_folded(around, name) ? std::string_view("*") : name;
    if (end < layer.size()) out += '.';
    at = end + 1;
  }
  return out;
}

}  // namespace

std::string without_indices(std::string_view layer) {
  return replaced(layer, [](std::string_view, std::string_view) { return true; });
}

namespace {

using Classes = std::map<std::string, std::string, std::less<>>;  // by path

std::uint64_t number_of(std::string_view index) {
  std::uint64_t number = 0;
  std::from_chars(index.data(), index.data() + index.size(), number);
  return number;
}

// The class of a sequence says nothing about it, so it includes those inside, of which equal ones
// in a row count once.
Classes classes_in(const model::Trace& trace) {
  Classes classes;
  std::map<std::string, std::map<std::uint64_t, std::string>, std::less<>> sequences;
  for (const model::Module& module : trace.modules) {
    const std::string_view path = trace.strings[module.path];
    const std::string type(trace.strings[module.type]);
    classes.emplace(path, type);
    const auto [around, name] = split(path);
    if (is_index(name)) sequences[std::string(around)].emplace(number_of(name), type);
  }
  for (const auto& [path, inside] : sequences) {
    const auto sequence = classes.find(path);
    if (sequence == classes.end()) continue;
    std::string_view last;
    for (const auto& [index, type] : inside) {
      if (type != last) sequence->second += ' ' + type;
      last = type;
    }
  }
  return classes;
}

}  // namespace

Repetitions::Repetitions(const model::Trace& trace) {
  std::set<std::string, std::less<>> composite;  // classes of modules with modules inside
  const Classes classes = classes_in(trace);
  for (const auto& [path, type] : classes) {
    const auto [around, name] = split(path);
    if (const auto found = classes.find(around); found != classes.end()) {
      composite.emplace(found->second);
    }
    if (!is_index(name)) continue;
    Sequence& sequence = sequences_[without_indices(around)];
    const auto [place, is_first] = sequence.classes.try_emplace(std::string(name), type);
    if (!is_first && place->second != type) place->second.clear();
  }
  for (auto& [path, sequence] : sequences_) {
    std::map<std::string_view, std::size_t> counts;
    for (const auto& [index, type] : sequence.classes) ++counts[type];
    sequence.is_mixed = counts.size() > 1;
    std::size_t most = 1;
    for (const auto& [type, count] : counts) {
      if (count <= most || !composite.contains(type)) continue;
      most = count;
      sequence.folded = type;
    }
  }
}

std::string Repetitions::fold(std::string_view layer) const {
  return replaced(layer, [&](std::string_view around, std::string_view name) {
    const auto found = sequences_.find(without_indices(around));
    if (found == sequences_.end() || !found->second.is_mixed) return true;
    const Sequence& sequence = found->second;
    const auto type = sequence.classes.find(name);
    return !sequence.folded.empty() && type != sequence.classes.end() &&
           type->second == sequence.folded;
  });
}

Modules::Repeated& Modules::folded(const std::string& path) {
  const auto [place, is_new] = places_.try_emplace(path, modules_.size());
  if (is_new) modules_.emplace_back(path, Repeated());
  return modules_[place->second].second;
}

void Modules::add(std::string_view path) {
  if (path.empty()) return;
  const auto [around, name] = split(path);
  const std::string folded_path = repetitions_.fold(path);
  if (const auto known = places_.find(folded_path);
      known != places_.end() && modules_[known->second].second.paths.contains(path)) {
    return;
  }
  add(around);
  Repeated& module = folded(folded_path);
  module.paths.emplace(path);
  if (folded_path.ends_with('*')) module.indices.insert(number_of(name));
}

void Modules::add(std::string_view path, std::string_view type, std::uint64_t parameter_bytes) {
  if (path.empty()) return;
  add(path);
  Repeated& module = folded(repetitions_.fold(path));
  if (module.type.empty()) module.type = type;
  module.parameter_bytes += parameter_bytes;
}

std::vector<report::DigestModule> Modules::take() const {
  std::vector<report::DigestModule> out;
  for (const auto& [path, module] : modules_) {
    report::DigestModule row;
    row.path = path;
    row.instances = module.paths.size();
    row.indices = ranges_text(module.indices);
    row.type = module.type;
    row.parameter_bytes = module.parameter_bytes;
    out.push_back(std::move(row));
  }
  return out;
}

std::string ranges_text(const std::set<std::uint64_t>& numbers) {
  std::string text;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const std::uint64_t first = *at;
    std::uint64_t last = first;
    for (++at; at != numbers.end() && *at == last + 1; ++at) last = *at;
    text += (text.empty() ? "" : ", ") + std::to_string(first);
    if (last != first) text += "-" + std::to_string(last);
  }
  return text;
}

}  // namespace plimsoll::analysis::digest
