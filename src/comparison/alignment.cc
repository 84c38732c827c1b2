#include "comparison/alignment.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

namespace plimsoll::comparison {
namespace {

using report::Digest;
using report::DigestKey;

constexpr const char* kAtOnce = "most at once";  // in a profile, as if it were a point

// The parts of a key that a rule compares.
enum Part : unsigned {
  kNothing = 0,
  kOfCategory = 1,
  kOfPhase = 2,
  kOfOperator = 4,
  kOfFunction = 8,
  kOfText = 16,
  kOfDtype = 32,
  kOfLayer = 64,
  kEverything = 127
};

struct Key {
  DigestKey key;  // its names replaced, if it is one of the first digest
  std::size_t row = 0;
  std::int64_t bytes = 0;  // the most at any point
  std::uint64_t largest_bytes = 0;
  // Bytes and counts at each point, by the point's name.
  std::map<std::string, std::pair<std::int64_t, std::uint64_t>> profile;
};

std::vector<Key> keys_of(const Digest& digest) {
  std::vector<Key> keys(digest.keys.size());
  for (std::size_t row = 0; row < keys.size(); ++row) {
    keys[row].key = digest.keys[row];
    keys[row].row = row;
    if (digest.keys[row].most_bytes)
      keys[row].profile[kAtOnce].first = *digest.keys[row].most_bytes;
  }
  for (const report::DigestRow& row : digest.rows) {
    Key& key = keys[row.key];
    key.bytes = std::max(key.bytes, row.bytes);
    key.largest_bytes = std::max(key.largest_bytes, row.largest_bytes);
    key.profile[digest.points[row.point].name] = {row.bytes, row.count};
  }
  return keys;
}

bool has_most_bytes(const Digest& digest) {
  return std::ranges::any_of(digest.keys,
                             [](const DigestKey& key) { return key.most_bytes.has_value(); });
}

// What all lines of a digest have.
enum class LineName : std::uint8_t { kOffset, kHash, kText };

LineName line_names_of(const Digest& digest) {
  for (const DigestKey& key : digest.keys) {
    if (key.text.empty()) continue;
    const bool is_hash =
        key.text[0] == report::kHashMark && key.text.size() == report::kHashTextSize;
    return is_hash ? LineName::kHash : LineName::kText;
  }
  return LineName::kOffset;
}

std::string reduced(const DigestKey& key, unsigned parts) {
  std::string text = key.device;
  const auto add = [&](Part part, std::string_view value) {
    text += '\0';
    if ((parts & part) != 0) text += value;
  };
  add(kOfCategory, key.category);
  add(kOfPhase, key.phase);
  add(kOfLayer, key.layer);
  add(kOfOperator, key.op);
  add(kOfFunction, key.function);
  add(kOfText, key.text.empty() ? std::to_string(key.offset) : "=" + key.text);
  add(kOfDtype, key.dtype);
  return text;
}

// The parts of the key, and its live bytes and count at each point.
std::string profile_text(const Key& key, unsigned parts) {
  std::string text = reduced(key.key, parts);
  for (const auto& [point, held] : key.profile) {
    text += '\0' + point + '\0' + std::to_string(held.first) + ' ' + std::to_string(held.second);
  }
  return text;
}

class Aligner {
 public:
  Aligner(const Digest& before, const Digest& after)
      : old_keys_(before.keys),
        new_keys_(after.keys),
        alignment_{.pairs = {}, .modules = ModulePairs(before, after)},
        before_(keys_of(before)),
        after_(keys_of(after)) {
    for (Key& key : before_) {
      key.key.layer = alignment_.modules.name_before(key.key.layer);
    }
    for (Key& key : after_) key.key.layer = alignment_.modules.name_after(key.key.layer);
    // Digests of earlier versions have no most_bytes.
    if (has_most_bytes(before) != has_most_bytes(after)) {
      for (std::vector<Key>* const keys : {&before_, &after_}) {
        for (Key& key : *keys) key.profile.erase(kAtOnce);
      }
    }
    // A program that was killed, for example, has no text.
    if (line_names_of(before) != line_names_of(after)) {
      for (std::vector<Key>* const keys : {&before_, &after_}) {
        for (Key& key : *keys) key.key.text.clear();
      }
    }
  }

