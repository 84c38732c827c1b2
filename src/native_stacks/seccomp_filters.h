// Whether the program has restricted its own system calls with seccomp. A filter can kill the
// process for any call that it does not expect.
#pragma once

namespace plimsoll::native_stacks {

// Whether this thread may have a filter that did not exist when the program started. Containers
// start programs with a filter; it allows what every program does.
bool has_added_seccomp_filter() noexcept;

}  // namespace plimsoll::native_stacks
