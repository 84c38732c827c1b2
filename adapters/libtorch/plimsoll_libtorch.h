// The adapter's doors for a C++ program: give it the recorder, and torch's memory is recorded.
//
// The adapter is compiled against the torch that is installed, by one command, and sees nothing of
// Plimsoll but recorder_c.h. Python programs come in through python/module.cc.
#pragma once

#include <cstdint>

#include "plimsoll/recorder_c.h"

extern "C" {

enum plimsoll_libtorch_mode : std::uint8_t {
  // Operators, the forward operator of each autograd node, temporaries, shapes of outputs.
  PLIMSOLL_LIBTORCH_FULL = 0,
  // Allocations, layers and phases alone.
  PLIMSOLL_LIBTORCH_LITE = 1,
  // As lite; except for gradients, tensors are described before a sample, not at each step.
  PLIMSOLL_LIBTORCH_WATCH = 2
};

// Installs the hooks. Returns null, or one sentence that says why it could not. Under
// `plimsoll run -- PROGRAM` they are installed since the program's start, in the mode that the
// command chose; then neither this nor detaching has an effect.
const char* plimsoll_libtorch_attach(const plimsoll_recorder_api* api, plimsoll_libtorch_mode mode);

// Goes back to a cheaper mode. What is known of modules and optimizers stays, and so do the stacks.
void plimsoll_libtorch_see_less(plimsoll_libtorch_mode mode);

// Takes them out again. Blocks that were recorded may be freed at any time afterwards.
void plimsoll_libtorch_detach(void);

// In the mode `watch`: starts or stops observing operators, and the dtypes and shapes of their
// outputs. For the iteration before a sample; it costs as much as the full mode.
void plimsoll_libtorch_observe(int is_wanted);

// For an adapter of another allocator than the CPU's, right before it tells of an allocation: fills
// in this thread's context what it belongs to, gives in `before` what to put back afterwards, and
// returns the context; null while nothing is attached. Waits for no lock but leaves of our own.
plimsoll_context* plimsoll_libtorch_describe_allocation(plimsoll_context* before);

// What records the CUDA devices of a C++ program, where it is linked.
struct plimsoll_libtorch_companion {
  void (*begin)(const plimsoll_recorder_api* api);  // the hooks are installed
  const char* (*renew)(void);                       // see plimsoll_libtorch_renew()
  void (*end)(void);                                // they are about to be removed
};

// Before or after attaching; for the life of the process.
void plimsoll_libtorch_set_companion(const plimsoll_libtorch_companion* companion);

// From time to time, with no lock held: begins to record CUDA devices if the program has begun to
// use them, and compares sums that are in doubt. Returns null, or one sentence that says why they
// are not recorded.
const char* plimsoll_libtorch_renew(void);

// Tensors on CUDA devices are told too from now on, or no more: somebody records their allocations.
void plimsoll_libtorch_tell_cuda_tensors(int is_wanted);
}
