// The part of Recording that runs after the whole file has been read: it fills in the model's
// lifetimes and converts the file's sites to the model's.

#include "readers/native/recording.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "model/categories.h"
#include "plimsoll/recorder_c.h"
#include "readers/native/communication.h"
#include "readers/native/diagnostics.h"

namespace plimsoll::readers::native {

using model::LifetimeFlags;
using model::Phase;

// The names in docs/attribution.md, as strings of the model.
struct Recording::Words {
  explicit Words(model::StringTable& strings)
      : roles{{},
              strings.intern("parameter"),
              strings.intern("gradient"),
              strings.intern("optimizer_state"),
              strings.intern("buffer"),
              strings.intern("input"),
              strings.intern(model::kWorkspace)},
        activation(strings.intern("activation")),
        activation_gradient(strings.intern("activation_gradient")),
        temporary(strings.intern("temporary")),
        communication(strings.intern(model::kCommunication)),
        optimizer_scratch(strings.intern(model::kOptimizerScratch)),
        other(strings.intern("other")),
        unknown(strings.intern("unknown")) {}

  model::StringId roles[PLIMSOLL_ROLE_WORKSPACE + 1];
  model::StringId activation, activation_gradient, temporary, communication, optimizer_scratch,
      other, unknown;
};

model::StringId Recording::category(const Allocation& allocation, const Place& place, Phase phase,
                                    const Words& words) {
  if (precedence(allocation.role) > 0) return words.roles[allocation.role];
  if ((allocation.flags & Allocation::kIsAdopted) != 0) return words.unknown;
  if ((allocation.flags & Allocation::kInOp) != 0) return words.temporary;
  if (place.is_communication) return words.communication;
  if (phase == Phase::kForward) return words.activation;
  if (phase == Phase::kBackward) return words.activation_gradient;
  return phase == Phase::kOptimizer ? words.optimizer_scratch : words.other;
}

void Recording::count_unknown(std::uint64_t size_bytes) {
  ++counts_.adopted_unknown;
  std::uint64_t& bytes = counts_.adopted_unknown_bytes;
  if (__builtin_add_overflow(bytes, size_bytes, &bytes)) bytes = UINT64_MAX;
}

// A device's columns that are filled in hindsight, and its marks. Allocations are in order of
// birth.
class Recording::OnDevice {
 public:
  OnDevice(const Tables& tables, model::TraceBuilder& builder, model::Device device,
           bool has_tensors)
      : events_(*tables.events),
        lifetimes_(*tables.lifetimes),
        sites_(builder.sites()),
        category_(lifetimes_.category.rows(lifetimes_.size())),
        flags_(lifetimes_.flags.rows(lifetimes_.size())),
        tensor_(has_tensors ? lifetimes_.tensor.rows(lifetimes_.size()) : nullptr),
        backwards_(builder.marks_of(device, model::MarkKind::kBackwardBegin)),
        steps_(builder.marks_of(device, model::MarkKind::kStep)) {}

  std::uint32_t row(const Allocation& allocation) const {
    return lifetimes_.alloc[allocation.lifetime];
  }
  std::uint32_t site(const Allocation& allocation) const {
    return events_.site[row(allocation)].value;
  }
  std::uint64_t size_bytes(const Allocation& allocation) const {
    return events_.size_bytes[row(allocation)];
  }
  // Whether it was live when the first backward after its birth began.
  bool is_saved(const Allocation& allocation) {
    next_backward_ = after(backwards_, next_backward_, row(allocation));
    return next_backward_ < backwards_.size() && backwards_[next_backward_] <= freed(allocation);
  }
  // Whether it was freed when its step ended.
  bool is_scratch(const Allocation& allocation) {
    if (freed(allocation) == model::kNone) return false;
    next_step_ = after(steps_, next_step_, row(allocation));
    return next_step_ == steps_.size() || freed(allocation) < steps_[next_step_];
  }
  void set(const Allocation& allocation, const Place& place, Phase phase, LifetimeFlags flags,
           model::StringId category, const std::vector<model::TensorId>& tensors) {
    model::SiteId& site = events_.site[row(allocation)];
    site = place.row;
    if (phase != place.site.phase) {
      model::Site another = place.site;
      another.phase = phase;
      site = sites_.intern(another);
    }
    category_[allocation.lifetime] = category;
    flags_[allocation.lifetime] = flags;
    if (tensor_ == nullptr) return;
    model::TensorId& tensor = tensor_[allocation.lifetime];
    tensor = tensor.index() < tensors.size() ? tensors[tensor.index()] : model::TensorId{};
  }

