// What a Session holds. For the engine and the layers above it (cli, server); bindings use the
// public face.
#pragma once

#include <string>
#include <utility>

#include "model/trace.h"
#include "model/user_line.h"
#include "plimsoll/session.h"
#include "report/report.h"

namespace plimsoll {

struct Session::State {
  explicit State(model::Trace loaded) : trace(std::move(loaded)), lines(trace) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  model::Trace trace;
  model::UserLines lines;  // points into trace
  report::Report report;
  std::string device;  // the only one of the report, as in OpenOptions; empty: all
};

}  // namespace plimsoll
