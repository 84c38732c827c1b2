#include "analysis/findings/packages.h"

#include <algorithm>
#include <array>
#include <map>

#include "analysis/findings/text.h"
#include "base/path_text.h"
#include "model/function_name.h"
#include "model/inner_lines.h"
#include "model/user_line.h"

namespace plimsoll::analysis::findings {
namespace {

constexpr double kShareOfPackage = 0.5;

struct Known {
  std::string_view folder;  // of the file of a frame
  CheckpointCall call;
};

// The first match applies: trainers and model wrappers come before the models that they call.
constexpr std::array kKnown{
    Known{"/transformers/trainer.py",
          {"transformers", "Set gradient_checkpointing=True in TrainingArguments"}},
    Known{"/transformers/models/",
          {"transformers",
           "Call model.gradient_checkpointing_enable() before training "
           "(activation_checkpointing_enable() in later versions)"}},
    Known{"/diffusers/models/",
          {"diffusers", "Call model.enable_gradient_checkpointing() before training"}},
    Known{"/timm/models/", {"timm", "Call model.set_grad_checkpointing() before training"}},
    Known{"/pytorch/strategies/fsdp.py",
          {"Lightning",
           "Pass activation_checkpointing_policy={CLASS}, with the class of these "
           "layers, to FSDPStrategy"}},
    Known{"/pytorch_lightning/strategies/fsdp.py",
          {"Lightning",
           "Pass activation_checkpointing_policy={CLASS}, with the class of these "
           "layers, to FSDPStrategy"}},
    Known{"/torch/distributed/fsdp/",
          {"FSDP",
           "Call apply_activation_checkpointing(model, check_fn=…) from "
           "torch.distributed.algorithms._checkpoint.checkpoint_wrapper for these layers"}},
};

std::string with_slashes(std::string_view path) {
  std::string text(path);
  std::ranges::replace(text, '\\', '/');
  return text;
}

// The index in kKnown; kKnown.size(): none.
std::size_t known_in(const model::Trace& trace, model::StackId stack) {
  std::size_t first = kKnown.size();
  for (const model::FrameId id : trace.stacks.frames(stack)) {
    const std::string_view name = trace.strings[trace.stacks.frame(id).file];
    const model::FrameOrigin origin = model::origin_of(name);
    if (origin != model::FrameOrigin::kLibrary && origin != model::FrameOrigin::kTorch) continue;
    const std::string file = with_slashes(name);
    for (std::size_t i = 0; i < first; ++i) {
      if (file.find(kKnown[i].folder) != std::string::npos) first = i;
    }
  }
  return first;
}

}  // namespace

bool CheckpointStacks::contains(model::StackId stack) {
  const auto [found, is_new] = known_.try_emplace(stack.value, false);
  if (is_new) {
    found->second = std::ranges::any_of(trace_.stacks.frames(stack), [&](model::FrameId id) {
      const std::string_view file = trace_.strings[trace_.stacks.frame(id).file];
      return base::ends_with_path(file, "torch/utils/checkpoint.py") ||
             base::ends_with_path(file,
                                  "deepspeed/runtime/activation_checkpointing/"
                                  "checkpointing.py");
    });
  }
  return found->second;
}

std::optional<CheckpointCall> checkpoint_call(const Peak& peak,
                                              const std::vector<std::uint32_t>& parts) {
  std::map<std::uint32_t, std::uint64_t> by_stack;
  std::uint64_t whole = 0;
  for (const std::uint32_t part : parts) {
    by_stack[peak.live()[part].stack.value] += peak.live()[part].size_bytes;
    whole += peak.live()[part].size_bytes;
  }
  std::array<std::uint64_t, kKnown.size()> bytes{};
  for (const auto& [stack, of_stack] : by_stack) {
    const std::size_t known = known_in(peak.trace(), model::StackId{stack});
    if (known < bytes.size()) bytes[known] += of_stack;
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] > 0 && is_at_least(bytes[i], kShareOfPackage, whole)) return kKnown[i].call;
  }
  return std::nullopt;
}

std::pair<std::string, std::uint64_t> package_line_of_most(const Peak& peak,
                                                           const std::vector<std::uint32_t>& parts,
                                                           const std::string& line) {
  const model::Trace& trace = peak.trace();
  const model::UserLines& lines = peak.facts().lines;
  std::map<std::uint32_t, std::uint64_t> by_stack;
  for (const std::uint32_t part : parts) {
    const PeakAllocation& allocation = peak.live()[part];
    if (!peak.has_line(allocation) || !lines.is_in_package(allocation.stack)) continue;
    by_stack[allocation.stack.value] += allocation.size_bytes;
  }
  std::map<std::string, std::uint64_t> inside;
  for (const auto& [stack, bytes] : by_stack) {
    const model::StackId id{stack};
    if (lines.label(id) != line) continue;
    std::optional<model::FrameId> innermost;
    bool is_of_module = false;
    for (const model::FrameId frame : trace.stacks.frames(id)) {
      if (frame == lines.frame(id)) break;
      const model::Frame& row = trace.stacks.frame(frame);
      if (model::origin_of(trace.strings[row.file]) != model::FrameOrigin::kLibrary) continue;
      if (!innermost) innermost = frame;
      is_of_module = is_of_module || model::is_forward(trace.strings[row.function]);
    }
    if (is_of_module) inside[model::package_line(trace, *innermost)] += bytes;
  }
  const auto most =
      std::ranges::max_element(inside, {}, [](const auto& each) { return each.second; });
  if (most == inside.end()) return {};
  return {most->first, most->second};
}

}  // namespace plimsoll::analysis::findings
