// Runs one or more passes over a trace, as the engine would, and returns the report.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/pass.h"
#include "analysis/pass_runner.h"
#include "base/progress.h"
#include "model/trace.h"
#include "model/user_line.h"
#include "plimsoll/result.h"
#include "report/report.h"

namespace plimsoll::tests {

using Passes = std::vector<std::unique_ptr<analysis::Pass>>;

template <typename... Pass>
Passes passes(Pass... pass) {
  Passes all;
  (all.push_back(std::move(pass)), ...);
  return all;
}

inline Result<report::Report> try_passes(const model::Trace& trace, const Passes& passes,
                                         const analysis::Options& options = {}) {
  const model::UserLines lines(trace);
  base::Progress progress;
  report::Report report;
  analysis::PassContext context{trace, lines, options, progress, report};
  PLIMSOLL_TRY(analysis::run_passes(passes, context));
  return report;
}

inline report::Report run_passes(const model::Trace& trace, const Passes& passes,
                                 const analysis::Options& options = {}) {
  auto report = try_passes(trace, passes, options);
  EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message);
  return report.ok() ? std::move(report).value() : report::Report{};
}

}  // namespace plimsoll::tests
