#include "uses.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <exception>
#include <optional>
#include <string_view>

#include "operators.h"
#include "tensor_parts.h"

// torch exports this function but installs no header for it. Weak: a build of torch may lack it.
namespace at::native {
[[gnu::weak]] void* data_ptr_from_mkldnn(const Tensor& tensor);
}

namespace plimsoll::libtorch {
namespace {

// ---- addresses --------------------------------------------------------------------------------

constexpr c10::DispatchKeySet kWithParts = c10::DispatchKeySet(c10::DispatchKey::Sparse) |
                                           c10::DispatchKeySet(c10::DispatchKey::SparseCsr);

// For tensors without a storage. Wrappers need nothing: the tensors inside them are arguments of
// other operators.
template <typename Visit>
[[gnu::noinline]] void for_each_address_of_parts(const at::Tensor& tensor, Visit&& visit) try {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (!tensor.defined() || impl.is_python_dispatch()) return;
  if (impl.key_set().has_any(kWithParts)) {
    for (const at::Tensor& part : parts_of(tensor)) {
      if (part.unsafeGetTensorImpl()->has_storage()) visit(memory_of(*part.unsafeGetTensorImpl()));
    }
  } else if (impl.key_set().has(c10::DispatchKey::MkldnnCPU) &&
             at::native::data_ptr_from_mkldnn != nullptr) {
    visit(at::native::data_ptr_from_mkldnn(tensor));
  }
} catch (const std::exception&) {
  count_lost_detail();
}

// The addresses that one operator uses; reported when it is destroyed.
class UsedAddresses {
 public:
  explicit UsedAddresses(plimsoll_context* context) : context_(context) {}
  UsedAddresses(const UsedAddresses&) = delete;
  UsedAddresses& operator=(const UsedAddresses&) = delete;
  ~UsedAddresses() { report(); }

  // What is added from now on escapes, too.
  void escape() { escapes_ = true; }

  void add(const c10::IValue& value) {
    if (value.isTensor()) {
      const c10::TensorImpl& tensor = *value.unsafeToTensorImpl();
      if (tensor.has_storage()) {
        add(memory_of(tensor));
      } else {
        for_each_address_of_parts(value.toTensor(), [this](void* address) { add(address); });
      }
    } else if (value.isList()) {
      for (const c10::IValue& each : value.toListRef()) add(each);
    }
  }

 private:
  void add(void* address) {
    if (address == nullptr) return;
    if (count_ == kMost) report();
    addresses_[count_++] = reinterpret_cast<std::uintptr_t>(address);
  }

  void report() {
    if (count_ == 0) return;
    recorder().use(context_, addresses_.data(), count_);
    for (std::size_t i = 0; escapes_ && i < count_; ++i) recorder().escape(addresses_[i]);
    count_ = 0;
  }

