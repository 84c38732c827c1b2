#include "comparison/repetitions.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::comparison {
namespace {

using report::Digest;
using report::DigestInstance;
using report::DigestKey;
using report::DigestModule;
using report::DigestRow;
using Indices = std::set<std::size_t>;

constexpr std::size_t kMostIndices = 1000;
constexpr const char* kUpTo = "…";

// Repetitions that get a name of their own.
struct Part {
  std::string name;
  Indices indices;
};

// The number at the start of a text; nullopt: there is none.
std::optional<std::size_t> number_at(std::string_view text) {
  std::size_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc{} ? std::optional(number) : std::nullopt;
}

// The indices of a block's repetitions, up to the highest one of "0-2, 7". The digest omits modules
// that allocate nothing; modules with a name of their own are no repetitions.
std::vector<std::size_t> repetitions_in(const Digest& digest, const std::string& container) {
  std::size_t count = 0;
  std::set<std::string_view> paths;
  for (const DigestModule& module : digest.modules) {
    paths.insert(module.path);
    if (module.path != container + ".*") continue;
    const std::size_t last = module.indices.find_last_of(" -");
    const std::string_view indices = module.indices;
    const auto highest = number_at(last == std::string::npos ? indices : indices.substr(last + 1));
    count = highest && *highest < kMostIndices ? *highest + 1 : 0;
  }
  std::vector<std::size_t> repetitions;
  for (std::size_t index = 0; index < count; ++index) {
    if (!paths.contains(container + '.' + std::to_string(index))) repetitions.push_back(index);
  }
  return repetitions;
}

bool is_inside(std::string_view path, const std::string& container) {
  const std::size_t end = container.size() + 2;
  return path.starts_with(container + ".*") && (path.size() == end || path[end] == '.');
}

// The index of a layer at the place of the * after `container`.
std::optional<std::size_t> index_of(std::string_view layer, const std::string& container) {
  for (auto dots = std::ranges::count(container, '.') + 1; dots > 0; --dots) {
    const std::size_t dot = layer.find('.');
    if (dot == std::string_view::npos) return std::nullopt;
    layer.remove_prefix(dot + 1);
  }
  return number_at(layer);
}

std::string name_of(const Indices& indices) {
  const std::size_t first = *indices.begin();
  const std::size_t last = *indices.rbegin();
  if (indices.size() == 1) return std::to_string(first);
  if (last - first + 1 == indices.size())
    return std::to_string(first) + kUpTo + std::to_string(last);
  std::string text;
  for (const std::size_t index : indices) text += (text.empty() ? "" : ",") + std::to_string(index);
  return text;
}

// Whether the parts of a row sum to it: a file may contradict itself.
bool is_consistent(const DigestRow& row) {
  if (row.uneven.size() > row.instances || row.instance_bytes < 0) return false;
  std::int64_t rest = row.bytes;
  std::uint64_t count = 0;
  for (const DigestInstance& each : row.uneven) {
    if (each.bytes < 0 || each.bytes > rest || each.count > row.count - count) return false;
    rest -= each.bytes;
    count += each.count;
  }
  const auto usual = static_cast<std::int64_t>(row.instances - row.uneven.size());
  if (usual == 0) return rest == 0;
  return usual > 0 && rest % usual == 0 && rest / usual == row.instance_bytes;
}

using Sizes = std::map<std::string, std::int64_t>;  // of parameters, by layer and operator

std::vector<Sizes> sizes_of(const Digest& digest, const std::string& container,
                            const std::vector<std::size_t>& repetitions) {
  std::vector<Sizes> sizes(repetitions.size());
  const auto add = [&](std::string_view layer, const std::string& name, std::int64_t bytes) {
    const auto index = index_of(layer, container);
    const auto found = index ? std::ranges::find(repetitions, *index) : repetitions.end();
    if (found == repetitions.end()) return;
    sizes[static_cast<std::size_t>(found - repetitions.begin())][name] += bytes;
  };
  std::set<std::uint64_t> known;  // a parameter is at all points
  for (const DigestRow& row : digest.rows) {
    const DigestKey& key = digest.keys[row.key];
    if (key.category != "parameter" || !is_inside(key.layer, container)) continue;
    if (!is_consistent(row) || !known.insert(row.key).second) continue;
    const std::string name = key.layer.substr(container.size()) + ' ' + key.op;
    if (row.instances > 1) {
      for (Sizes& size : sizes) size[name] += row.instance_bytes;
    } else {
      add(key.example_layer, name, row.bytes);
    }
    for (const DigestInstance& each : row.uneven) {
      add(each.layer, name, each.bytes - row.instance_bytes);
    }
  }
  return sizes;
}

struct Pairs {
  std::vector<std::pair<std::size_t, std::size_t>> paired;
  Indices only_before;
  Indices only_after;
};

// Pairs repetitions in their order: equal sizes count more than an equal index. Of equally good
// pairings, the one with the earliest.
Pairs paired(const std::vector<int>& before, const std::vector<int>& after) {
  const auto score = [&](std::size_t i, std::size_t j) {
    return (before[i] == after[j] ? 8 : 5) + (i == j ? 2 : 0);
  };
  std::vector<std::vector<int>> best(before.size() + 1, std::vector<int>(after.size() + 1));
  for (std::size_t i = before.size(); i-- > 0;) {
    for (std::size_t j = after.size(); j-- > 0;) {
      best[i][j] = std::max({best[i + 1][j], best[i][j + 1], score(i, j) + best[i + 1][j + 1]});
    }
  }
  Pairs out;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < before.size() && j < after.size()) {
    if (best[i][j] == score(i, j) + best[i + 1][j + 1]) {
      out.paired.emplace_back(i++, j++);
    } else if (best[i][j] == best[i][j + 1]) {
      out.only_after.insert(j++);
    } else {
      out.only_before.insert(i++);
    }
  }
  while (i < before.size()) out.only_before.insert(i++);
  while (j < after.size()) out.only_after.insert(j++);
  return out;
}

