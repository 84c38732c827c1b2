// The monitor of a training loop, and its alerts.

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/finding.h"
#include "bind.h"
#include "casters.h"
#include "errors.h"
#include "plimsoll/process_rank.h"
#include "plimsoll/training_monitor.h"

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

void say(const std::string& line) {
  try {
    const nb::tuple lines(decoded(with_rank(line)).attr("splitlines")());
    nb::module_::import_("plimsoll._process.messages").attr("print_lines")(*lines);
  } catch (nb::python_error& error) {
    if (is_programs(error)) throw;
    error.discard_as_unraisable("plimsoll");
  }
}

// Training continues whatever a callback raises, unless the error belongs to the program.
template <typename Value>
std::function<void(const Value&)> guarded(std::function<void(const Value&)> callback,
                                          const char* what) {
  return [callback = std::move(callback), what](const Value& value) {
    const std::string name = std::string("plimsoll: the callback for ") + what;
    try {
      callback(value);
    } catch (nb::python_error& error) {
      if (is_programs(error)) throw;
      error.discard_as_unraisable(name.c_str());
    } catch (const std::exception& error) {
      say(name + ": " + error.what());
    }
  };
}

void bind_alert(nb::module_& module) {
  made_class<FindingStep>(module, "FindingStep", "One change to the program, with its own saving.")
      .def_ro("text", &FindingStep::text, "What to do.")
      .def_ro("saving_bytes", &FindingStep::saving_bytes,
              "Bytes that this change would save; 0 if none or unknown.")
      .def_ro("is_upper_bound", &FindingStep::is_upper_bound, "True if it may save less.")
      .def("__str__", &step_text);
  auto holder = made_class<FindingHolder>(module, "FindingHolder", "What holds memory.");
  holder.def(nb::init<>());
  base::for_each_field<FindingHolder>(
      [&](const auto& field) { holder.def_rw(field.name, field.member, field.doc); });
  made_class<HeldBy>(module, "HeldBy", "What holds the memory of an alert.")
      .def(nb::init<>())
      .def_rw("holder", &HeldBy::holder)
      .def_rw("edit", &HeldBy::edit, "What ends it, as an imperative; may be empty.");
  made_class<MemoryAlert>(module, "MemoryAlert",
                          "A problem with memory, found while training or in a log.")
      .def_ro("id", &MemoryAlert::id, "Stable name of the rule.")
      .def_prop_ro(
          "severity", [](const MemoryAlert& alert) { return to_string(alert.severity); },
          "info, warning or critical.")
      .def_ro("device", &MemoryAlert::device)
      .def_ro("subject", &MemoryAlert::subject, "The category concerned, or empty.")
      .def_ro("iteration", &MemoryAlert::iteration)
      .def_ro("title", &MemoryAlert::title, "The verdict.")
      .def_ro("evidence", &MemoryAlert::evidence, "The facts behind the verdict.")
      .def_ro("steps", &MemoryAlert::steps, "What to do: alternatives, the recommended one first.")
      .def_ro("holders", &MemoryAlert::holders, "What holds the memory; empty if unknown.")
      .def_prop_ro(
          "next_step", [](const MemoryAlert& alert) { return alert.next_step(); },
          "The text of the first step.")
      .def_prop_ro(
          "saving_bytes", [](const MemoryAlert& alert) { return alert.saving_bytes(); },
          "The saving of the first step; 0 if none or unknown.")
      .def_prop_ro("text", &alert_text, "The alert as text.")
      .def("__str__", &alert_text);
}

}  // namespace

void bind_training(nb::module_& module) {
  bind_alert(module);
  made_class<TrainingMonitor>(module, "TrainingMonitor")
      .def(
          "__init__",
          [](TrainingMonitor* self, const MonitorOptions& options,
             std::function<void(const std::string&)> begin_snapshot,
             std::function<void()> end_snapshot) {
            new (self)
                TrainingMonitor(options, say, {std::move(begin_snapshot), std::move(end_snapshot)});
          },
          nb::arg("options"), nb::arg("begin_snapshot"), nb::arg("end_snapshot"))
      .def(
          "on_alert",
          [](TrainingMonitor& self, std::function<void(const MemoryAlert&)> callback) {
            self.on_alert(guarded(std::move(callback), "alerts"));
          },
          nb::arg("callback"))
      .def(
          "find_holders",
          [](TrainingMonitor& self, std::function<nb::object(const MemoryAlert&)> find) {
            self.find_holders([find = std::move(find)](const MemoryAlert& alert) {
              std::optional<HeldBy> by;
              const std::function<void(const MemoryAlert&)> ask = [&](const MemoryAlert& of) {
                const nb::object found = find(of);
                if (!found.is_none()) by = nb::cast<HeldBy>(found);
              };
              guarded(ask, "holders of alerts")(alert);
              return by;
            });
          },
          nb::arg("find"))
      .def(
          "on_sample",
          [](TrainingMonitor& self, std::function<void(const MemorySample&)> callback) {
            self.on_sample(guarded(std::move(callback), "samples"));
          },
          nb::arg("callback"))
      .def(
          "step",
          [](TrainingMonitor& self, std::optional<std::int64_t> iteration, nb::handle loss) {
            iteration ? self.step(*iteration, loss_of(loss)) : self.step(loss_of(loss));
          },
          nb::arg("iteration").none(), nb::arg("loss").none())
      .def("set_batch_size", &TrainingMonitor::set_batch_size, nb::arg("items"))
      .def(
          "ran_out",
          [](TrainingMonitor& self, std::optional<std::int64_t> iteration,
             const std::string& error) {
            iteration ? self.ran_out(*iteration, error) : self.ran_out(error);
          },
          nb::arg("iteration").none(), nb::arg("error"))
      .def("close", &TrainingMonitor::close)
      .def_prop_ro("options", &TrainingMonitor::options)
      .def_prop_ro("text_log_path", &TrainingMonitor::text_log_path)
      .def_prop_ro("event_file_path", &TrainingMonitor::event_file_path)
      .def_prop_ro("samples", &TrainingMonitor::samples)
      .def_prop_ro("alerts", &TrainingMonitor::alerts)
      .def_prop_ro("should_fail", &TrainingMonitor::should_fail);
}

}  // namespace plimsoll::python
