#include "tables/fleet_tables.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "fleet/partial.h"
#include "tables/table_builder.h"

namespace plimsoll::tables {
namespace {

template <typename Value>
using Stored = std::conditional_t<std::is_signed_v<Value>, std::int64_t, std::uint64_t>;

// A column for each field of the row, whose values are texts, integers, or optional integers.
template <typename Row>
Table table_of(std::string name, const TracePtr& recording, const std::vector<Row>& rows) {
  TableBuilder table(std::move(name), recording);
  table.begin_batch(rows.size());
  base::for_each_field<Row>([&](const auto& field) {
    using Value = typename std::remove_cvref_t<decltype(field)>::Value;
    if constexpr (std::is_same_v<Value, std::string>) {
      table.add(field.name, field.doc,
                table.texts([&](std::size_t i) { return field.of(rows[i]); }));
    } else if constexpr (base::IsOptional<Value>::value) {
      using Number = Stored<typename Value::value_type>;
      table.add(field.name, field.doc,
                table.with_nulls(table.template compute<Number>([&](std::size_t i) {
                  return static_cast<Number>(field.of(rows[i]).value_or(0));
                }),
                                 [&](std::size_t i) { return !field.of(rows[i]).has_value(); }));
    } else {
      using Number = Stored<Value>;
      table.add(field.name, field.doc, table.template compute<Number>([&](std::size_t i) {
        return static_cast<Number>(field.of(rows[i]));
      }));
    }
  });
  return table.finish();
}

}  // namespace

std::vector<Table> fleet_tables(const TracePtr& recording, const report::Report& report) {
  const fleet::Partial partial = fleet::partial_of(report);
  std::vector<Table> tables;
  tables.push_back(table_of("ranks", recording, std::vector{partial.rank}));
  tables.push_back(table_of("steps", recording, partial.steps));
  tables.push_back(table_of("peaks", recording, partial.peaks));
  tables.push_back(table_of("sites", recording, partial.sites));
  tables.push_back(table_of("findings", recording, partial.findings));
  return tables;
}

}  // namespace plimsoll::tables
