#include "analysis/digest/modules.h"

#include <charconv>

#include "analysis/digest/keys.h"

namespace plimsoll::analysis::digest {

void Modules::add(std::string_view path) {
  while (!path.empty()) {
    Repeated& module = modules_[without_indices(path)];
    if (!module.paths.emplace(path).second) return;
    const std::size_t dot = path.rfind('.');
    const std::string_view name = path.substr(dot == std::string_view::npos ? 0 : dot + 1);
    std::uint64_t index = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
    if (error == std::errc{} && end == name.data() + name.size()) module.indices.insert(index);
    path = path.substr(0, dot == std::string_view::npos ? 0 : dot);
  }
}

void Modules::add(std::string_view path, std::string_view type, std::uint64_t parameter_bytes) {
  if (path.empty()) return;
  add(path);
  Repeated& module = modules_[without_indices(path)];
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
