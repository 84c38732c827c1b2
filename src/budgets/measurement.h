// What the check measures: the digest of a recording and, if the budget needs them, its findings
// and growth.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/finding.h"
#include "report/digest.h"

namespace plimsoll::budgets {

struct DeviceGrowth {
  std::string device;
  double bytes_per_step = 0;
  std::string fastest = {};  // the line that grows most; empty if none grows
};

// What is live at the peak of a device and no operator uses again.
struct DeviceUnused {
  std::string device;
  std::uint64_t bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t unknown_bytes = 0;  // of the peak: whether operators use them again
  bool is_sampled = false;          // whether uses were observed only in some steps
  std::string text = {};            // the report's sentence
  std::string line = {};            // that allocated most of it; empty if unknown
};

// Forked children that allocated memory. The recording does not contain it.
struct ForkedChildren {
  std::uint64_t unrecorded = 0;
  std::uint64_t recorded = 0;   // in files of their own, as with --in-children
  std::int64_t peak_bytes = 0;  // the highest of the recorded ones, on any device
  bool is_incomplete = false;   // a part of a child's recording is missing, as after os._exit()
};

struct Measurement {
  report::Digest digest;
  bool is_only_digest = false;  // the file is a digest, without findings and growth
  std::vector<Finding> findings = {};
  std::vector<DeviceGrowth> growth = {};  // one entry per device of the recording
  std::string why_no_growth = {};         // why growth is unknown; empty if it is known
  std::vector<DeviceUnused> unused = {};  // without devices for which it is unknown
  ForkedChildren children = {};
};

// Recordings of one rank of a program: several if the program ran repeatedly.
struct Runs {
  std::vector<Measurement> each;  // at least one
  report::Digest digest;          // fold() of all of them (repeats.h)
};

}  // namespace plimsoll::budgets
