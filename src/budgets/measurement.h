// What the check measures: the digest of a recording and, if the budget needs them, its findings
// and growth.
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
  bool is_only_digest = false;  // the file is a digest, without findings and growth
  std::vector<Finding> findings = {};
  std::vector<DeviceGrowth> growth = {};  // one entry per device of the recording
  std::string why_no_growth = {};         // why growth is unknown; empty if it is known
};

// Recordings of one rank of a program: several if the program ran repeatedly.
struct Runs {
  std::vector<Measurement> each;  // at least one
  report::Digest digest;          // fold() of all of them (repeats.h)
};

}  // namespace plimsoll::budgets
