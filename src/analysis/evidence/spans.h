// The backwards, steps and garbage collections of a recording, in events of one device: "before
// event 7 of the device".
//
// A round ends where the next backward begins: allocations with the same round are between the
// beginnings of the same two backwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/trace.h"

namespace plimsoll::analysis::evidence {

// The events of the device before which a backward begins, ascending.
std::vector<std::uint32_t> marks_of(const model::Trace& trace, const model::DeviceTrace& device,
                                    model::MarkKind kind);

// The ends of its backwards. On a GPU, autograd runs on a thread of its own, which reports the end
// of a backward only when the next one begins. An end that coincides with the next begin, or that
// is missing, is moved back: to the first allocation outside backward, or the end of the step, that
// follows the last allocation in this backward. It stays missing if there is neither.
std::vector<std::uint32_t> backward_ends(const model::Trace& trace,
                                         const model::DeviceTrace& device);

struct Span {
  std::uint32_t begin = 0;
  std::uint32_t end = model::kNone;  // the first event after it; kNone: the recording ends in it
};

class Spans {
 public:
  Spans(const model::Trace& trace, const model::DeviceTrace& device);

  // Outermost backwards, in order: one inside another (a checkpoint) is part of it.
  std::span<const Span> backwards() const { return backwards_; }
  // The number of the backward that is running at the event; backwards().size() if none is.
  std::size_t backward_at(std::uint32_t event) const;
  // The number of backwards that began before the event; kNone: all.
  std::uint32_t round(std::uint32_t event) const;

  // The ends of steps, if they are marked.
  std::span<const std::uint32_t> steps() const { return steps_; }
  std::uint32_t step(std::uint32_t event) const;
  // The end of the step that contains the event; kNone if it does not end.
  std::uint32_t end_of_step(std::uint32_t event) const;

  // The device's allocations by the events [from, to).
  std::uint64_t allocations(std::uint32_t from, std::uint32_t to) const;
  // Those of a typical step, by marked steps or else from one backward to the next; nullopt if
  // there are too few.
  std::optional<std::uint64_t> allocations_per_step() const;

  // The beginnings of the runs of Python's garbage collector.
  std::span<const std::uint32_t> collections() const { return collections_; }

  // Events at which memory ran out.
  const std::vector<std::uint32_t>& ooms() const { return ooms_; }

 private:
  const model::Lifetimes& lifetimes_;
  std::vector<Span> backwards_;
  std::vector<std::uint32_t> steps_, collections_, ooms_;
};

}  // namespace plimsoll::analysis::evidence