// A part of a row, or the rest of it.
struct Share {
  std::uint64_t instances = 0;
  std::int64_t bytes = 0;
  std::uint64_t count = 0;
  std::int64_t largest_bytes = 0;  // of an instance
  std::vector<DigestInstance> uneven = {};

  void add(std::uint64_t number, std::int64_t bytes_each, std::uint64_t count_each) {
    if (number == 0) return;
    instances += number;
    bytes += static_cast<std::int64_t>(number) * bytes_each;
    count += number * count_each;
    largest_bytes = std::max(largest_bytes, bytes_each);
  }
};

class Splitter {
 public:
  Splitter(Digest& digest, std::string container, std::vector<Part> parts)
      : digest_(digest),
        container_(std::move(container)),
        parts_(std::move(parts)),
        repetitions_(repetitions_in(digest, container_).size()) {}

  void run() {
    split_modules();
    const std::size_t row_count = digest_.rows.size();
    std::vector<DigestRow> rows;
    for (std::size_t row = 0; row < row_count; ++row) split(digest_.rows[row], rows);
    digest_.rows = std::move(rows);
    // At once, no more can be live than all repetitions of a part have.
    for (const auto& [key, made] : made_) {
      const std::int64_t most = most_.at(key.first);
      const auto at_once = [&](std::size_t part) {
        const auto found = capacity_.find({key.first, part});
        return found == capacity_.end() ? most : std::min(most, found->second);
      };
      if (!digest_.keys[made].most_bytes) continue;
      digest_.keys[made].most_bytes = at_once(key.second);
      digest_.keys[key.first].most_bytes = at_once(parts_.size());
    }
  }

 private:
  std::string layer_of(const std::string& layer, const Part& part) const {
    return container_ + '.' + part.name + layer.substr(container_.size() + 2);
  }

  void split_modules() {
    std::vector<DigestModule> modules;
    for (DigestModule& module : digest_.modules) {
      if (!is_inside(module.path, container_)) {
        modules.push_back(std::move(module));
        continue;
      }
      const std::uint64_t all_instances = module.instances;
      const std::uint64_t all_bytes = module.parameter_bytes;
      std::vector<DigestModule> made;
      for (const Part& part : parts_) {
        DigestModule copy = module;
        copy.path = layer_of(module.path, part);
        copy.instances = all_instances * part.indices.size() / repetitions_;
        copy.parameter_bytes = all_bytes * part.indices.size() / repetitions_;
        if (copy.instances == 0) continue;
        if (module.path.size() == container_.size() + 2) copy.indices.clear();
        module.instances -= copy.instances;
        module.parameter_bytes -= copy.parameter_bytes;
        made.push_back(std::move(copy));
      }
      if (module.instances > 0) modules.push_back(std::move(module));
      std::ranges::move(made, std::back_inserter(modules));
    }
    digest_.modules = std::move(modules);
  }

