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

std::string_view library_operator(const Peak& peak, const PeakAllocation& allocation) {
  const model::Site& site = peak.site(allocation);
  return peak.trace().strings[site.inner_op != model::StringId{} ? site.inner_op : site.op];
}

bool is_of_cudnn(const Peak& peak, const PeakAllocation& allocation) {
  return evidence::classes_of(library_operator(peak, allocation)).has(evidence::Operator::kCudnn);
}

// Explains workspaces that are freed before their operator returns. Those of cuBLAS are kept until
// the process ends.
void explain_convolution(const Peak& peak, Explanations& out) {
  const model::DeviceType type = peak.device().trace.device.type;
  if (type != model::DeviceType::kCuda && type != model::DeviceType::kHip) return;
  Explanation explanation;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    const std::string_view category = peak.category(allocation);
    const bool is_candidate =
        category == model::kWorkspace || category == model::kTemporaryCategory;
    if (!is_candidate || allocation.died == model::kNone) continue;
    if (allocation.size_bytes < kSmallTensorBytes || !is_of_cudnn(peak, allocation)) continue;
    explanation.add(peak, part);
  }
  if (explanation.bytes < kLeastPeakBytes) return;
  if (!is_at_least(explanation.bytes, kShareOfPlace, peak.bytes())) return;
  const PeakAllocation& first = peak.live()[explanation.parts.front()];
  report::Finding& finding = explanation.finding;
  const std::string amount = bytes_text(explanation.bytes) + " of " + bytes_text(peak.bytes());
  finding.title = "Workspaces of cuDNN fill " + share_text(peak, explanation.bytes) + ": " +
                  amount + " requested by " + std::string(library_operator(peak, first));
  finding.id = "library_workspaces";
  if (peak.has_line(first)) {
    finding.id = "one_line_dominates";
    finding.title += " at " + peak.line_label(first);
  }
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
  Explanation explanation;
  std::map<std::uint64_t, std::size_t> counts;  // by size
  std::uint64_t saving = 0;
  for (std::uint32_t part = 0; part < peak.live().size(); ++part) {
    const PeakAllocation& allocation = peak.live()[part];
    if (peak.category(allocation) != model::kWorkspace || allocation.died != model::kNone) continue;
    explanation.add(peak, part);
    ++counts[allocation.size_bytes];
    if (allocation.size_bytes == model::kLargeCublasWorkspaceBytes) {
      saving += allocation.size_bytes - kReducedBytes;
    }
  }
  if (explanation.parts.size() < kFewestWorkspaces || explanation.bytes < kLeastKeptBytes) return;
  if (!is_at_least(explanation.bytes, kShareOfKeptWorkspaces, peak.bytes())) return;
  report::Finding& finding = explanation.finding;
  finding.id = "library_workspaces";
  finding.title = "Library workspaces fill " + share_text(peak, explanation.bytes) + ": " +
                  bytes_text(explanation.bytes) + " of " + bytes_text(peak.bytes()) + " in " +
                  counted(explanation.parts.size(), "block");
  std::string sizes;
  for (auto each = counts.rbegin(); each != counts.rend(); ++each) {
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(each->second) + " × " +
             bytes_text(each->first);
  }
  finding.evidence.push_back("Their sizes are " + sizes + ".");
  finding.evidence.push_back(
      "cuBLAS keeps one for each thread and stream that multiplies matrices, until the process "
      "ends.");
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