  Alignment run() {
    pair_alike(kEverything, Pairing::kSame);
    pair_joined(kEverything, Pairing::kSame);  // of folded indices
    pair_same_text();
    pair_moved_lines();
    pair(kEverything, Pairing::kSame);
    pair(kEverything & ~kOfText, Pairing::kText);
    for (Key& key : before_) {
      key.key.function = alignment_.modules.function_before(key.key.function);
    }
    pair(kEverything, Pairing::kRenamed);
    pair(kEverything & ~kOfText, Pairing::kRenamed);
    pair(kEverything & ~kOfFunction, Pairing::kFunction);
    pair_alike(kEverything & ~kOfFunction & ~kOfText, Pairing::kMoved);
    pair_joined(kEverything & ~kOfFunction & ~kOfText, Pairing::kMoved);
    pair_backward();
    pair_functions_of_modules();
    pair(kEverything & ~kOfPhase, Pairing::kPhase);
    pair(kEverything & ~kOfOperator, Pairing::kOperator);
    pair_owned(kOfCategory | kOfLayer | kOfDtype, Pairing::kOwner);
    pair(kEverything & ~kOfDtype, Pairing::kDtype);
    pair_owned(kOfCategory | kOfLayer, Pairing::kDtype);
    pair(kEverything & ~kOfCategory, Pairing::kCategory);
    for (const Key& key : before_) {
      alignment_.pairs.push_back({key.row, std::nullopt, Pairing::kUnpaired});
    }
    for (const Key& key : after_) {
      alignment_.pairs.push_back({std::nullopt, key.row, Pairing::kUnpaired});
    }
    for (KeyPair& pair : alignment_.pairs) {
      const bool is_as_before = pair.pairing == Pairing::kSame || pair.pairing == Pairing::kText;
      if (is_as_before && pair.before && pair.after &&
          old_keys_[*pair.before].layer != new_keys_[*pair.after].layer) {
        pair.pairing = Pairing::kRenamed;
      }
    }
    return std::move(alignment_);
  }

 private:
  // Pairs keys with the same text. Several keys with one text are paired in order of bytes.
  template <typename TextOf>
  void pair_by(TextOf&& text_of, Pairing pairing) {
    std::map<std::string, std::array<std::vector<const Key*>, 2>> groups;
    for (const Key& key : before_) groups[text_of(key)][0].push_back(&key);
    for (const Key& key : after_) groups[text_of(key)][1].push_back(&key);
    std::set<std::size_t> paired_before;
    std::set<std::size_t> paired_after;
    for (auto& [text, sides] : groups) {
      for (auto& side : sides) {
        std::ranges::sort(side, [](const Key* one, const Key* other) {
          return std::pair(-one->bytes, one->row) < std::pair(-other->bytes, other->row);
        });
      }
      const std::size_t count = std::min(sides[0].size(), sides[1].size());
      for (std::size_t i = 0; i < count; ++i) {
        alignment_.pairs.push_back({sides[0][i]->row, sides[1][i]->row, pairing});
        paired_before.insert(sides[0][i]->row);
        paired_after.insert(sides[1][i]->row);
      }
    }
    std::erase_if(before_, [&](const Key& key) { return paired_before.contains(key.row); });
    std::erase_if(after_, [&](const Key& key) { return paired_after.contains(key.row); });
  }

  void pair(unsigned parts, Pairing pairing) {
    pair_by([&](const Key& key) { return reduced(key.key, parts); }, pairing);
  }

  // Pairs keys that agree in `parts` and have equal bytes and counts at every point.
  void pair_alike(unsigned parts, Pairing pairing) {
    pair_by([&](const Key& key) { return profile_text(key, parts); }, pairing);
  }

  // Pairs the parameters of a layer, its buffers and its gradients, wherever they were made:
  // model.double() and model.to(device) replace those that __init__ made.
  void pair_owned(unsigned parts, Pairing pairing) {
    pair_by(
        [&](const Key& key) {
          const std::string& category = key.key.category;
          const bool is_owned =
              category == "parameter" || category == "buffer" || category == "gradient";
          const bool has_owner = is_owned && !key.key.layer.empty();
          return reduced(key.key, has_owner ? parts : kEverything);
        },
        pairing);
  }

  // An equal text is better evidence than equal bytes; an equal offset is not.
  void pair_same_text() {
    const auto text_of = [](const Key& key) {
      return key.key.text.empty() ? profile_text(key, kEverything) : reduced(key.key, kEverything);
    };
    pair_by(text_of, Pairing::kSame);
  }

  // Pairs the lines of an edited function by what they allocate, since their offsets have changed.
  // If a function has the same offsets in both digests, its lines are paired across offsets only
  // when they allocate the same overall: two lines that were swapped.
  void pair_moved_lines() {
    struct Lines {
      std::set<std::string> texts;
      std::multiset<std::string> contents;
    };
    std::map<std::string, std::array<Lines, 2>> functions;
    for (const auto& [keys, side] : {std::pair(&before_, 0), std::pair(&after_, 1)}) {
      for (const Key& key : *keys) {
        Lines& lines = functions[key.key.function][static_cast<std::size_t>(side)];
        lines.texts.insert(reduced(key.key, kOfText));
        lines.contents.insert(profile_text(key, kEverything & ~kOfText));
      }
    }
    const auto text_of = [&](const Key& key) {
      const auto& [one, other] = functions.at(key.key.function);
      const bool is_edited = one.texts != other.texts || one.contents == other.contents;
      return profile_text(key, is_edited ? kEverything & ~kOfText : kEverything);
    };
    pair_by(text_of, Pairing::kText);
  }

