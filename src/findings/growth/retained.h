// What lines, layers or categories that grow at every step retain, and what to do about it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "findings/rules.h"
#include "report/tables.h"

namespace plimsoll::findings {

enum class Retained : std::uint8_t {
  kUnknown,
  kTensors,
  kOutputs,           // of forwards, without their graphs
  kMadeWithoutGraph,  // of forwards that are known to build no graph
  kGraphs,
  kGraphsOfBackward,    // with create_graph=True
  kGradientsWithGraph,  // the same, of .grad
  kRecomputed,          // by a checkpoint, in backward
  kModel
};

// What the rows of a device retain, judged by the category that grows most and, in native
// recordings, by what their lines have made that is live at the peak.
Retained retained_by(const Facts& facts, const DeviceFacts& device,
                     std::span<const report::GrowthRow> rows);

// How many tensors a step leaves behind.
double count_per_step(const report::GrowthRow& row);
// Whether the row grows enough to report: in bytes, or in number of tensors. The latter need memory
// of their own, which no allocation has.
bool grows_in_bytes(const report::GrowthRow& row);
bool grows_enough(const report::GrowthRow& row);

// What to store instead; empty if that is no remedy.
std::string instead_text(const DeviceFacts& device, Retained retained,
                         const report::GrowthRow* row);

// What to do about it. `name`: "train.py:9 (f)", as the object of a sentence; `row`: null if
// unknown.
std::string free_advice(const DeviceFacts& device, const std::string& name, Retained retained,
                        const report::GrowthRow* row);

// Whether each single step is known to leave memory behind. With more than 128 steps, this is known
// only of groups of steps.
bool is_every_step(const report::GrowthRow& row);

// By line of the recording: its row; null for others.
using RowOfLine = std::vector<const report::GrowthRow*>;
RowOfLine row_of_each_line(const Facts& facts, std::span<const report::GrowthRow> rows);

}  // namespace plimsoll::findings
