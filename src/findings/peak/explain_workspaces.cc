// library_workspaces: memory that libraries allocate for themselves fills much of the peak.
// Examples are cuBLAS with many streams and threads, and cuDNN while it tries algorithms. In
// recordings made before the category `workspace`, those of cuDNN are temporaries of a line, and
// the id is one_line_dominates.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "findings/peak/peak.h"
#include "findings/text.h"
#include "model/categories.h"
#include "model/library_workspaces.h"

namespace plimsoll::findings {
namespace {

// Every program that multiplies has one workspace for forward's thread, one for backward's and one
// of cuBLASLt. Only additional ones are the program's choice.
constexpr std::size_t kFewestWorkspaces = 4;
constexpr std::uint64_t kLeastKeptBytes = std::uint64_t{256} << 20;
constexpr double kShareOfKeptWorkspaces = 0.1;

// The size of each workspace with CUBLAS_WORKSPACE_CONFIG=:4096:2.
constexpr std::uint64_t kReducedBytes = std::uint64_t{8} << 20;

std::string_view library_operator(const Peak& peak, const Allocation& allocation) {
  const model::Site& site = allocation.site();
  return peak.trace().strings[site.inner_op != model::StringId{} ? site.inner_op : site.op];
}

bool is_of_cudnn(const Peak& peak, const Allocation& allocation) {
  return evidence::classes_of(library_operator(peak, allocation)).has(evidence::Operator::kCudnn);
}

// Explains workspaces that are freed before their operator returns. Those of cuBLAS are kept until
// the process ends.
void explain_convolution(const Peak& peak, Explanations& out) {
  const model::DeviceType type = peak.device().trace.device.type;
  if (type != model::DeviceType::kCuda && type != model::DeviceType::kHip) return;
  Explanation explanation(peak.live_if([&](const Allocation& each) {
    return each.died != model::kNone && each.size_bytes >= kSmallTensorBytes &&
           each.is(model::kWorkspace, model::kTemporaryCategory) && is_of_cudnn(peak, each);
  }));
  if (!peak.is_much(explanation.bytes, kShareOfPlace)) return;
  const Allocation& first = explanation.parts.front();
  report::Finding& finding = explanation.finding;
  finding.id = first.has_line() ? "one_line_dominates" : "library_workspaces";
  finding.title = "Workspaces of cuDNN fill " + amount_text(peak, explanation.bytes) +
                  " requested by " + std::string(library_operator(peak, first)) +
                  (first.has_line() ? " at " + first.label() : "");
  finding.evidence.push_back(
      "They are scratch memory of the library, not tensors of the program, and are freed before "
      "the operator returns.");
  finding.steps = {
      {"Set torch.backends.cudnn.benchmark = False if it is True: it tries algorithms with large "
       "workspaces for each new input shape."},
      {"If you need it, use few shapes (pad the inputs), and run one pass with each before the "
       "memory fills."}};
  out.push_back(std::move(explanation));
}

void explain_of_cublas(const Peak& peak, Explanations& out) {
  Explanation explanation(peak.live_if([](const Allocation& each) {
    return each.is(model::kWorkspace) && each.died == model::kNone;
  }));
  if (explanation.parts.size() < kFewestWorkspaces) return;
  if (!peak.is_much(explanation.bytes, kShareOfKeptWorkspaces, kLeastKeptBytes)) return;
  std::map<std::uint64_t, std::size_t, std::greater<>> counts;  // by size
  for (const Allocation& each : explanation.parts) ++counts[each.size_bytes];
  std::string sizes;
  for (const auto& [size, count] : counts) {
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(count) + " × " + bytes_text(size);
  }
  report::Finding& finding = explanation.finding;
  finding.id = "library_workspaces";
  finding.title = "Library workspaces fill " + amount_text(peak, explanation.bytes) + " in " +
                  counted(explanation.parts.size(), "block");
  finding.evidence = {"Their sizes are " + sizes + ".",
                      "cuBLAS keeps one for each thread and stream that multiplies matrices, until "
                      "the process ends."};
  const std::uint64_t saving = counts[model::kLargeCublasWorkspaceBytes] *
                               (model::kLargeCublasWorkspaceBytes - kReducedBytes);
  if (saving > 0) {
    finding.steps.push_back(
        step_up_to("Set CUBLAS_WORKSPACE_CONFIG=:4096:2 before the process starts, which gives "
                   "each 8.0 MiB; some multiplications may become slower.",
                   saving));
  }
  finding.steps.push_back({"Multiply matrices on fewer streams and threads."});
  out.push_back(std::move(explanation));
}

}  // namespace

void explain_workspaces(Peak& peak, Explanations& out) {
  explain_of_cublas(peak, out);
  explain_convolution(peak, out);
}

}  // namespace plimsoll::findings