  // Pairs equal memory of backward in one layer: its operators and lines are those of forward,
  // where the edit is.
  void pair_backward() {
    constexpr unsigned kParts = kOfCategory | kOfPhase | kOfLayer | kOfDtype;
    const auto text_of = [](const Key& key) {
      const bool is_backward = key.key.phase == "backward" && !key.key.layer.empty();
      return profile_text(key, is_backward ? kParts : kEverything);
    };
    pair_by(text_of, Pairing::kMoved);
  }

  // Pairs equal memory of a module that only one side has, such as nn.GELU, and of the module
  // around it, where a function such as F.gelu allocates it on the other side.
  void pair_functions_of_modules() {
    const ModulePairs& modules = alignment_.modules;
    const auto text_of = [&](const Key& key, unsigned parts) {
      Key around = key;
      std::string& layer = around.key.layer;
      while (modules.is_added(layer) || modules.is_removed(layer)) {
        layer.resize(layer.rfind('.') == std::string::npos ? 0 : layer.rfind('.'));
      }
      return profile_text(around, parts);
    };
    constexpr unsigned kParts = kOfCategory | kOfPhase | kOfLayer | kOfDtype;
    pair_by([&](const Key& key) { return text_of(key, kParts | kOfOperator); }, Pairing::kMoved);
    const auto of_backward = [&](const Key& key) {
      return key.key.phase == "backward" ? text_of(key, kParts) : profile_text(key, kEverything);
    };
    pair_by(of_backward, Pairing::kMoved);
  }

  // Pairs lines that were moved into a helper which replaces several of them, or out of one. Such
  // lines have the same bytes and counts at every point only when they are added up.
  void pair_joined(unsigned parts, Pairing pairing) {
    struct Side {
      std::map<std::string, std::pair<std::int64_t, std::uint64_t>> profile;
      std::uint64_t largest_bytes = 0;
      bool operator==(const Side&) const = default;
    };
    std::map<std::string, std::array<Side, 2>> groups;
    for (const auto& [keys, side] : {std::pair(&before_, 0), std::pair(&after_, 1)}) {
      for (const Key& key : *keys) {
        Side& sum = groups[reduced(key.key, parts)][static_cast<std::size_t>(side)];
        sum.largest_bytes = std::max(sum.largest_bytes, key.largest_bytes);
        for (const auto& [point, held] : key.profile) {
          if (point == kAtOnce) continue;  // not a sum
          sum.profile[point].first += held.first;
          sum.profile[point].second += held.second;
        }
      }
    }
    const auto is_joined = [&](const Key& key) {  // not if it is live at none of the points
      const auto& [one, other] = groups.at(reduced(key.key, parts));
      return one == other && !one.profile.empty();
    };
    const auto text_of = [&](const Key& key) {
      return is_joined(key) ? reduced(key.key, parts) : profile_text(key, kEverything);
    };
    pair_by(text_of, pairing);
    for (const Key& key : before_) {
      if (is_joined(key)) alignment_.pairs.push_back({key.row, std::nullopt, pairing});
    }
    for (const Key& key : after_) {
      if (is_joined(key)) alignment_.pairs.push_back({std::nullopt, key.row, pairing});
    }
    std::erase_if(before_, is_joined);
    std::erase_if(after_, is_joined);
  }

  const std::vector<DigestKey>& old_keys_;
  const std::vector<DigestKey>& new_keys_;
  Alignment alignment_;
  std::vector<Key> before_;  // those that are not paired yet
  std::vector<Key> after_;
};

}  // namespace

const char* to_string(Pairing pairing) {
  switch (pairing) {
    case Pairing::kSame:
      return "same";
    case Pairing::kText:
      return "text";
    case Pairing::kRenamed:
      return "renamed";
    case Pairing::kFunction:
      return "function";
    case Pairing::kMoved:
      return "moved";
    case Pairing::kPhase:
      return "phase";
    case Pairing::kOperator:
      return "operator";
    case Pairing::kOwner:
      return "owner";
    case Pairing::kDtype:
      return "dtype";
    case Pairing::kCategory:
      return "category";
    case Pairing::kUnpaired:
      return "unpaired";
  }
  return "unpaired";
}

bool is_assumed(Pairing pairing) {
  return pairing == Pairing::kRenamed || pairing == Pairing::kMoved || pairing == Pairing::kPhase ||
         pairing == Pairing::kOperator;
}

Alignment align(const Digest& before, const Digest& after) { return Aligner(before, after).run(); }

}  // namespace plimsoll::comparison
