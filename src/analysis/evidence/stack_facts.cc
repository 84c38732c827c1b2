#include "analysis/evidence/stack_facts.h"

#include <algorithm>
#include <array>
#include <string>

#include "analysis/evidence/match.h"

namespace plimsoll::analysis::evidence {
namespace {

enum class Where : std::uint8_t { kAnywhere, kInside, kCaller };

struct Pattern {
  StackFlag flag;
  Where where;
  Match file_match;
  std::string_view file;
  Match function_match;
  std::string_view function;
};
constexpr auto kPatterns = std::to_array<Pattern>({
#define FRAME(flag, where, file_match, file, function_match, function) \
  {StackFlag::flag, Where::where, Match::file_match, file, Match::function_match, function},
#include "analysis/evidence/patterns.def"
});

struct Exception {
  StackFlag flag;
  std::string_view file;
};
constexpr auto kExceptions = std::to_array<Exception>({
#define UNLESS(flag, file) {StackFlag::flag, file},
#include "analysis/evidence/patterns.def"
});

struct Package {
  Remedy remedy;
  std::string_view folder;
  std::string_view advice;
};
constexpr auto kPackages = std::to_array<Package>({
#define PACKAGE(remedy, folder, advice) {Remedy::remedy, folder, advice},
#include "analysis/evidence/patterns.def"
});
constexpr auto kNoPackage = static_cast<std::uint8_t>(kPackages.size());
constexpr std::array<std::uint8_t, kRemedies> kNoPackages = {kNoPackage, kNoPackage, kNoPackage};

// What each distinct frame says, wherever it is in a stack.
struct FrameFacts {
  std::uint64_t patterns = 0;  // bits: rows of kPatterns
  std::array<std::uint8_t, kRemedies> packages = kNoPackages;
};
static_assert(kPatterns.size() <= 64);

std::vector<FrameFacts> facts_of_frames(const model::Trace& trace) {
  std::vector<FrameFacts> facts(trace.stacks.frame_count());
  for (std::uint32_t id = 0; id < facts.size(); ++id) {
    const model::Frame& frame = trace.stacks.frame(model::FrameId{id});
    const std::string_view name = trace.strings[frame.file];
    std::string file(name);
    std::ranges::replace(file, '\\', '/');
    const std::string_view function = trace.strings[frame.function];
    for (std::size_t i = 0; i < kPatterns.size(); ++i) {
      const Pattern& each = kPatterns[i];
      const bool is_exception = std::ranges::any_of(kExceptions, [&](const Exception& other) {
        return other.flag == each.flag && base::ends_with_path(file, other.file);
      });
      const bool is_match = !is_exception && matches(each.file_match, file, each.file) &&
                            matches(each.function_match, function, each.function);
      if (is_match) facts[id].patterns |= std::uint64_t{1} << i;
    }
    const model::FrameOrigin origin = model::origin_of(name);
    if (origin != model::FrameOrigin::kLibrary && origin != model::FrameOrigin::kTorch) continue;
    for (std::size_t i = kPackages.size(); i-- > 0;) {
      if (file.find(kPackages[i].folder) == file.npos) continue;
      facts[id].packages[static_cast<std::size_t>(kPackages[i].remedy)] =
          static_cast<std::uint8_t>(i);
    }
  }
  return facts;
}

}  // namespace

StackFacts::StackFacts(const model::Trace& trace, const model::UserLines& lines)
    : flags_(trace.stacks.stack_count()), packages_(flags_.size(), kNoPackages) {
  const std::vector<FrameFacts> frames = facts_of_frames(trace);
  std::array<std::uint64_t, 3> masks{};  // the patterns of each Where
  for (std::size_t i = 0; i < kPatterns.size(); ++i) {
    masks[static_cast<std::size_t>(kPatterns[i].where)] |= std::uint64_t{1} << i;
  }
  const auto [anywhere, inside, caller] = masks;
  for (std::uint32_t id = 0; id < flags_.size(); ++id) {
    const model::StackId stack{id};
    const bool has_line = lines.why(stack) == model::NoLine::kHasLine;
    std::uint64_t found = 0;
    bool is_inside = has_line, is_caller = false;
    for (const model::FrameId frame : trace.stacks.frames(stack)) {
      const FrameFacts& facts = frames[frame.index()];
      const bool is_line = is_inside && frame == lines.frame(stack);
      if (is_line) is_inside = false;
      found |= facts.patterns & (anywhere | (is_inside ? inside : 0) | (is_caller ? caller : 0));
      is_caller = is_line;
      for (std::size_t i = 0; i < kRemedies; ++i) {
        packages_[id][i] = std::min(packages_[id][i], facts.packages[i]);
      }
    }
    for (std::size_t i = 0; i < kPatterns.size(); ++i) {
      const bool is_found = (found >> i & 1u) != 0;
      if (is_found) flags_[id] |= static_cast<std::uint32_t>(kPatterns[i].flag);
    }
  }
}

bool StackFacts::has_any(StackFlag flag) const {
  return std::ranges::any_of(
      flags_, [&](std::uint32_t flags) { return (flags & static_cast<std::uint32_t>(flag)) != 0; });
}

std::string_view StackFacts::advice(model::StackId stack, Remedy remedy) const {
  const std::uint8_t package = packages_[stack.index()][static_cast<std::size_t>(remedy)];
  return package == kNoPackage ? std::string_view() : kPackages[package].advice;
}

}  // namespace plimsoll::analysis::evidence
