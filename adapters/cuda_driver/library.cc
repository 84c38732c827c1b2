// Initialization, run by the dynamic linker before the program's own constructors.
#include "registry.h"
#include "reporting.h"

namespace {

[[gnu::constructor]] void begin() {
  plimsoll::cuda_driver::announce_process();
  plimsoll::cuda_driver::prepare_reporting();
}

}  // namespace
