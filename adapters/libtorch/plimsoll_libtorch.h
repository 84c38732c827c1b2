// The adapter's entry points for a C++ program. They take the recorder's interface and record
// torch's memory.
//
// The adapter is compiled against the installed torch by one command and includes only recorder_c.h
// of Plimsoll. Python programs enter through python/module.cc.
#pragma once

#include <cstdint>

#include "plimsoll/recorder_c.h"

extern "C" {

enum plimsoll_libtorch_mode : std::uint8_t {
  // Records operators, the forward operator of each autograd node, temporaries, shapes of outputs.
  PLIMSOLL_LIBTORCH_FULL = 0,
  // Records allocations, layers and phases only.
  PLIMSOLL_LIBTORCH_LITE = 1,
  // Like lite, but all tensors except gradients are described before a sample, not at each step.
  PLIMSOLL_LIBTORCH_WATCH = 2
};

// In which steps the last use of memory is recorded (docs/last-use.md). Only in the full mode.
enum plimsoll_libtorch_uses : std::uint8_t {
  // The first three, then all or sampled ones: sampled, if all would cost over 1 % of a step.
  PLIMSOLL_LIBTORCH_USES_AUTO = 0,
  PLIMSOLL_LIBTORCH_USES_ALWAYS = 1,
  PLIMSOLL_LIBTORCH_USES_SAMPLED = 2,  // the first three, and every 64th
  PLIMSOLL_LIBTORCH_USES_NEVER = 3
};

// Installs the hooks. Returns null, or one sentence with the reason for a failure. Under `plimsoll
// run -- PROGRAM` they are installed from the program's start, in the mode that the command chose;
// then this function only begins the uses anew, for a new recording, and detaching has no effect.
const char* plimsoll_libtorch_attach(const plimsoll_recorder_api* api, plimsoll_libtorch_mode mode,
                                     plimsoll_libtorch_uses uses = PLIMSOLL_LIBTORCH_USES_AUTO);

// While attached in the full mode: begins the uses anew, for a new recording.
void plimsoll_libtorch_begin_uses(plimsoll_libtorch_uses uses);

// A step of the training loop has ended. Call it between operators, on one thread at a time.
void plimsoll_libtorch_end_step(void);

// Switches to a cheaper mode. Known modules, optimizers and stacks are retained.
void plimsoll_libtorch_see_less(plimsoll_libtorch_mode mode);

// Removes the hooks. Recorded blocks may be freed at any time afterwards.
void plimsoll_libtorch_detach(void);

// In the mode `watch`: starts or stops observing operators and the dtypes and shapes of their
// outputs, for the iteration before a sample. Costs as much as the full mode.
void plimsoll_libtorch_observe(int is_wanted);

// For the adapter of another allocator, right before it reports an allocation: fills in this
// thread's context, stores in `before` what to restore afterwards, and returns the context; null
// while nothing is attached. Takes only leaf locks of the adapter.
plimsoll_context* plimsoll_libtorch_describe_allocation(plimsoll_context* before);

// The recorder of a C++ program's CUDA devices, if it is linked.
struct plimsoll_libtorch_companion {
  void (*begin)(const plimsoll_recorder_api* api);  // after the hooks were installed
  const char* (*renew)(void);                       // see plimsoll_libtorch_renew()
  void (*end)(void);                                // before the hooks are removed
};

// May be called before or after attaching; applies for the life of the process.
void plimsoll_libtorch_set_companion(const plimsoll_libtorch_companion* companion);

// Call this regularly, holding no lock. It starts recording CUDA devices once the program uses
// CUDA, and compares doubtful block sizes with a snapshot. Returns null, or one sentence with the
// reason why CUDA devices are not recorded.
const char* plimsoll_libtorch_renew(void);

// Whether tensors on CUDA devices are tagged too, because their allocations are recorded.
void plimsoll_libtorch_report_cuda_tensors(int is_wanted);
}
