// The state of a Session: the recording, and the answers to recent questions. For the engine and
// the modules above it (cli, server); bindings use the public interface.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "analysis/pass.h"
#include "model/trace.h"
#include "model/user_line.h"
#include "plimsoll/session.h"
#include "report/report.h"

namespace plimsoll {

struct Session::State {
  explicit State(model::Trace loaded, report::Source described = {})
      : trace(std::move(loaded)), lines(trace), source(std::move(described)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const model::Trace trace;
  const model::UserLines lines;  // points into trace
  const report::Source source;

  // A report and, in its `passes`, the analyses it contains.
  struct Answer {
    analysis::Options options;
    std::shared_ptr<const report::Report> report;
  };
  mutable std::mutex mutex;             // guards `answers`; not held while passes run
  mutable std::vector<Answer> answers;  // oldest first
};

}  // namespace plimsoll
