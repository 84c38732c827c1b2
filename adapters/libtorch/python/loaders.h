// The batches of torch's DataLoaders. Workers deliver some batches before the program asks for
// them; how many is a matter of timing, so a batch counts from when the DataLoader returns it.
// Everything here needs the GIL.
#pragma once

#include <c10/core/StorageImpl.h>

#include <unordered_set>

namespace plimsoll::libtorch {

// Watches the iterators of DataLoaders, as calls of modules are watched: replaces the C slot behind
// next() in torch's two classes. Python sees no change. Does nothing if torch has other classes.
void watch_loaders();
void stop_watching_loaders();

// The storages of batches that workers have delivered, and that no DataLoader has returned yet.
std::unordered_set<const c10::StorageImpl*> delivered_ahead();

}  // namespace plimsoll::libtorch
