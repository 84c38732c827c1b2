// allocator_settings_conflict: settings that contradict each other, or that have no effect.
#include <string>
#include <utility>

#include "findings/rules.h"
#include "findings/text.h"

namespace plimsoll::findings {

Findings allocator_settings_conflict(const Facts& facts) {
  const AllocatorConf& conf = facts.conf;
  Findings findings;
  const auto add = [&](std::string title, std::string evidence, std::string step) {
    findings.push_back({"allocator_settings_conflict",
                        report::FindingSeverity::kWarning,
                        std::move(title),
                        {std::move(evidence)},
                        {{std::move(step)}}});
    auto& facts_of = findings.back().evidence;
    if (!conf.raw.empty()) facts_of.insert(facts_of.begin(), conf.variable + "=" + conf.raw + ".");
  };
  // pytorch/pytorch#123548, #193400.
  if (conf.expandable_segments && conf.max_split_size_bytes) {
    add("max_split_size_mb works against expandable_segments:True",
        "Blocks in expandable segments are split whatever their size, so the limit prevents no "
        "fragmentation; but requests below " +
            bytes_text(*conf.max_split_size_bytes) +
            " cannot use free blocks above it, so reserved bytes can grow without bound.",
        "Remove max_split_size_mb and keep expandable_segments:True.");
  }
  if (conf.expandable_segments && conf.garbage_collection_threshold > 0) {
    add("garbage_collection_threshold does nothing with expandable_segments:True",
        "The collector frees whole unused segments and skips expandable ones.",
        "Remove garbage_collection_threshold and keep expandable_segments:True.");
  }
  if (conf.asked_for_expandable_segments && !conf.expandable_segments) {
    add("expandable_segments:True is set but not in effect",
        "The allocator's settings show that it does not use expandable segments. PyTorch ignores "
        "the setting if the platform or the build does not support them.",
        "Look for the warning \"expandable_segments not supported on this platform\" in the log, "
        "and remove the setting there.");
  }
  return findings;
}

}  // namespace plimsoll::findings
