// The parts of wrapper subclasses, found in the attributes of the Python object.
#pragma once

namespace plimsoll::libtorch {

void find_parts_of_wrappers();

}  // namespace plimsoll::libtorch