  static constexpr std::size_t kMost = 64;
  plimsoll_context* context_;
  bool escapes_ = false;
  std::size_t count_ = 0;
  std::array<std::uint64_t, kMost> addresses_;  // not initialized: that would cost more than a use
};

// ---- what an operator's schema says -----------------------------------------------------------

// Operators that read or change only the sizes, strides, dtype or flags of their arguments.
constexpr auto kMetadataOnly = std::to_array<std::string_view>({
    "_has_compatible_shallow_copy_type",
    "_shape_as_tensor",
    "as_strided_",
    "detach_",
    "empty_like",
    "full_like",
    "is_pinned",
    "is_same_size",
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_zeros",
    "ones_like",
    "rand_like",
    "randint_like",
    "randn_like",
    "requires_grad_",
    "result_type",
    "retain_grad",
    "set_",
    "squeeze_",
    "swapaxes_",
    "swapdims_",
    "t_",
    "transpose_",
    "unsqueeze_",
    "zeros_like",
});

// Operators that make a view, and read only the sizes or dtype of their other arguments.
constexpr auto kViewsLikeOther =
    std::to_array<std::string_view>({"expand_as", "reshape_as", "slice_inverse", "to", "view_as"});

// These may return their argument itself, but only for readers that see no lazy conjugation or
// negation, such as tolist().
constexpr auto kReadBehind = std::to_array<std::string_view>({"resolve_conj", "resolve_neg"});

bool may_hold_tensors(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      return true;
    case c10::TypeKind::OptionalType:
      return may_hold_tensors(*type.castRaw<c10::OptionalType>()->getElementType());
    case c10::TypeKind::ListType:
      return may_hold_tensors(*type.castRaw<c10::ListType>()->getElementType());
    default:
      return false;
  }
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool only_makes_views(const c10::FunctionSchema& schema) {
  const auto is_alias = [](const c10::Argument& result) { return result.alias_info() != nullptr; };
  return !schema.returns().empty() && std::ranges::all_of(schema.returns(), is_alias) &&
         std::ranges::none_of(schema.arguments(), is_written);
}

constexpr std::uint64_t kAllArguments = ~std::uint64_t{0};
constexpr std::size_t kLastBit = 63;  // it also stands for all later arguments

bool is_collective(std::string_view name) { return name.starts_with("c10d::"); }

// The program waits for the collective before it does anything else.
bool is_synchronous(const at::RecordFunction& record) noexcept try {
  const auto schema = record.operator_schema();
  const std::optional<int> at = schema ? schema->argumentIndexWithName("async_op") : std::nullopt;
  if (!at || static_cast<std::size_t>(*at) >= record.inputs().size()) return false;
  const c10::IValue& is_asynchronous = record.inputs()[static_cast<std::size_t>(*at)];
  return is_asynchronous.isBool() && !is_asynchronous.toBool();
} catch (const std::exception&) {
  count_lost_detail();
  return false;
}

// Their result keeps scales and zero points.
constexpr auto kMakeQuantizers = std::to_array<std::string_view>({
    "aten::_empty_per_channel_affine_quantized",
    "aten::_make_per_channel_quantized_tensor",
    "aten::quantize_per_channel",
});

// The result keeps tensors that no argument of a later operator shows: packed parameters do.
bool keeps_arguments(std::string_view name, const c10::FunctionSchema& schema) {
  const auto is_class = [](const c10::Argument& result) {
    return result.type()->kind() == c10::TypeKind::ClassType;
  };
  const auto holds = [](const c10::Argument& argument) {
    return may_hold_tensors(*argument.type());
  };
  return std::ranges::binary_search(kMakeQuantizers, name) ||
         (std::ranges::any_of(schema.returns(), is_class) &&
          std::ranges::any_of(schema.arguments(), holds));
}

// Only the schemas of torch's own operators are trusted, and live as long as the process. Other
// operators count as using all their arguments.
std::uint64_t used_arguments_of(const at::RecordFunction& record) {
  std::string_view name = record.name();
  const auto schema = record.operator_schema();
  if (is_collective(name) || (schema && keeps_arguments(name, *schema))) return Name::kOutlive;
  constexpr std::string_view kTorchs = "aten::";
  if (!name.starts_with(kTorchs) || !schema.has_value()) return kAllArguments;
  name.remove_prefix(kTorchs.size());
  if (std::ranges::binary_search(kMetadataOnly, name)) return 0;
  const bool is_view = only_makes_views(*schema) && !std::ranges::binary_search(kReadBehind, name);
  if (is_view && std::ranges::binary_search(kViewsLikeOther, name)) return 0;
  std::uint64_t used = 0;
  for (std::size_t i = 0; i < schema->arguments().size(); ++i) {
    const c10::Argument& argument = schema->arguments()[i];
    if (is_view && argument.alias_info() != nullptr) continue;
    if (may_hold_tensors(*argument.type())) used |= std::uint64_t{1} << std::min(i, kLastBit);
  }
  return used;
}

// An operator's name has another address for each overload, so the address identifies the schema.
[[gnu::noinline]] std::uint64_t find_used_arguments(ThreadState& thread,
                                                    const at::RecordFunction& record) noexcept try {
  const auto [entry, is_new] = thread.used_arguments.try_emplace(record.name(), kAllArguments);
  if (is_new) entry->second = used_arguments_of(record);
  return entry->second;
} catch (const std::exception&) {
  count_lost_detail();
  return kAllArguments;
}

// ---- which steps are observed -----------------------------------------------------------------

// Counts of several threads may be lost: the decision needs no exact number.
std::atomic<std::uint64_t> g_operators{0};

class ObservedSteps {
 public:
  using Clock = std::chrono::steady_clock;

