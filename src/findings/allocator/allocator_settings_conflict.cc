// allocator_settings_conflict: settings that contradict each other, or that have no effect.
#include <string>
#include <utility>

#include "findings/rules.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

report::Finding conflict(const AllocatorConf& conf, std::string title, std::string step) {
  report::Finding finding;
  finding.id = "allocator_settings_conflict";
  finding.severity = report::FindingSeverity::kWarning;
  finding.title = std::move(title);
  if (!conf.raw.empty()) finding.evidence.push_back(conf.variable + "=" + conf.raw + ".");
  finding.steps.push_back({std::move(step)});
  return finding;
}

// pytorch/pytorch#123548, #193400.
report::Finding split_size_with_expandable(const AllocatorConf& conf) {
  report::Finding finding =
      conflict(conf, "max_split_size_mb works against expandable_segments:True",
               "Remove max_split_size_mb and keep expandable_segments:True.");
  finding.evidence.push_back(
      "Blocks in expandable segments are split whatever their size, so the limit prevents no "
      "fragmentation; but requests below " +
      bytes_text(*conf.max_split_size_bytes) +
      " cannot use free blocks above it, so reserved bytes can grow without bound.");
  return finding;
}

report::Finding collection_with_expandable(const AllocatorConf& conf) {
  report::Finding finding =
      conflict(conf, "garbage_collection_threshold does nothing with expandable_segments:True",
               "Remove garbage_collection_threshold and keep expandable_segments:True.");
  finding.evidence.push_back(
      "The collector frees whole unused segments and skips expandable ones.");
  return finding;
}

report::Finding asked_but_off(const AllocatorConf& conf) {
  report::Finding finding =
      conflict(conf, "expandable_segments:True is set but not in effect",
               "Look for the warning \"expandable_segments not supported on this platform\" in the "
               "log, and remove the setting there.");
  finding.evidence.push_back(
      "The allocator's settings show that it does not use expandable segments. PyTorch ignores the "
      "setting if the platform or the build does not support them.");
  return finding;
}

}  // namespace

Findings allocator_settings_conflict(const Facts& facts) {
  Findings findings;
  const AllocatorConf& conf = facts.conf;
  if (conf.expandable_segments && conf.max_split_size_bytes) {
    findings.push_back(split_size_with_expandable(conf));
  }
  if (conf.expandable_segments && conf.garbage_collection_threshold > 0) {
    findings.push_back(collection_with_expandable(conf));
  }
  if (conf.asked_for_expandable_segments && !conf.expandable_segments) {
    findings.push_back(asked_but_off(conf));
  }
  return findings;
}

}  // namespace plimsoll::findings
