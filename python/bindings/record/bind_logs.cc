// Logs of samples, and alerts about them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alerts/detection.h"
#include "bind.h"
#include "casters.h"
#include "errors.h"
#include "plimsoll/memory_sample.h"
#include "plimsoll/result.h"
#include "tensorboard/event_file.h"
#include "tensorboard/scalars.h"
#include "text_log/text_log.h"

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

using Pairs = std::vector<std::pair<std::string, double>>;

// Training continues: an error is returned as a sentence, not raised.
std::optional<std::string> trouble(Status status) {
  if (status) return std::nullopt;
  return std::move(status).error().message;
}

Pairs pairs_of(std::vector<tensorboard::Scalar> scalars) {
  Pairs pairs;
  for (tensorboard::Scalar& scalar : scalars) {
    pairs.emplace_back(std::move(scalar.tag), scalar.value);
  }
  return pairs;
}

Pairs scalars_of(const MemorySample& sample, const std::string& section, std::size_t top_layers) {
  return pairs_of(tensorboard::scalars_of(sample, {section, top_layers}));
}

void bind_event_file(nb::module_& module) {
  using tensorboard::EventFile;
  module.def("scalars_of", &scalars_of, nb::arg("sample"), nb::arg("section") = "Memory",
             nb::arg("top_layers") = 10,
             "Return the TensorBoard tags of a sample, and their values.");
  using tensorboard::ScalarSeries;
  made_class<ScalarSeries>(module, "ScalarSeries",
                           "The tags of a run's samples, without figures of the CPU that are 0.")
      .def(
          "__init__",
          [](ScalarSeries* self, const std::string& section, std::size_t top_layers) {
            new (self) ScalarSeries({section, top_layers});
          },
          nb::arg("section") = "Memory", nb::arg("top_layers") = 10)
      .def(
          "next",
          [](ScalarSeries& self, const MemorySample& sample) {
            return pairs_of(self.next(sample));
          },
          nb::arg("sample"), "Return the tags of the next sample, and their values.");
  made_class<EventFile>(module, "EventFile", "A TensorBoard event file.")
      .def(
          "__init__",
          [](EventFile* self, const std::string& folder) {
            new (self) EventFile();
            raise_if_failed(self->create(folder));
          },
          nb::arg("folder"))
      .def(
          "write",
          [](EventFile& self, std::int64_t time_ns, std::int64_t step, const Pairs& scalars) {
            std::vector<tensorboard::Scalar> reported;
            for (const auto& [tag, value] : scalars) reported.push_back({tag, value});
            return trouble(self.write(time_ns, step, reported));
          },
          nb::arg("time_ns"), nb::arg("step"), nb::arg("scalars"),
          "Return the error the first time, else None. After an error nothing is written.")
      .def("close", &EventFile::close)
      .def_prop_ro("path", &EventFile::path);
}

void bind_text_log(nb::module_& module) {
  using text_log::TextLog;
  made_class<TextLog>(module, "TextLog", "OUTPUT_DIR/profiles/tensor_profile_TIMESTAMP.log.")
      .def(
          "__init__",
          [](TextLog* self, const std::string& output_dir, std::size_t top_layers) {
            new (self) TextLog();
            raise_if_failed(self->create(output_dir, {.top_layers = top_layers}));
          },
          nb::arg("output_dir"), nb::arg("top_layers") = 10)
      .def(
          "write",
          [](TextLog& self, const MemorySample& sample) { return trouble(self.write(sample)); },
          nb::arg("sample"),
          "Return the error the first time, else None. After an error nothing is written.")
      .def("close", &TextLog::close)
      .def_prop_ro("path", &TextLog::path);
  module.def(
      "text_log_snapshot",
      [](const MemorySample& sample, std::size_t top_layers) {
        return text_log::text_log_snapshot(sample, {.top_layers = top_layers});
      },
      nb::arg("sample"), nb::arg("top_layers") = 10,
      "Return the text of a sample in the text log.");
  module.def("text_log_header", &text_log::text_log_header, nb::arg("time_ns"),
             "Return the header of a text log.");
  module.def(
      "append_text_log",
      [](const std::string& path, const MemorySample& sample, std::size_t top_layers) {
        return trouble(text_log::append_text_log(path, sample, {.top_layers = top_layers}));
      },
      nb::arg("path"), nb::arg("sample"), nb::arg("top_layers") = 10,
      "Append a sample to the log at a path. Returns the error, if any.");
}

void bind_detector(nb::module_& module) {
  using alerts::DetectionOptions;
  using alerts::Detector;
  made_class<Detector>(module, "Detector", "The detection rules, applied to a sequence of samples.")
      .def(
          "__init__",
          [](Detector* self, double growth_percent, double fragmentation_percent,
             std::int64_t alert_every) {
            DetectionOptions options;
            options.growth_percent = growth_percent;
            options.fragmentation_percent = fragmentation_percent;
            options.alert_every = alert_every;
            new (self) Detector(options);
          },
          nb::arg("growth_percent") = DetectionOptions{}.growth_percent,
          nb::arg("fragmentation_percent") = DetectionOptions{}.fragmentation_percent,
          nb::arg("alert_every") = DetectionOptions{}.alert_every)
      .def("observe", nb::overload_cast<const MemorySample&>(&Detector::observe), nb::arg("sample"),
           "Add a sample; return the findings to report now.")
      .def("findings", &Detector::findings, "Return all findings of the run so far.");
}

}  // namespace

void bind_logs(nb::module_& module) {
  bind_event_file(module);
  bind_text_log(module);
  bind_detector(module);
}

}  // namespace plimsoll::python
