// Finds what holds the memory of a C++ program, and reports it to the recorder. See
// docs/holders.md.
#pragma once

namespace plimsoll::libtorch::cpp_holders {

// Now, and at the end of a step if the recorder wants it.
void find_holders() noexcept;
void find_wanted_holders() noexcept;
// When the program ends, before the variables that exist now are destroyed.
void find_at_exit() noexcept;

}  // namespace plimsoll::libtorch::cpp_holders
