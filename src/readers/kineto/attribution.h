// Attributes allocations: finds the stack, the operator and the module path that enclose each
// allocating `[memory]` event. Inside an autograd node, stack and module are those of the forward
// operator with the same sequence number, unless Python runs in the node.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostics.h"
#include "base/progress.h"
#include "model/trace_builder.h"
#include "readers/kineto/recording.h"
#include "readers/kineto/span_index.h"

namespace plimsoll::readers::kineto {

struct Place {
  model::StackId stack;
  model::StringId op;
  model::StringId layer;
};

class Attribution {
 public:
  Attribution(const Recording& recording, model::TraceBuilder& builder,
              base::Diagnostics& diagnostics, std::uint64_t memory_limit);

  // One place per row of Recording::events; frees have none. Call once.
  Result<std::vector<Place>> run(base::Progress& progress);

 private:
  // An event whose Python stack comes from another thread.
  struct Loan {
    std::uint32_t event = 0;
    std::uint32_t first_frame = 0;  // its own frames, in loan_frames_
    std::uint32_t frame_count = 0;
    bool is_forward = false;  // from the forward operator; false: from the only Python thread
  };

  void find_python_threads();
  void find_beginning();
  // Whether the call was open when profiling began: its line is the one that ran then.
  bool was_open(const Span& span) const {
    return span.kind == SpanKind::kPython && span.begin_ns <= profiling_begins_ns_;
  }
  void find_forward_operators();
  // Calls place(time, enclosing) for each point in time, within the limits.
  template <typename PlaceOne>
  Status place_all(std::vector<TimePoint>& points, base::Progress& progress, PlaceOne&& place);
  void place_own(const TimePoint& point, const Enclosing& enclosing);
  void place_loan(const TimePoint& point, const Enclosing& enclosing);
  void borrow(const TimePoint& point, const Span* forward);
  const Span* backward_node(const Enclosing& enclosing) const;
  const Span* forward_of(const Span& backward) const;

  // These append to frames_, innermost first, and return whether there were any Python frames.
  bool add_frames(const Enclosing& enclosing, model::StringId op);
  bool add_python_frames(const Enclosing& enclosing, model::StringId op);
  void add_operator_frames(const Enclosing& enclosing);
  void add_call_stack(NameId call_stack);
  void add_python_frame(const Span& span, model::StringId op);
  model::FrameId frame_of(NameId name);
  model::FrameId frame_of(std::string_view text);
  model::StringId operator_of(const Enclosing& enclosing);
  model::StringId layer_of(const Enclosing& enclosing);

  const Recording& recording_;
  model::TraceBuilder& builder_;
  base::Diagnostics& diagnostics_;
  std::uint64_t memory_limit_;
  SpanIndex index_;
  std::vector<bool> has_python_;  // by thread
  std::int64_t profiling_begins_ns_ = std::numeric_limits<std::int64_t>::min();
  ThreadId only_python_thread_;         // 0: there is none, or there are several
  std::vector<std::uint32_t> forward_;  // span rows of forward operators by (sequence, begin)
  std::vector<Place> places_;
  std::vector<model::FrameId> frame_ids_;  // by name; 0: not created yet
  std::vector<bool> frame_is_made_;
  std::map<std::pair<std::size_t, std::size_t>, model::FrameId> open_frames_;  // by name, operator
  std::vector<model::FrameId> frames_;
  std::vector<model::FrameId> loan_frames_;
  std::vector<Loan> loans_;
  std::vector<TimePoint> loan_times_;
  std::string path_;
};

}  // namespace plimsoll::readers::kineto