  void begin(plimsoll_libtorch_uses mode) {
    mode_ = mode;
    step_ = 1;
    if (is_wanted() && observes_uses()) {
      recorder().observe_uses(thread_state().context, 1);  // in the new recording
    } else {
      set_observed(is_wanted());
    }
  }
  void end_step() {
    if (mode_ == PLIMSOLL_LIBTORCH_USES_NEVER) return;
    if (mode_ == PLIMSOLL_LIBTORCH_USES_AUTO) decide();
    ++step_;
    const bool is_sampled = step_ <= kFirst || step_ % kEach == 0;
    set_observed(mode_ != PLIMSOLL_LIBTORCH_USES_SAMPLED || is_sampled);
  }
  plimsoll_libtorch_uses mode() const { return mode_; }
  bool is_wanted() const { return mode_ != PLIMSOLL_LIBTORCH_USES_NEVER; }

 private:
  static constexpr std::uint64_t kFirst = 3;
  static constexpr std::uint64_t kEach = 64;
  static constexpr double kSecondsPerOperator = 1e-7;
  static constexpr double kMostOfStep = 0.01;

  // The first step allocates optimizer state and compiles kernels: the next two are typical.
  void decide() {
    if (step_ == 1) {
      began_ = Clock::now();
      operators_ = g_operators.load(std::memory_order_relaxed);
    }
    if (step_ < kFirst) return;
    const std::chrono::duration<double> elapsed = Clock::now() - began_;
    const auto count =
        static_cast<double>(g_operators.load(std::memory_order_relaxed) - operators_);
    const bool is_cheap = count * kSecondsPerOperator <= kMostOfStep * elapsed.count();
    mode_ = is_cheap ? PLIMSOLL_LIBTORCH_USES_ALWAYS : PLIMSOLL_LIBTORCH_USES_SAMPLED;
  }

  static void set_observed(bool is_on) {
    if (is_on == observes_uses()) return;
    g_observes_uses.store(is_on, std::memory_order_relaxed);
    try {
      renew_callback();
    } catch (...) {
      g_observes_uses.store(false, std::memory_order_relaxed);
      throw;
    }
    recorder().observe_uses(thread_state().context, is_on ? 1 : 0);
  }

  plimsoll_libtorch_uses mode_ = PLIMSOLL_LIBTORCH_USES_NEVER;
  std::uint64_t step_ = 1;
  Clock::time_point began_;
  std::uint64_t operators_ = 0;
};

ObservedSteps& observed_steps() {
  static Immortal<ObservedSteps> steps;
  return steps.get();
}

template <typename Action>
void without_exceptions(Action action) noexcept {
  try {
    action();
  } catch (const std::exception&) {
    count_lost_detail();
  }
}

}  // namespace

const char* uses_text(plimsoll_libtorch_uses mode) {
  constexpr std::array<const char*, 4> kTexts = {"auto", "always", "sampled", "never"};
  return kTexts[mode];
}

void begin_uses(plimsoll_libtorch_uses mode) noexcept {
  without_exceptions([mode] { observed_steps().begin(mode); });
}
void renew_uses() noexcept { begin_uses(observed_steps().mode()); }
void stop_uses() noexcept {
  without_exceptions([] { observed_steps().begin(PLIMSOLL_LIBTORCH_USES_NEVER); });
}
void end_use_step() noexcept {
  without_exceptions([] { observed_steps().end_step(); });
}
bool wants_uses() { return observed_steps().is_wanted(); }

void report_uses(ThreadState& thread, const at::RecordFunction& record, Name& name) {
  g_operators.store(g_operators.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (name.used_arguments == Name::kUnknownArguments) [[unlikely]] {
    name.used_arguments = find_used_arguments(thread, record);
  }
  std::uint64_t left = name.used_arguments;
  if (left == 0) return;
  const c10::ArrayRef<const c10::IValue> inputs = record.inputs();
  UsedAddresses used(thread.context);
  if (left == Name::kOutlive) [[unlikely]] {
    if (!is_collective(record.name())) {
      recorder().escape_uses(thread.context);
    } else if (!is_synchronous(record)) {
      used.escape();
    }
    left = kAllArguments;
  }
  for (; left != 0; left &= left - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(left));
    if (i >= inputs.size()) return;
    used.add(inputs[i]);
  }
  for (std::size_t i = kLastBit + 1; i < inputs.size(); ++i) used.add(inputs[i]);
}

}  // namespace plimsoll::libtorch
