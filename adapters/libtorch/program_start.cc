// Under `plimsoll run -- PROGRAM` (PLIMSOLL=1), starts recording before main() in LibTorch programs
// that contain the adapter.
#include <cstdlib>
#include <string_view>

#include "attachment.h"
#include "cpp_holders.h"
#include "plimsoll/quiet_writing_c.h"
#include "plimsoll_libtorch.h"
#include "program_stacks.h"
#include "uses.h"

namespace plimsoll::libtorch {
namespace {

// plimsoll_record_from_environment() has checked the value.
plimsoll_libtorch_uses uses_from_environment() {
  const char* const wanted = std::getenv("PLIMSOLL_USES");
  for (const plimsoll_libtorch_uses each :
       {PLIMSOLL_LIBTORCH_USES_ALWAYS, PLIMSOLL_LIBTORCH_USES_SAMPLED,
        PLIMSOLL_LIBTORCH_USES_NEVER}) {
    if (wanted != nullptr && std::string_view(wanted) == uses_text(each)) return each;
  }
  return PLIMSOLL_LIBTORCH_USES_AUTO;
}

[[maybe_unused]] const bool kIsAttachedFromStart = [] {
  g_attachment.stacks = &program_stacks();
  g_attachment.find_holders = &cpp_holders::find_holders;
  if (plimsoll_record_from_environment() == 0) return false;
  const char* const mode = std::getenv("PLIMSOLL_MODE");
  const bool is_lite = mode != nullptr && std::string_view(mode) == "lite";
  const char* const problem = plimsoll_libtorch_attach(
      plimsoll_recorder(), is_lite ? PLIMSOLL_LIBTORCH_LITE : PLIMSOLL_LIBTORCH_FULL,
      uses_from_environment());
  if (problem != nullptr) plimsoll_print("tensors are not recorded", problem);
  g_attachment.is_for_process = problem == nullptr;
  return problem == nullptr;
}();

}  // namespace
}  // namespace plimsoll::libtorch