 private:
  std::uint32_t freed(const Allocation& allocation) const {
    return lifetimes_.free_requested[allocation.lifetime];
  }
  // The first mark from `next` on with more than `row` events before it.
  static std::size_t after(const std::vector<std::uint32_t>& marks, std::size_t next,
                           std::uint32_t row) {
    while (next < marks.size() && marks[next] <= row) ++next;
    return next;
  }

  model::Events& events_;
  model::Lifetimes& lifetimes_;
  model::SiteTable& sites_;
  model::StringId* category_;
  LifetimeFlags* flags_;
  model::TensorId* tensor_;
  const std::vector<std::uint32_t> backwards_, steps_;
  std::size_t next_backward_ = 0;
  std::size_t next_step_ = 0;
};

void Recording::attribute() {
  side_records_.finish();
  const bool has_events = context_.builder.event_count() > 0;
  if (has_events) context_.builder.attribution_known();
  std::vector<Place> places = has_events ? definitions_.places() : std::vector<Place>();
  for (Place& place : places) place.is_communication = is_communication(place, context_.builder);
  const std::vector<model::TensorId> tensors = definitions_.tensor_rows();
  const Words words(context_.builder.strings());
  const Place nowhere;
  const auto place_of = [&](std::uint32_t site) -> const Place& {
    return site < places.size() ? places[site] : nowhere;
  };
  std::array<std::unique_ptr<OnDevice>, 256> devices;
  for (std::size_t id = 0; id < devices.size(); ++id) {
    if (tables_[id].events == nullptr) continue;
    devices[id] = std::make_unique<OnDevice>(tables_[id], context_.builder,
                                             definitions_.device(static_cast<std::uint8_t>(id)),
                                             !tensors.empty());
  }
  for (const Allocation& allocation : allocations_) {
    OnDevice& device = *devices[allocation.device];
    const Place& place = place_of(device.site(allocation));
    const Phase phase = allocation.phase == Allocation::kPhaseOfSite ? place.site.phase
                                                                     : phase_of(allocation.phase);
    model::StringId word = category(allocation, place, phase, words);
    if (word == words.unknown) count_unknown(device.size_bytes(allocation));
    if (word == words.optimizer_scratch && !device.is_scratch(allocation)) word = words.other;
    LifetimeFlags flags = LifetimeFlags::kNothing;
    if ((allocation.flags & Allocation::kInOp) != 0) flags = flags | LifetimeFlags::kTemporary;
    if ((allocation.flags & Allocation::kIsAdopted) != 0) flags = flags | LifetimeFlags::kAdopted;
    if ((allocation.flags & Allocation::kIsCollected) != 0) {
      flags = flags | LifetimeFlags::kCollected;
    }
    if (word == words.activation && device.is_saved(allocation)) {
      flags = flags | LifetimeFlags::kSavedForBackward;
    }
    device.set(allocation, place, phase, flags, word, tensors);
  }
  for (const Placed& other : others_) {
    tables_[other.device].events->site[other.row] = place_of(other.site).row;
  }
  caches_.emit(allocations_, tables_, places, definitions_, context_);
  definitions_.report_settings();
  report_counts();
}

void Recording::report_counts() {
  base::Diagnostics& diagnostics = context_.diagnostics;
  diagnostics.add(kUnseenFree, counts_.unseen_frees);
  diagnostics.add(kUndefined, counts_.undefined_sites);
  diagnostics.add(kAllocatedBeforeRecording, counts_.adopted_unknown,
                  std::to_string(counts_.adopted_unknown_bytes) + " bytes in all");
  definitions_.report_notices();
  if (!is_limited_) return;
  for (std::size_t id = 0; id < tables_.size(); ++id) {
    if (tables_[id].lifetimes == nullptr || tables_[id].lifetimes->size() == 0) continue;
    context_.builder.mark_truncated(definitions_.device(static_cast<std::uint8_t>(id)));
  }
}

}  // namespace plimsoll::readers::native
