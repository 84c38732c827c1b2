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

bool names(std::span<const char* const> list, const Pass& pass) {
  return std::ranges::any_of(list,
                             [&](const char* name) { return std::strcmp(name, pass.name()) == 0; });
}

bool builds_on(const Pass& pass, const Pass& other) {
  return names(pass.depends_on(), other) || names(pass.runs_after(), other);
}

// Sorts the passes so that each comes after all that it builds on.
std::vector<const Pass*> in_order(Passes passes) {
  std::vector<const Pass*> waiting;
  for (const auto& pass : passes) waiting.push_back(pass.get());
  std::vector<const Pass*> order;
  while (!waiting.empty()) {
    const auto next = std::ranges::find_if(waiting, [&](const Pass* pass) {
      return std::ranges::none_of(waiting,
                                  [&](const Pass* other) { return builds_on(*pass, *other); });
    });
    PLIMSOLL_CHECK(next != waiting.end());  // a cycle
    order.push_back(*next);
    waiting.erase(next);
  }
  return order;
}

// The passes in `wanted` and all that they build on. If `wanted` is empty, every pass that is not
// only run on request.
std::vector<const Pass*> closure(const std::vector<const Pass*>& order,
                                 std::span<const std::string> wanted) {
  std::vector<const Pass*> chosen;
  for (auto pass = order.rbegin(); pass != order.rend(); ++pass) {
    const bool is_chosen =
        (wanted.empty() && !(*pass)->is_only_on_request()) ||
        std::ranges::find(wanted, (*pass)->name()) != wanted.end() ||
        std::ranges::any_of(chosen, [&](const Pass* other) { return builds_on(*other, **pass); });
    if (is_chosen) chosen.push_back(*pass);
  }
  std::ranges::reverse(chosen);
  return chosen;
}

// Empties the results that depend on `changed`, directly or through another pass.
void clear_stale(const std::vector<const Pass*>& order, OptionSet changed, report::Report& report) {
  std::vector<const Pass*> stale;
  for (const Pass* pass : order) {
    const bool is_stale =
        intersect(pass->uses(), changed) ||
        std::ranges::any_of(stale, [&](const Pass* other) { return builds_on(*pass, *other); });
    if (!is_stale) continue;
    stale.push_back(pass);
    if (find_run(report.passes, pass->name()) != nullptr) pass->clear(report);
    std::erase_if(report.passes, [&](const PassRun& run) { return run.name == pass->name(); });
  }
}

std::string why_skipped(const Pass& pass, const PassContext& context) {
  for (const char* name : pass.depends_on()) {
    const PassRun* run = find_run(context.report.passes, name);
    if (run == nullptr || run->state != PassState::kRan)
      return std::string("needs the analysis ") + name;
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
    if (run.state == PassState::kRan && status.ok()) run.reason = pass.unanswered(context);
  }
  context.report.passes.push_back(std::move(run));
  return status;
}

}  // namespace

OptionSet difference(const Options& a, const Options& b) {
  OptionSet changed = OptionSet::kNone;
  if (a.device != b.device) changed = changed | OptionSet::kDevice;
  if (a.point != b.point) changed = changed | OptionSet::kPoint;
  if (a.top != b.top) changed = changed | OptionSet::kTop;
  return changed;
}

Status run_passes(Passes passes, PassContext& context) {
  return run_passes(passes, {}, OptionSet::kNone, context);
}

Status run_passes(Passes passes, std::span<const std::string> wanted, OptionSet changed,
                  PassContext& context) {
  const std::vector<const Pass*> order = in_order(passes);
  std::vector<PassRun>& runs = context.report.passes;
  clear_stale(order, changed, context.report);
  for (const Pass* pass : closure(order, wanted)) {
    if (find_run(runs, pass->name()) != nullptr) continue;
    PLIMSOLL_TRY(run_one(*pass, context));
    if (context.progress.interrupted()) {
      return make_error(ErrorCode::kInterrupted, std::string("stopped after ") + pass->name());
    }
  }
  std::ranges::sort(runs, {}, [&](const PassRun& run) {
    return std::ranges::find_if(order, [&](const Pass* pass) { return run.name == pass->name(); }) -
           order.begin();
  });
  return {};
}

}  // namespace plimsoll::analysis
