// What happens when the dynamic linker has loaded the library, before the program's own
// constructors.
#include "roll.h"
#include "telling.h"

namespace {

[[gnu::constructor]] void begin() {
  plimsoll::cuda_driver::sign_in();
  plimsoll::cuda_driver::prepare_telling();
}

}  // namespace