  void split(DigestRow& row, std::vector<DigestRow>& out) {
    const std::string layer = digest_.keys[row.key].layer;
    if (!is_inside(layer, container_) || !is_consistent(row)) {
      out.push_back(std::move(row));
      return;
    }
    const auto uneven_count = row.uneven.size();
    std::uint64_t usual_count = row.count;
    for (const DigestInstance& each : row.uneven) usual_count -= each.count;
    std::uint64_t usual = row.instances - uneven_count;
    usual_count = usual == 0 ? 0 : usual_count / usual;
    const std::uint64_t each = row.instances % repetitions_ == 0 ? row.instances / repetitions_ : 1;
    Share rest;
    std::vector<Share> shares(parts_.size());
    Share* only = row.instances > 1 ? nullptr : &rest;
    std::vector<std::uint64_t> uneven_at(parts_.size());
    const auto share_of_layer = [&](const std::string& path) {
      const auto index = index_of(path, container_);
      const auto part = std::ranges::find_if(parts_, [&](const Part& candidate) {
        return index && candidate.indices.contains(*index);
      });
      return part == parts_.end() ? std::optional<std::size_t>()
                                  : std::optional<std::size_t>(part - parts_.begin());
    };
    for (const DigestInstance& instance : row.uneven) {
      const auto part = share_of_layer(instance.layer);
      Share& share = part ? shares[*part] : rest;
      share.add(1, instance.bytes, instance.count);
      share.uneven.push_back(instance);
      if (part) ++uneven_at[*part];
    }
    if (only != nullptr) {
      const auto part = share_of_layer(digest_.keys[row.key].example_layer);
      if (part) only = &shares[*part];
      only->add(usual, row.instance_bytes, usual_count);
    } else {
      for (std::size_t part = 0; part < parts_.size(); ++part) {
        const std::uint64_t wanted = each * parts_[part].indices.size();
        const std::uint64_t number = std::min(usual, wanted - std::min(wanted, uneven_at[part]));
        shares[part].add(number, row.instance_bytes, usual_count);
        usual -= number;
      }
      rest.add(usual, row.instance_bytes, usual_count);
    }
    std::int64_t largest = rest.largest_bytes;
    for (const Share& share : shares) largest = std::max(largest, share.largest_bytes);
    std::uint64_t others = each * repetitions_;
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      const std::uint64_t number = each * parts_[part].indices.size();
      note_capacity(row, part, shares[part], number);
      others -= std::min(others, number);
    }
    note_capacity(row, parts_.size(), rest, others);
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      add(row, shares[part], largest, key_of(row.key, part), out);
    }
    rest.count = row.count;  // to the last one
    for (const Share& share : shares) rest.count -= share.count;
    add(row, rest, largest, row.key, out);
  }

  void note_capacity(const DigestRow& row, std::size_t part, const Share& share,
                     std::uint64_t number) {
    const std::int64_t bytes_each = share.instances == 0
                                        ? row.instance_bytes
                                        : share.bytes / static_cast<std::int64_t>(share.instances);
    std::int64_t& capacity = capacity_[{row.key, part}];
    capacity = std::max(capacity, bytes_each * static_cast<std::int64_t>(number));
  }

  static void add(const DigestRow& row, Share& share, std::int64_t largest, std::uint64_t key,
                  std::vector<DigestRow>& out) {
    if (share.instances == 0) return;
    DigestRow made = row;
    made.key = key;
    made.bytes = share.bytes;
    made.count = share.count;
    made.instances = share.instances;
    const bool is_all_uneven = share.uneven.size() == share.instances;
    made.uneven = is_all_uneven ? std::vector<DigestInstance>() : std::move(share.uneven);
    if (is_all_uneven) {
      made.instance_bytes = share.bytes / static_cast<std::int64_t>(share.instances);
    }
    if (share.largest_bytes < largest) {  // its shape is unknown
      made.shape.clear();
      made.largest_bytes = static_cast<std::uint64_t>(static_cast<double>(row.largest_bytes) *
                                                      static_cast<double>(share.largest_bytes) /
                                                      static_cast<double>(largest));
    }
    out.push_back(std::move(made));
  }

  std::uint64_t key_of(std::uint64_t key, std::size_t part) {
    const auto [place, is_new] = made_.try_emplace({key, part}, digest_.keys.size());
    if (is_new) {
      DigestKey copy = digest_.keys[key];
      most_.emplace(key, copy.most_bytes.value_or(0));
      copy.layer = layer_of(copy.layer, parts_[part]);
      digest_.keys.push_back(std::move(copy));
    }
    return place->second;
  }

  Digest& digest_;
  std::string container_;
  std::vector<Part> parts_;
  std::size_t repetitions_;
  std::map<std::pair<std::uint64_t, std::size_t>, std::uint64_t> made_;  // keys, by key and part
  std::map<std::uint64_t, std::int64_t> most_;                           // at once, by key
  // The bytes of all repetitions of a part, by key and part; the last part is the rest.
  std::map<std::pair<std::uint64_t, std::size_t>, std::int64_t> capacity_;
};

