#include "analysis/pass_runner.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "base/check.h"

namespace plimsoll::analysis {
namespace {

using report::PassRun;
using report::PassState;

const PassRun* find_run(const std::vector<PassRun>& runs, const char* name) {
  auto found = std::ranges::find_if(runs, [&](const PassRun& run) { return run.name == name; });
  return found == runs.end() ? nullptr : &*found;
}

// True when every pass that `pass` depends on has had its turn, and none that it runs after waits.
bool is_ready(const Pass& pass, const std::vector<PassRun>& runs,
              const std::vector<const Pass*>& waiting) {
  const auto has_run = [&](const char* name) { return find_run(runs, name) != nullptr; };
  const auto is_waiting = [&](const char* name) {
    return std::ranges::any_of(
        waiting, [&](const Pass* other) { return std::strcmp(other->name(), name) == 0; });
  };
  return std::ranges::all_of(pass.depends_on(), has_run) &&
         std::ranges::none_of(pass.runs_after(), is_waiting);
}

std::string why_skipped(const Pass& pass, const PassContext& context) {
  for (const char* name : pass.depends_on()) {
    const PassRun* run = find_run(context.report.passes, name);
    if (run->state != PassState::kRan) return std::string("needs the analysis ") + name;
  }
  return pass.why_not(context.trace);
}

Status run_one(const Pass& pass, PassContext& context) {
  PassRun run;
  run.name = pass.name();
  run.reason = why_skipped(pass, context);
  Status status;
  if (!run.reason.empty()) {
    run.state = PassState::kSkipped;
  } else {
    context.progress.advance(pass.name(), 0, 0);
    const auto begin = std::chrono::steady_clock::now();
    status = pass.run(context);
    run.duration_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
    if (context.progress.interrupted()) run.state = PassState::kInterrupted;
  }
  context.report.passes.push_back(std::move(run));
  return status;
}

}  // namespace

Status run_passes(std::span<const std::unique_ptr<Pass>> passes, PassContext& context) {
  std::vector<const Pass*> waiting;
  for (const auto& pass : passes) waiting.push_back(pass.get());
  while (!waiting.empty()) {
    auto next = std::ranges::find_if(
        waiting, [&](const Pass* pass) { return is_ready(*pass, context.report.passes, waiting); });
    PLIMSOLL_CHECK(next != waiting.end());  // a cycle, or a dependency that is not in the catalogue
    const Pass* pass = *next;
    waiting.erase(next);
    PLIMSOLL_TRY(run_one(*pass, context));
    if (context.progress.interrupted()) {
      return make_error(ErrorCode::kInterrupted, std::string("stopped after ") + pass->name());
    }
  }
  return {};
}

}  // namespace plimsoll::analysis
