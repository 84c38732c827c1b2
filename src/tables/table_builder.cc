#include "tables/table_builder.h"

#include "base/check.h"
#include "base/utf8.h"

namespace plimsoll::tables {

TableBuilder::TableBuilder(std::string name, std::shared_ptr<const model::Trace> recording)
    : trace_(std::move(recording)) {
  table_.name = std::move(name);
  table_.owners.push_back(trace_);
  auto names = std::make_shared<Dictionary>();
  for (const model::DeviceTrace& device : trace().devices) append(*names, to_string(device.device));
  device_names_ = std::move(names);
}

void TableBuilder::begin_batch(std::size_t rows) {
  rows_ = rows;
  table_.batches.push_back(Batch{.rows = rows, .columns = {}});
}

void TableBuilder::add(std::string name, std::string description, BatchColumn cells) {
  Batch& batch = table_.batches.back();
  const std::size_t at = batch.columns.size();
  batch.columns.push_back(cells.column);
  if (table_.batches.size() == 1) {
    table_.fields.push_back(Field{std::move(name), std::move(description), cells.type,
                                  std::move(cells.dictionary), cells.may_be_null});
  }
  const Field& field = table_.fields[at];
  PLIMSOLL_CHECK(field.type == cells.type && field.may_be_null == cells.may_be_null);
}

Table TableBuilder::finish() {
  for (const Batch& batch : table_.batches) {
    PLIMSOLL_CHECK(batch.columns.size() == table_.fields.size());
  }
  return std::move(table_);
}

std::uint32_t TableBuilder::append(Dictionary& dictionary, std::string_view text) {
  while (!text.empty()) {
    const std::size_t len = base::utf8_sequence_length(text);
    dictionary.text += len == 0 ? "\xEF\xBF\xBD" : text.substr(0, len);
    text.remove_prefix(len == 0 ? 1 : len);
  }
  dictionary.offsets.push_back(static_cast<std::int64_t>(dictionary.text.size()));
  return static_cast<std::uint32_t>(dictionary.size() - 1);
}

std::shared_ptr<const Dictionary> TableBuilder::phase_names() {
  auto names = std::make_shared<Dictionary>();
  for (const std::string_view name : base::kPhaseNames) append(*names, name);
  return names;
}

}  // namespace plimsoll::tables
