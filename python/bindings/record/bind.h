// What module.cc puts together.
#pragma once

#include <nanobind/nanobind.h>

#include "plimsoll/monitor.h"
#include "plimsoll/quiet_writing_c.h"

namespace plimsoll::python {

void bind_doings(nanobind::module_& module);
void bind_logs(nanobind::module_& module);
void bind_monitor(nanobind::module_& module);
void bind_options(nanobind::module_& module);
void bind_program_errors(nanobind::module_& module);
void bind_quiet_writing(nanobind::module_& module);
void bind_sample(nanobind::module_& module);
void bind_training(nanobind::module_& module);

// A recording begins: what threads do is to be told anew.
void renew_doings();

// A number, a tensor or nothing; read when its line is printed, and not otherwise. `loss` must
// outlive the call that it is for.
Loss loss_of(nanobind::handle loss);

// In its scope, a write of this thread that fails sends the program no signal.
class QuietWriting {
 public:
  QuietWriting() : state_(plimsoll_begin_quiet_writing()) {}
  QuietWriting(const QuietWriting&) = delete;
  QuietWriting& operator=(const QuietWriting&) = delete;
  ~QuietWriting() { plimsoll_end_quiet_writing(state_); }

 private:
  int state_;
};

// Whether the error belongs to the program and must not be swallowed: it ends the program, or the
// handler of a signal raised it.
bool is_programs(const nanobind::python_error& error);

// Raises an error of the program in its main thread, as soon as that runs Python again.
void raise_later(nanobind::python_error& error);

}  // namespace plimsoll::python
