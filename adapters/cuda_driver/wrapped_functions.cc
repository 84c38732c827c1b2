#include "wrapped_functions.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <utility>

#include "cuda_functions.h"

namespace plimsoll::cuda_driver {
namespace {

// How many real functions of one kind a process may have: those of several runtime versions, of the
// driver, and their per-thread-stream variants.
constexpr std::size_t kWrappers = 8;

template <typename Function, std::size_t kIndex, typename Type = typename Function::Type>
struct Wrapper;

template <typename Function, std::size_t kIndex, typename... Arguments>
struct Wrapper<Function, kIndex, int(Arguments...)> {
  static inline std::atomic<void*> real{nullptr};
  static int call(Arguments... arguments) {
    void* const function = real.load(std::memory_order_acquire);
    return Function::call(reinterpret_cast<typename Function::Type*>(function), arguments...);
  }
};

template <typename Function, std::size_t... kIndexes>
void* wrap_with(void* real, std::index_sequence<kIndexes...>) {
  void* wrapper = nullptr;
  const auto takes = [&]<std::size_t kIndex>() {
    using Mine = Wrapper<Function, kIndex>;
    void* there = nullptr;
    if (!Mine::real.compare_exchange_strong(there, real, std::memory_order_acq_rel) &&
        there != real) {
      return false;
    }
    wrapper = reinterpret_cast<void*>(&Mine::call);
    return true;
  };
  return (takes.template operator()<kIndexes>() || ...) ? wrapper : real;
}

template <typename Function>
void* wrap(void* real) {
  if (is_our_code(real)) return real;
  return wrap_with<Function>(real, std::make_index_sequence<kWrappers>());
}

constexpr WrappedFunction kFunctions[] = {
#define PLIMSOLL_FUNCTION(symbol, function, arity) {#symbol, &wrap<function>},
#include "functions.def"
#undef PLIMSOLL_FUNCTION
};
static_assert(std::ranges::is_sorted(kFunctions, {}, &WrappedFunction::symbol));

}  // namespace

const WrappedFunction* find_wrapped(std::string_view symbol) {
  const auto* const found =
      std::ranges::lower_bound(kFunctions, symbol, {}, &WrappedFunction::symbol);
  return found != std::end(kFunctions) && found->symbol == symbol ? found : nullptr;
}

}  // namespace plimsoll::cuda_driver
