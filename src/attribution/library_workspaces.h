// Finds the workspaces of cuBLAS and cuBLASLt in recordings that do not name them: snapshots, and
// native recordings made before the category `workspace`. PyTorch allocates one for each thread and
// stream at the first matrix multiplication, in the middle of an operator, and keeps it.
//
//   by native frames   if a stack shows the function that allocates a workspace, only such stacks
//                      count
//   by size and order  else a workspace has one of the known sizes, is never freed, comes after
//                      another allocation of the same operator or line (the result), and is absent
//                      when that runs again; or, in backward, is one block more than gradients
//
// Parameters and gradients can have the same sizes. If there is any doubt, an allocation keeps its
// category.
#pragma once

#include <cstdint>
#include <vector>

#include "attribution/stack_roles.h"
#include "model/trace.h"

namespace plimsoll::attribution {

// Rows of the device's lifetimes, in order. `activities` is indexed by stack; empty if the trace
// has phases.
std::vector<std::uint32_t> find_workspaces(const model::Trace& trace,
                                           const model::DeviceTrace& device,
                                           const std::vector<Activity>& activities);

// Gives lifetimes the category `workspace`, and their allocations a site without layer and line. A
// stack with the function that allocates workspaces is kept.
void name_workspaces(model::Trace& trace, model::DeviceTrace& device,
                     const std::vector<std::uint32_t>& rows);

// For native recordings: names the workspaces of all devices unless the recording names one.
void name_unrecorded_workspaces(model::Trace& trace);

}  // namespace plimsoll::attribution
