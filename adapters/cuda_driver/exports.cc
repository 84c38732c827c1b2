// The CUDA functions that this library exports. The dynamic linker finds them before CUDA's own.
// Each calls the function that its caller would have found without this library.

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "cuda_functions.h"
#include "lookup.h"

namespace plimsoll::cuda_driver {
namespace {

// Functions found before, by the calling code. Thread-local, so that no two threads write it.
struct Found {
  const void* caller = nullptr;
  const char* symbol = nullptr;
  void* real = nullptr;
};
constinit thread_local std::array<Found, 32> found_before{};

void* real_for(const char* symbol, void* caller) {
  const KeptErrno kept;
  const auto hash = reinterpret_cast<std::uintptr_t>(caller) >> 2;
  Found& found = found_before[hash % found_before.size()];
  if (found.caller == caller && found.symbol == symbol) return found.real;
  void* const real = real_behind_export(symbol, caller);
  if (real != nullptr) found = {caller, symbol, real};
  return real;
}

// Calls the real function. Returns an error if CUDA does not have this function: the program found
// only our export.
template <typename Function, typename... Arguments>
int call_real(const char* symbol, void* caller, Arguments... arguments) {
  void* const real = real_for(symbol, caller);
  if (real == nullptr) return kNotFound;
  return Function::call(reinterpret_cast<typename Function::Type*>(real), arguments...);
}

template <typename Type>
struct ArgumentsOf;
template <typename... Arguments>
struct ArgumentsOf<int(Arguments...)> {
  using Tuple = std::tuple<Arguments...>;
};
template <typename Function, std::size_t kIndex>
using Argument = std::tuple_element_t<kIndex, typename ArgumentsOf<typename Function::Type>::Tuple>;

}  // namespace
}  // namespace plimsoll::cuda_driver

// The exports. Their return addresses identify the caller.
#define PARAMETERS_0(function)
#define PARAMETERS_1(function) Argument<function, 0> a
#define PARAMETERS_2(function) PARAMETERS_1(function), Argument<function, 1> b
#define PARAMETERS_3(function) PARAMETERS_2(function), Argument<function, 2> c
#define PARAMETERS_4(function) PARAMETERS_3(function), Argument<function, 3> d
#define PARAMETERS_5(function) PARAMETERS_4(function), Argument<function, 4> e
#define VALUES_0
#define VALUES_1 , a
#define VALUES_2 , a, b
#define VALUES_3 , a, b, c
#define VALUES_4 , a, b, c, d
#define VALUES_5 , a, b, c, d, e
#define PLIMSOLL_FUNCTION(symbol, function, arity)                                   \
  extern "C" [[gnu::visibility("default"), gnu::noinline]] int symbol(               \
      PARAMETERS_##arity(function)) {                                                \
    return call_real<function>(#symbol, __builtin_return_address(0) VALUES_##arity); \
  }

using namespace plimsoll::cuda_driver;
#include "functions.def"
#undef PLIMSOLL_FUNCTION
