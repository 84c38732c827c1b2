#include "model/user_line.h"

#include <tsl/robin_map.h>

#include <algorithm>

#include "base/hash.h"
#include "model/function_name.h"
#include "model/workspace_stack.h"

namespace plimsoll::model {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view last_folders(std::string_view path) {
  std::size_t slashes = 0;
  for (std::size_t at = path.size(); at > 0; --at) {
    if (path[at - 1] != '/' && path[at - 1] != '\\') continue;
    if (++slashes == 3 && at > 1) return path.substr(at);  // at 1 only the root would be left out
  }
  return path;
}

// libcuda.so.1, libcudart.so.12, libcudart-8774224f.so.12: they serve requests and never cause
// them.
bool is_cuda_itself(std::string_view file) { return file.starts_with("libcuda"); }

}  // namespace

UserLines::UserLines(const Trace& trace) : trace_(trace) {
  const StackTable& stacks = trace.stacks;
  std::vector<FrameOrigin> origins(stacks.frame_count());
  std::vector<bool> is_autograd(stacks.frame_count());
  std::vector<bool> is_workspace(stacks.frame_count());
  for (std::uint32_t row = 0; row < stacks.frame_count(); ++row) {
    const Frame& frame = stacks.frame(FrameId{row});
    const std::string_view function = trace.strings[frame.function];
    origins[row] = origin_of(trace.strings[frame.file]);
    is_workspace[row] = is_workspace_frame(function);
    // torch.profiler records the graph's nodes (AddmmBackward0) as frames without a file.
    const bool is_node = trace.strings[frame.file].empty() && contains(function, "Backward");
    is_autograd[row] = is_node || contains(function, "torch::autograd::Engine::") ||
                       contains(function, "torch::autograd::python::PythonEngine::thread_init");
  }
  // Only a C++ program's recording has phases and no Python frame. It contains no frames of torch.
  const bool is_cpp_program =
      trace.has_phases() && std::ranges::all_of(origins, [](FrameOrigin origin) {
        return origin == FrameOrigin::kNative;
      });
  lines_.resize(stacks.stack_count());
  for (std::uint32_t row = 0; row < stacks.stack_count(); ++row) {
    Line& line = lines_[row];
    bool backward = false;
    FrameOrigin best = FrameOrigin::kTorch;  // later kinds are never chosen
    bool is_in_package = false;
    const auto frames = stacks.frames(StackId{row});
    if (frames.empty()) continue;
    line.why = NoLine::kNativeOnly;
    if (std::ranges::any_of(frames, [&](FrameId id) { return is_workspace[id.index()]; })) {
      line.why = NoLine::kLibraryWorkspace;
      continue;
    }
    for (FrameId id : frames) {
      backward = backward || is_autograd[id.index()];
      if (origins[id.index()] >= best) continue;
      best = origins[id.index()];
      is_in_package = is_in_package || best == FrameOrigin::kLibrary;
      line = Line{id, NoLine::kHasLine, LineId{}, is_in_package};
      if (best == FrameOrigin::kUser) break;
    }
    if (line.why != NoLine::kHasLine && (trace.has_native_lines || is_cpp_program)) {
      const auto asks = [&](FrameId id) {
        return !is_cuda_itself(trace.strings[stacks.frame(id).file]);
      };
      const auto asker = std::ranges::find_if(frames, asks);
      line =
          Line{asker != frames.end() ? *asker : frames.back(), NoLine::kHasLine, LineId{}, false};
    }
    if (line.why != NoLine::kHasLine && backward) line.why = NoLine::kAutograd;
  }
  number_lines();
}

void UserLines::number_lines() {
  struct Hash {
    std::size_t operator()(const Frame& frame) const {
      return base::hash_bytes(&frame, sizeof frame);
    }
  };
  tsl::robin_map<Frame, std::uint32_t, Hash> ids;
  for (std::uint32_t row = 0; row < lines_.size(); ++row) {
    Line& line = lines_[row];
    Frame key;  // a reason is a frame without a file, identified by its notes
    key.notes = static_cast<std::uint32_t>(line.why);
    if (line.why == NoLine::kHasLine) {
      key = trace_.stacks.frame(line.frame);
      key.notes = 0;
    }
    const auto next = static_cast<std::uint32_t>(examples_.size());
    const auto [place, is_new] = ids.try_emplace(key, next);
    if (is_new) examples_.push_back(StackId{row});
    line.id = LineId{place->second};
  }
}

std::string_view UserLines::library(StackId stack) const {
  if (!trace_.has_native_lines || why(stack) != NoLine::kHasLine) return {};
  const std::string_view file = trace_.strings[trace_.stacks.frame(frame(stack)).file];
  return origin_of(file) == FrameOrigin::kNative ? file : std::string_view{};
}

std::string UserLines::label(StackId stack) const {
  switch (why(stack)) {
    case NoLine::kHasLine:
      break;
    case NoLine::kNotRecorded:
      // Only native recordings, which have phases, can distinguish the two.
      if (!trace_.has_phases()) return "[no stack recorded]";
      return trace_.stacks.frame_count() == 0 ? "[recorded without lines]"
                                              : "[no Python frame on this thread]";
    case NoLine::kAutograd:
      return "[backward, no Python frame]";
    case NoLine::kNativeOnly:
      return "[native code, no Python frame]";
    case NoLine::kLibraryWorkspace:
      return std::string(kWorkspaceFrame);
  }
  return frame_label(lines_[stack.index()].frame);
}

std::string UserLines::caller(StackId stack) const {
  if (why(stack) != NoLine::kHasLine) return {};
  const auto is_in_forward = [&](FrameId id) {
    const std::string_view function = trace_.strings[trace_.stacks.frame(id).function];
    return is_forward(function) || is_comprehension(function);
  };
  bool is_outside = false;
  for (const FrameId id : trace_.stacks.frames(stack)) {
    if (id == frame(stack)) {
      is_outside = is_in_forward(id);
    } else if (is_outside && !is_in_forward(id) &&
               origin_of(trace_.strings[trace_.stacks.frame(id).file]) == FrameOrigin::kUser) {
      return frame_label(id);
    }
  }
  return {};
}

std::string UserLines::frame_label(FrameId id) const {
  const Frame& frame = trace_.stacks.frame(id);
  const std::string_view file = trace_.strings[frame.file];
  const std::string_view cell = base::notebook_cell(file);
  std::string label(cell.empty() ? last_folders(file) : "In[" + std::string(cell) + "]");
  if (frame.line != kUnknownLine) label += ":" + std::to_string(frame.line);
  label += " (";
  label += trace_.strings[frame.function];
  label += ")";
  return label;
}

std::string operator_of(const Trace& trace, StackId stack) {
  // Frames run innermost first, so the last match is the outermost: the operator that the program
  // called.
  std::string found;
  for (FrameId id : trace.stacks.frames(stack)) {
    const std::string_view function = trace.strings[trace.stacks.frame(id).function];
    constexpr std::string_view kOps = "at::_ops::";
    const std::size_t ops = function.find(kOps);
    if (ops == 0 || (ops != std::string_view::npos && function[ops - 1] == ' ')) {
      const std::string_view rest = function.substr(ops + kOps.size());
      found = "aten::" + std::string(rest.substr(0, rest.find("::")));
    }
  }
  return found;
}

}  // namespace plimsoll::model