void split_container(Digest& before, const std::string& old_container, Digest& after,
                     const std::string& container) {
  const auto old_repetitions = repetitions_in(before, old_container);
  const auto repetitions = repetitions_in(after, container);
  if (old_repetitions.empty() || repetitions.empty()) return;
  std::map<Sizes, int> kinds;
  const auto kinds_of = [&](const std::vector<Sizes>& sizes) {
    std::vector<int> out;
    for (const Sizes& each : sizes) {
      out.push_back(kinds.try_emplace(each, static_cast<int>(kinds.size())).first->second);
    }
    return out;
  };
  const std::vector<int> was = kinds_of(sizes_of(before, old_container, old_repetitions));
  const std::vector<int> is = kinds_of(sizes_of(after, container, repetitions));
  if (was == is) return;
  const Pairs pairs = paired(was, is);
  const bool is_one_equal = std::ranges::any_of(
      pairs.paired, [&](const auto& pair) { return was[pair.first] == is[pair.second]; });
  Part old_changed;
  Part changed;
  for (const auto& [i, j] : pairs.paired) {
    if (!is_one_equal || was[i] == is[j]) continue;
    old_changed.indices.insert(old_repetitions[i]);
    changed.indices.insert(repetitions[j]);
  }
  std::vector<Part> old_parts;
  std::vector<Part> parts;
  if (!changed.indices.empty()) {
    old_changed.name = changed.name = name_of(changed.indices);
    old_parts.push_back(std::move(old_changed));
    parts.push_back(std::move(changed));
  }
  const auto at = [](const std::vector<std::size_t>& indices, const Indices& places) {
    Part part;
    for (const std::size_t place : places) part.indices.insert(indices[place]);
    part.name = name_of(part.indices);
    return part;
  };
  if (!pairs.only_before.empty()) {
    old_parts.push_back(at(old_repetitions, pairs.only_before));
    if (old_parts.front().name == old_parts.back().name && old_parts.size() > 1) {
      old_parts.back().name += '\'';
    }
  }
  if (!pairs.only_after.empty()) parts.push_back(at(repetitions, pairs.only_after));
  if (!old_parts.empty()) Splitter(before, old_container, std::move(old_parts)).run();
  if (!parts.empty()) Splitter(after, container, std::move(parts)).run();
}

// Splits the repetitions of a block that was one module, at `single`, in the other digest: that
// with the most similar size is the same.
void split_from_one(Digest& digest, const std::string& container, const Digest& other,
                    const std::string& single) {
  const auto repetitions = repetitions_in(digest, container);
  std::int64_t wanted = 0;
  for (const DigestModule& module : other.modules) {
    if (module.path == single || module.path.starts_with(single + '.')) {
      wanted += static_cast<std::int64_t>(module.parameter_bytes /
                                          std::max<std::uint64_t>(module.instances, 1));
    }
  }
  std::vector<std::int64_t> away;  // from the size of the single one
  for (const Sizes& sizes : sizes_of(digest, container, repetitions)) {
    std::int64_t sum = -wanted;
    for (const auto& [name, bytes] : sizes) sum += bytes;
    away.push_back(std::abs(sum));
  }
  if (away.size() < 2) return;
  const auto nearest = static_cast<std::size_t>(std::ranges::min_element(away) - away.begin());
  Part others;
  for (std::size_t i = 0; i < repetitions.size(); ++i) {
    if (i != nearest) others.indices.insert(repetitions[i]);
  }
  others.name = name_of(others.indices);
  Splitter(digest, container, {std::move(others)}).run();
}

std::string without_star(const std::string& path) { return path.substr(0, path.size() - 2); }

}  // namespace

std::pair<Digest, Digest> with_changed_repetitions(const Digest& before, const Digest& after,
                                                   const ModulePairs& modules) {
  std::pair<Digest, Digest> out(before, after);
  for (const DigestModule& module : before.modules) {
    const std::string name = modules.name_before(module.path);
    if (module.path.ends_with(".*")) {
      const std::string container = without_star(module.path);
      if (!name.ends_with(".*") && !modules.is_removed(name)) {
        split_from_one(out.first, container, after, name);
      } else {
        split_container(out.first, container, out.second, modules.name_before(container));
      }
    } else if (name.ends_with(".*") && module.instances == 1) {
      split_from_one(out.second, without_star(name), before, module.path);
    }
  }
  return out;
}

}  // namespace plimsoll::comparison
