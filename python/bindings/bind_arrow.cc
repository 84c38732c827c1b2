// Tables for Python, through the Arrow PyCapsule interface. pyarrow, polars, DuckDB and others read
// them directly, and none of these is needed here.
#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arrow_export.h"
#include "bind.h"
#include "casters.h"
#include "errors.h"
#include "plimsoll/session.h"
#include "table_values.h"

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

struct SharedTable {
  TablePtr table;
};

// The consumer moves the struct's content and marks it as released; without a consumer, the capsule
// releases it.
template <typename Struct>
nb::capsule capsule_of(std::unique_ptr<Struct> content, const char* name) {
  nb::capsule capsule(content.get(), name, [](void* pointer) noexcept {
    auto* last = static_cast<Struct*>(pointer);
    if (last->release != nullptr) last->release(last);
    delete last;
  });
  static_cast<void>(content.release());
  return capsule;
}

SharedTable table_of(const Session& session, const std::string& name) {
  Result<Table> table = [&] {
    nb::gil_scoped_release no_gil;
    return session.table(name);
  }();
  return SharedTable{std::make_shared<Table>(value_or_raise(std::move(table)))};
}

std::vector<SharedTable> fleet_tables_of(const Session& session) {
  Result<std::vector<Table>> tables = [&] {
    nb::gil_scoped_release no_gil;
    return session.fleet_tables();
  }();
  std::vector<SharedTable> shared;
  for (Table& table : value_or_raise(std::move(tables))) {
    shared.push_back({std::make_shared<Table>(std::move(table))});
  }
  return shared;
}

nb::capsule schema_capsule(const SharedTable& self) {
  auto schema = std::make_unique<ArrowSchema>();
  export_schema(*self.table, schema.get());
  return capsule_of(std::move(schema), "arrow_schema");
}

nb::capsule stream_capsule(const SharedTable& self, const nb::object& requested_schema) {
  static_cast<void>(requested_schema);  // a request; there is only one form of the columns
  auto stream = std::make_unique<ArrowArrayStream>();
  export_stream(self.table, stream.get());
  return capsule_of(std::move(stream), "arrow_array_stream");
}

nb::dict columns_of(const SharedTable& self) {
  nb::dict columns;
  for (const Field& field : self.table->fields) {
    columns[field.name.c_str()] = field.description;
  }
  return columns;
}

std::vector<std::uintptr_t> addresses_of(const SharedTable& self, std::string_view name) {
  std::vector<std::uintptr_t> addresses;
  for (std::size_t i = 0; i < self.table->fields.size(); ++i) {
    if (self.table->fields[i].name != name) continue;
    for (const Batch& batch : self.table->batches) {
      addresses.push_back(reinterpret_cast<std::uintptr_t>(batch.columns[i].values));
    }
  }
  return addresses;
}

std::string text_of(const SharedTable& self) {
  std::string names;
  for (const Field& field : self.table->fields) names += (names.empty() ? "" : ", ") + field.name;
  return "<plimsoll.Table '" + self.table->name + "': " + std::to_string(self.table->rows()) +
         " rows of " + names + ">";
}

// The rows as dicts, for pandas.DataFrame() and for people.
nb::object rows_of(const SharedTable& self) {
  const nb::dict values = values_of(*self.table, 0, self.table->rows());
  nb::list rows;
  for (std::size_t row = 0; row < self.table->rows(); ++row) {
    nb::dict of_row;
    for (const auto& [name, column] : values) of_row[name] = column[row];
    rows.append(of_row);
  }
  return nb::iter(rows);
}

nb::object data_frame_of(const SharedTable& self) {
  return nb::module_::import_("pandas").attr("DataFrame")(
      values_of(*self.table, 0, self.table->rows()));
}

}  // namespace

void bind_arrow(nb::module_& module) {
  nb::class_<SharedTable>(module, "Table",
                          "Columns of a recording, for any reader of the Arrow PyCapsule "
                          "interface:\n``pyarrow.table(table)``, ``polars.DataFrame(table)``, "
                          "``duckdb.sql(...)``.\n\nThe columns are not copied. They keep the "
                          "recording in memory while they are in use.")
      .def_prop_ro(
          "name", [](const SharedTable& self) { return self.table->name; },
          "Name of the table, such as ``events``.")
      .def_prop_ro("columns", &columns_of, nb::sig("def columns(self) -> dict[str, str]"),
                   "Description of each column, by name.")
      .def("__len__", [](const SharedTable& self) { return self.table->rows(); })
      .def("__repr__", &text_of)
      .def("__arrow_c_schema__", &schema_capsule, nb::sig("def __arrow_c_schema__(self) -> object"))
      .def(
          "__arrow_c_stream__", &stream_capsule, nb::arg("requested_schema").none() = nb::none(),
          nb::sig("def __arrow_c_stream__(self, requested_schema: object | None = None) -> object"))
      .def(
          "to_pydict",
          [](const SharedTable& self, std::size_t begin, std::optional<std::size_t> end) {
            return values_of(*self.table, begin, end.value_or(self.table->rows()));
          },
          nb::arg("begin") = 0, nb::arg("end").none() = nb::none(),
          nb::sig("def to_pydict(self, begin: int = 0, end: int | None = None) -> "
                  "dict[str, list[typing.Any]]"),
          "Return each column as a list of Python objects; for small tables, or without "
          "Arrow.\n\nReturns rows `begin` to `end` - 1. Neither may be negative.")
      .def("__iter__", &rows_of,
           nb::sig("def __iter__(self) -> collections.abc.Iterator[dict[str, typing.Any]]"),
           "Yield each row as a dict; for small tables, or without Arrow.")
      .def("to_pandas", &data_frame_of, nb::sig("def to_pandas(self) -> typing.Any"),
           "Return a ``pandas.DataFrame``. The values pass through Python: for millions of "
           "rows\n``pyarrow.table(table).to_pandas()`` is faster. Raises ImportError without "
           "pandas.")
      .def("_addresses", &addresses_of, nb::arg("column"),
           "Return the address of a column's values in each batch; for tests.");
  module.def("fleet_tables", &fleet_tables_of, nb::arg("session"),
             "Return what a fleet keeps: the tables ranks, steps, peaks, sites and findings.");
  module.def("table_names", &Session::table_names, "Return the names of the tables.");
  module.def("table", &table_of, nb::arg("session"), nb::arg("name"),
             "Return one of the tables of the recording.");
}

}  // namespace plimsoll::python
