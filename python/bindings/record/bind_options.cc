// The options of monitoring: read as attributes, changed only by set(), which checks them.
#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/suggestion.h"
#include "bind.h"
#include "casters.h"
#include "errors.h"
#include "plimsoll/monitor_options.h"

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

using Phases = std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>>;

Phases phases_of(const MonitorOptions& options) {
  Phases phases;
  for (const MonitorPhase& phase : options.phases) {
    phases.emplace_back(phase.from, phase.to, phase.interval);
  }
  return phases;
}

// The options that differ from the defaults.
std::string repr_of(const MonitorOptions& options) {
  std::string text;
  for (const MonitorOptionHelp& option : monitor_options_help()) {
    const std::string value = options.text(option.name);
    if (value == option.default_value) continue;
    text += (text.empty() ? "" : ", ") + option.name + "='" + value + "'";
  }
  return "MonitorOptions(" + text + ")";
}

// Returns the value, or raises an error that names the argument. nb::try_cast() is noexcept.
template <typename Value>
Value argument(nb::handle given, const std::string& name, const char* kind) {
  try {
    return nb::cast<Value>(given);
  } catch (const nb::cast_error&) {
    const std::string shown = nb::cast<std::string>(nb::repr(given));
    raise(make_error(ErrorCode::kInvalidArgument, name + "=" + shown + ": it must be " + kind));
  }
}

std::string text_argument(nb::handle given, const std::string& name) {
  // Text from the system may have lone surrogates, as in "\\udcff".
  const bool is_text = PyUnicode_Check(given.ptr()) != 0;
  return argument<std::string>(given, name, is_text ? "text that UTF-8 can encode" : "a str");
}

std::int64_t iteration_argument(nb::handle given) {
  return argument<std::int64_t>(given, "iteration", "a whole number");
}

using Help =
    std::tuple<std::string, std::vector<std::string>, std::string, std::string, std::string>;

std::vector<Help> help() {
  std::vector<Help> all;
  for (const MonitorOptionHelp& option : monitor_options_help()) {
    all.emplace_back(option.name, option.aliases, option.type, option.default_value, option.help);
  }
  return all;
}

}  // namespace

void bind_options(nb::module_& module) {
  using Options = MonitorOptions;
  made_class<Options>(module, "MonitorOptions",
                      "Options of monitoring; see `plimsoll.load_options`.")
      .def(nb::init<>())
      .def(nb::init<const Options&>(), nb::arg("other"))
      .def_ro("enabled", &Options::enabled)
      .def_ro("verbose_batches", &Options::verbose_batches)
      .def_ro("profile_tensors", &Options::profile_tensors)
      .def_ro("interval", &Options::interval)
      .def_prop_ro("phases", &phases_of,
                   "Phases as (from, to, interval); `to` is the first iteration after the phase.")
      .def_ro("snapshot_at", &Options::snapshot_at)
      .def_ro("output_dir", &Options::output_dir)
      .def_ro("text_log", &Options::text_log)
      .def_ro("tensorboard", &Options::tensorboard)
      .def_ro("section", &Options::section)
      .def_ro("large_tensor_mb", &Options::large_tensor_mb)
      .def_ro("image_every", &Options::image_every)
      .def_ro("top_layers", &Options::top_layers)
      .def_ro("alerts", &Options::alerts)
      .def_ro("fragmentation_percent", &Options::fragmentation_percent)
      .def_ro("growth_percent", &Options::growth_percent)
      .def_ro("alert_every", &Options::alert_every)
      .def_ro("fail_on_alert", &Options::fail_on_alert)
      .def_ro("adapter", &Options::adapter)
      .def_ro("record", &Options::record)
      .def_ro("nvtx", &Options::nvtx)
      .def_ro("batch_size", &Options::batch_size)
      .def_ro("print_ranks", &Options::print_ranks)
      .def_prop_ro("alert_above",
                   [](const Options& options) { return options.text("alert_above"); })
      .def_ro("wandb", &Options::wandb)
      .def_ro("uses", &Options::uses)
      .def(
          "set",
          [](Options& options, nb::handle name, nb::handle value) {
            raise_if_failed(
                options.set(text_argument(name, "name"), text_argument(value, "value")));
          },
          nb::arg("name").none(), nb::arg("value").none(),
          nb::sig("def set(self, name: str, value: str) -> None"),
          "Set an option by name or alias, from text.")
      .def(
          "set_from_environment",
          [](Options& options) { raise_if_failed(options.set_from_environment()); },
          "Set the options given by variables PLIMSOLL_MONITOR_NAME.")
      .def(
          "text",
          [](const Options& options, nb::handle name) {
            return options.text(text_argument(name, "name"));
          },
          nb::arg("name").none(), nb::sig("def text(self, name: str) -> str"),
          "Return the value as text, as `set` accepts it.")
      .def(
          "interval_at",
          [](const Options& options, nb::handle iteration) {
            return options.interval_at(iteration_argument(iteration));
          },
          nb::arg("iteration").none(), nb::sig("def interval_at(self, iteration: int) -> int"))
      .def(
          "is_due",
          [](const Options& options, nb::handle iteration) {
            return options.is_due(iteration_argument(iteration));
          },
          nb::arg("iteration").none(), nb::sig("def is_due(self, iteration: int) -> bool"),
          "Whether to take a sample in this iteration.")
      .def_prop_ro("tensorboard_dir", &Options::tensorboard_dir,
                   "Folder of the event files; empty for none.")
      .def_prop_ro("tensorboard_section", &Options::tensorboard_section,
                   "Prefix of the TensorBoard tags.")
      .def("__repr__", &repr_of);
  module.def("monitor_options_help", &help,
             "Return (name, aliases, type, default, description) of each option.");
  module.def("misspelt", &base::misspelt, nb::arg("word"), nb::arg("known"), nb::arg("stems"),
             "Return the known word that `word` misspells, or an empty string.");
}

}  // namespace plimsoll::python
