// The stacks of the simulated program: the C++ and Python frames from which it allocates. Frames
// and stacks are stored once; a SiteId identifies a stack. Innermost frame first, as PyTorch writes
// them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "generator/event.h"

namespace generator {

struct Frame {
  std::string name;
  std::string filename;
  int64_t line = 0;

  auto operator<=>(const Frame&) const = default;
};

using FrameId = uint32_t;

class StackTable {
 public:
  /// Every stack is cut or filled to `depth` frames; with 0 it keeps its natural depth.
  explicit StackTable(size_t depth) : depth_(depth) {}

  /// An allocation by operator `op` ("addmm") under the given Python frames, innermost first.
  SiteId python_site(const std::string& op, const std::vector<Frame>& python);
  /// An allocation by an autograd node ("AddmmBackward0") on an engine thread, without Python
  /// frames.
  SiteId backward_site(const std::string& node, const std::string& op);

  size_t size() const { return stacks_.size(); }
  const std::vector<FrameId>& stack(SiteId site) const { return stacks_[site]; }
  const std::vector<Frame>& frames() const { return frames_; }

 private:
  FrameId intern(const Frame& frame);
  SiteId add(const std::vector<Frame>& stack);

  size_t depth_;
  std::vector<Frame> frames_;
  std::map<Frame, FrameId> frame_ids_;
  std::vector<std::vector<FrameId>> stacks_;
  std::map<std::vector<FrameId>, SiteId> sites_;
};

}  // namespace generator
