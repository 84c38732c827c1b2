// The functions that module.cc calls to build the module.
#pragma once

#include <nanobind/nanobind.h>

#include "plimsoll/monitor.h"
#include "plimsoll/quiet_writing_c.h"
#include "plimsoll/recorder_c.h"

namespace plimsoll::python {

void bind_activity(nanobind::module_& module);
void bind_detached_program(nanobind::module_& module);
void bind_logs(nanobind::module_& module);
void bind_monitor(nanobind::module_& module);
void bind_options(nanobind::module_& module);
void bind_program_errors(nanobind::module_& module);
void bind_quiet_writing(nanobind::module_& module);
void bind_sample(nanobind::module_& module);
void bind_training(nanobind::module_& module);

inline const plimsoll_recorder_api& recorder() { return *plimsoll_recorder(); }

// Called when a recording begins: the activity of the threads must be reported again.
void renew_activity();

// A class of the module, looked up immediately. nanobind stores each type at its first use, inside
// noexcept code, where a lack of memory would end the program.
template <typename T, typename... Extra>
nanobind::class_<T> made_class(nanobind::module_& module, const char* name, const Extra&... extra) {
  nanobind::class_<T> made(module, name, extra...);
  static_cast<void>(nanobind::type<T>());
  return made;
}

// A number, a tensor or None; read only when its line is printed. `loss` must outlive the call.
Loss loss_of(nanobind::handle loss);

// While a QuietWriting exists, a failing write of this thread sends the program no signal.
class QuietWriting {
 public:
  QuietWriting() : state_(plimsoll_begin_quiet_writing()) {}
  QuietWriting(const QuietWriting&) = delete;
  QuietWriting& operator=(const QuietWriting&) = delete;
  ~QuietWriting() { plimsoll_end_quiet_writing(state_); }

 private:
  int state_;
};

// Whether the error belongs to the program and must not be suppressed: it ends the program, or a
// signal handler raised it.
bool is_programs(const nanobind::python_error& error);

// Raises an error of the program in its main thread, as soon as that runs Python again.
void raise_later(nanobind::python_error& error);

}  // namespace plimsoll::python
