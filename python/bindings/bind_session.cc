// Session for Python. The engine runs without the GIL; callbacks take it. Ctrl-C works: callbacks
// handle pending signals, and the call raises the exception of the signal handler.
#include <nanobind/nanobind.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/units.h"
#include "bind.h"
#include "casters.h"
#include "errors.h"
#include "plimsoll/diff.h"
#include "plimsoll/session.h"

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

// Calls Python from inside the engine. An exception cannot pass through the engine: it is stored
// here until the engine has returned, and rethrow() raises it.
class Caller {
 public:
  // Returns false if `function` or a signal handler raised an exception.
  template <typename Function>
  bool call(Function&& function) {
    nb::gil_scoped_acquire gil;
    try {
      function();
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      return true;
    } catch (nb::python_error& error) {
      raised_.emplace(std::move(error));
      return false;
    }
  }
  void rethrow() {
    if (raised_) throw nb::python_error(std::move(*raised_));
  }

 private:
  std::optional<nb::python_error> raised_;
};

// Limits how often callbacks run: taking the GIL may wait for another thread.
class Pace {
 public:
  bool is_due() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return false;
    next_ = now + std::chrono::milliseconds(50);
    return true;
  }

 private:
  std::chrono::steady_clock::time_point next_;
};

// Runs `body` without the GIL, with a callback that calls `progress` regularly.
template <typename Body>
auto with_progress(nb::object progress, Body&& body) {
  Caller caller;
  Pace pace;
  const ProgressCallback callback = [&](std::string_view stage, std::uint64_t done,
                                        std::uint64_t total) {
    if (!pace.is_due()) return true;
    return caller.call([&] {
      if (!progress.is_none()) progress(stage, done, total);
    });
  };
  auto result = [&] {
    nb::gil_scoped_release no_gil;
    return body(callback);
  }();
  caller.rethrow();
  return value_or_raise(std::move(result));
}

Session open_session(nb::bytes path, nb::object progress) {
  const std::string file(path.c_str(), path.size());
  return with_progress(std::move(progress), [&](const ProgressCallback& callback) {
    return Session::open(file, {callback});
  });
}

Session open_bytes(nb::bytes data, const std::string& name, nb::object progress) {
  const auto bytes = std::as_bytes(std::span(data.c_str(), data.size()));
  return with_progress(std::move(progress), [&](const ProgressCallback& callback) {
    return Session::open_memory(bytes, name, {callback});
  });
}

Question question_of(std::string device, std::string at, std::size_t top) {
  return {.device = std::move(device), .at = std::move(at), .top = top, .analyses = {}};
}

Report ask(const Session& session, std::string device, std::string at, std::size_t top,
           nb::object progress) {
  const Question question = question_of(std::move(device), std::move(at), top);
  return with_progress(std::move(progress), [&](const ProgressCallback& callback) {
    return session.ask(question, callback);
  });
}

std::string report_json(const Report& report) {
  nb::gil_scoped_release no_gil;
  return report.json();
}

std::string report_text(const Report& report, std::size_t width, std::size_t top,
                        std::vector<std::string> tables, bool color) {
  Result<std::string> text = [&] {
    nb::gil_scoped_release no_gil;
    return report.text(
        TextOptions{.width = width, .top = top, .tables = std::move(tables), .has_color = color});
  }();
  return value_or_raise(std::move(text));
}

void export_to(const Session& session, const std::string& format, nb::callable write,
               std::string device, std::string at, std::size_t top) {
  const Question question = question_of(std::move(device), std::move(at), top);
  Caller caller;
  Status status = [&] {
    nb::gil_scoped_release no_gil;
    return session.export_to(
        format,
        [&](std::string_view piece) {
          return caller.call([&] { write(nb::bytes(piece.data(), piece.size())); });
        },
        question);
  }();
  caller.rethrow();
  raise_if_failed(status);
}

Difference diff_files(nb::bytes before, nb::bytes after, std::string at, std::size_t top,
                      nb::object progress) {
  const std::string first(before.c_str(), before.size());
  const std::string second(after.c_str(), after.size());
  const DiffQuestion question{.at = std::move(at), .top = top};
  return with_progress(std::move(progress), [&](const ProgressCallback& callback) {
    return diff(first, second, question, callback);
  });
}

std::vector<std::tuple<std::string, std::string, std::string>> export_formats() {
  std::vector<std::tuple<std::string, std::string, std::string>> formats;
  for (ExportFormat& format : Session::export_formats()) {
    formats.emplace_back(std::move(format.name), std::move(format.description),
                         std::move(format.suffix));
  }
  return formats;
}

}  // namespace

void bind_session(nb::module_& module) {
  nb::class_<Report>(module, "Report", "The answer to a question about a recording; immutable.")
      .def("json", &report_json, "Return the report as JSON text.")
      .def("text", &report_text, nb::arg("width"), nb::arg("top"), nb::arg("tables"),
           nb::arg("color"), "Return the report as text.");
  nb::class_<Session>(module, "Session", "An opened recording.")
      .def("ask", &ask, nb::arg("device"), nb::arg("at"), nb::arg("top"),
           nb::arg("progress").none(),
           nb::sig("def ask(self, device: str, at: str, top: int, progress: "
                   "collections.abc.Callable[[str, int, int], object] | None) -> Report"),
           "Run the analyses that no earlier question ran. Empty strings select the default.")
      .def("export_to", &export_to, nb::arg("format"), nb::arg("write"), nb::arg("device"),
           nb::arg("at"), nb::arg("top"),
           nb::sig("def export_to(self, format: str, write: "
                   "collections.abc.Callable[[bytes], object], device: str, at: str, top: int) "
                   "-> None"),
           "Write the recording in another format, passing it to `write` in pieces.");
  module.def("open", &open_session, nb::arg("path"), nb::arg("progress").none(),
             nb::sig("def open(path: bytes, progress: "
                     "collections.abc.Callable[[str, int, int], object] | None) -> Session"),
             "Read a file.");
  module.def("open_bytes", &open_bytes, nb::arg("data"), nb::arg("name"),
             nb::arg("progress").none(),
             nb::sig("def open_bytes(data: bytes, name: str, progress: "
                     "collections.abc.Callable[[str, int, int], object] | None) -> Session"),
             "Read a recording in memory.");
  nb::class_<Difference>(module, "Difference", "The difference of two recordings; immutable.")
      .def("json", &Difference::json, "Return the difference as JSON text.")
      .def("text", &Difference::text, nb::arg("width"), nb::arg("color"),
           "Return the difference as text.")
      .def("growth_bytes", &Difference::growth_bytes,
           "Return the largest growth of any point, in bytes.");
  module.def("diff", &diff_files, nb::arg("before"), nb::arg("after"), nb::arg("at"),
             nb::arg("top"), nb::arg("progress").none(),
             nb::sig("def diff(before: bytes, after: bytes, at: str, top: int, progress: "
                     "collections.abc.Callable[[str, int, int], object] | None) -> Difference"),
             "Compare two files.");
  module.def("export_formats", &export_formats,
             "Return the name, description and suffix of each export format.");
  module.def("parse_bytes", &base::parse_bytes, nb::arg("text"),
             "Return a size such as ``48 MB`` in bytes, or None if it is not one.");
  module.def("is_too_large", &base::is_too_large, nb::arg("text"),
             "Return whether the text is a size that does not fit into 63 bits.");
}

}  // namespace plimsoll::python
