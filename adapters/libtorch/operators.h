// torch's own observer: which operator, autograd node and user scope runs on each thread.
#pragma once

namespace plimsoll::libtorch {

// Full mode observes operators and nodes; lite only user scopes (for the phases).
void observe_operators();
void stop_observing_operators();

}  // namespace plimsoll::libtorch
