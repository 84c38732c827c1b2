// Session for Python. The engine runs without the GIL; callbacks take it back. Ctrl-C works in
// them: a signal that came is handled there, and what its handler raises comes out of the call.
#include <nanobind/nanobind.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bind.h"
#include "casters.h"
#include "errors.h"
#include "plimsoll/session.h"

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

// Calls Python from inside the engine. An exception cannot pass through the engine: it waits here
// while the engine winds up, and goes on from rethrow().
class Caller {
 public:
  // False if `function` raised, or a signal's handler did.
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

// Taking the GIL may mean waiting for another thread, so not at every call.
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

template <typename Open>
Session open_with(Open&& open, std::string device, std::string at, std::size_t top,
                  nb::object progress) {
  Caller caller;
  Pace pace;
  OpenOptions options{.device = std::move(device), .at = std::move(at), .top = top, .progress = {}};
  options.progress = [&](std::string_view stage, std::uint64_t done, std::uint64_t total) {
    if (!pace.is_due()) return true;
    return caller.call([&] {
      if (!progress.is_none()) progress(stage, done, total);
    });
  };
  Result<Session> session = [&] {
    nb::gil_scoped_release no_gil;
    return open(options);
  }();
  caller.rethrow();
  return value_or_raise(std::move(session));
}

Session open_session(nb::bytes path, std::string device, std::string at, std::size_t top,
                     nb::object progress) {
  const std::string file(path.c_str(), path.size());
  return open_with([&](const OpenOptions& options) { return Session::open(file, options); },
                   std::move(device), std::move(at), top, std::move(progress));
}

Session open_bytes(nb::bytes data, const std::string& name, std::string device, std::string at,
                   std::size_t top, nb::object progress) {
  const auto bytes = std::as_bytes(std::span(data.c_str(), data.size()));
  return open_with(
      [&](const OpenOptions& options) { return Session::open_memory(bytes, name, options); },
      std::move(device), std::move(at), top, std::move(progress));
}

std::string report_json(const Session& session) {
  nb::gil_scoped_release no_gil;
  return session.report_json();
}

std::string report_text(const Session& session, std::size_t width, std::size_t top,
                        std::vector<std::string> tables, bool color) {
  Result<std::string> text = [&] {
    nb::gil_scoped_release no_gil;
    return session.report_text(
        TextOptions{.width = width, .top = top, .tables = std::move(tables), .has_color = color});
  }();
  return value_or_raise(std::move(text));
}

void export_to(const Session& session, const std::string& format, nb::callable write) {
  Caller caller;
  Status status = [&] {
    nb::gil_scoped_release no_gil;
    return session.export_to(format, [&](std::string_view piece) {
      return caller.call([&] { write(nb::bytes(piece.data(), piece.size())); });
    });
  }();
  caller.rethrow();
  raise_if_failed(status);
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
  nb::class_<Session>(module, "Session", "An opened recording; immutable.")
      .def("report_json", &report_json, "The report as JSON text.")
      .def("report_text", &report_text, nb::arg("width"), nb::arg("top"), nb::arg("tables"),
           nb::arg("color"), "The report as a person reads it.")
      .def("export_to", &export_to, nb::arg("format"), nb::arg("write"),
           nb::sig("def export_to(self, format: str, write: "
                   "collections.abc.Callable[[bytes], object]) -> None"),
           "Hands the recording in another format to `write`, piece by piece.");
  module.def("open", &open_session, nb::arg("path"), nb::arg("device"), nb::arg("at"),
             nb::arg("top"), nb::arg("progress").none(),
             nb::sig("def open(path: bytes, device: str, at: str, top: int, progress: "
                     "collections.abc.Callable[[str, int, int], object] | None) -> Session"),
             "Reads and analyses a file. Empty strings ask for the default.");
  module.def("open_bytes", &open_bytes, nb::arg("data"), nb::arg("name"), nb::arg("device"),
             nb::arg("at"), nb::arg("top"), nb::arg("progress").none(),
             nb::sig("def open_bytes(data: bytes, name: str, device: str, at: str, top: int, "
                     "progress: collections.abc.Callable[[str, int, int], object] | None) -> "
                     "Session"),
             "The same for a recording in memory.");
  module.def("export_formats", &export_formats,
             "Name, description and suffix of each export format.");
}

}  // namespace plimsoll::python
