// The part of Recording that runs after the whole file has been read: it fills in the model's
// lifetimes and converts the file's sites to the model's.

#include "readers/native/recording.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/categories.h"
#include "model/communication.h"
#include "readers/native/diagnostics.h"

namespace plimsoll::readers::native {

using model::LifetimeFlags;
using model::Phase;

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
  bool ends_with_step(const Allocation& allocation) {
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
  model::StringTable& strings = context_.builder.strings();
  for (Place& place : places) {
    place.is_communication =
        model::is_communication_op(strings[place.site.op]) ||
        model::is_communication_op(strings[place.site.inner_op]) ||
        model::is_communication_stack(place.site.stack, context_.builder.stacks(), strings);
  }
  const std::vector<model::TensorId> tensors = definitions_.tensor_rows();
  std::array<model::StringId, base::kCategoryNames.size()> names;
  std::ranges::transform(base::kCategoryNames, names.begin(),
                         [&](std::string_view name) { return strings.intern(name); });
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
    const Phase phase = allocation.phase == Allocation::kPhaseOfSite
                            ? place.site.phase
                            : base::phase_of(allocation.phase);
    // An adopted allocation has a phase of its own only if the recorder saw it before this
    // recording began.
    const bool is_unseen = (allocation.flags & Allocation::kIsAdopted) != 0 &&
                           allocation.phase == Allocation::kPhaseOfSite;
    const base::Category category = base::category_of(
        {.role = allocation.role,
         .phase = phase,
         .is_adopted = is_unseen,
         .is_temporary = (allocation.flags & Allocation::kInOp) != 0,
         .is_communication = place.is_communication,
         .ends_with_step = phase == Phase::kOptimizer && device.ends_with_step(allocation)});
    if (category == base::Category::kUnknown) count_unknown(device.size_bytes(allocation));
    LifetimeFlags flags = LifetimeFlags::kNothing;
    if ((allocation.flags & Allocation::kInOp) != 0) flags = flags | LifetimeFlags::kTemporary;
    if ((allocation.flags & Allocation::kIsAdopted) != 0) flags = flags | LifetimeFlags::kAdopted;
    if ((allocation.flags & Allocation::kIsCollected) != 0) {
      flags = flags | LifetimeFlags::kCollected;
    }
    if (category == base::Category::kActivation && device.is_saved(allocation)) {
      flags = flags | LifetimeFlags::kSavedForBackward;
    }
    device.set(allocation, place, phase, flags, names[static_cast<std::size_t>(category)], tensors);
  }
  last_uses_.finish(allocations_, [&](const Allocation& allocation) {
    const auto& events = *tables_[allocation.device].events;
    const auto& lifetimes = *tables_[allocation.device].lifetimes;
    const model::SiteId site = events.site[lifetimes.alloc[allocation.lifetime]];
    return context_.builder.sites()[site].pool != model::PoolId{};
  });
  for (const Placed& other : others_) {
    tables_[other.device].events->site[other.row] = place_of(other.site).row;
  }
  caches_.emit(allocations_, tables_, places, definitions_, context_);
  definitions_.report_settings();
  definitions_.report_source();
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
