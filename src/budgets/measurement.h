// What is checked against a budget: a recording's digest, and its findings if they are needed.
#pragma once

#include <string>
#include <vector>

#include "base/finding.h"
#include "report/digest.h"

namespace plimsoll::budgets {

struct DeviceGrowth {
  std::string device;
  double bytes_per_step = 0;
};

struct Measurement {
  report::Digest digest;
  bool is_only_digest = false;  // the file was a digest: no findings and no growth
  std::vector<Finding> findings = {};
  std::vector<DeviceGrowth> growth = {};  // each device of the recording
  std::string why_no_growth = {};         // the reason if growth was not examined
};

// Recordings of the same program by the same rank: one, or several equal runs.
struct Runs {
  std::vector<Measurement> each;  // at least one
  report::Digest digest;          // of all of them (repeats.h)
};

}  // namespace plimsoll::budgets
