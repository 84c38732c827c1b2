#include "arrow_export.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::python {
namespace {

// The address of empty buffers: some readers reject a null pointer.
alignas(64) constexpr std::array<std::byte, 64> kNothing{};

const char* format_of(ColumnType type) {
  switch (type) {
    case ColumnType::kBool:
      return "b";
    case ColumnType::kUint8:
      return "C";
    case ColumnType::kUint32:
      return "I";
    case ColumnType::kUint64:
      return "L";
    case ColumnType::kInt64:
      return "l";
    case ColumnType::kUint32List:
      return "+L";
  }
  return "n";
}

constexpr const char* kText = "U";  // UTF-8 with offsets of 64 bits

// --- schemas ------------------------------------------------------------------------------------

// The data that an exported schema owns. The reader may move children and dictionary away and mark
// them as released; the remaining ones are released here.
struct SchemaParts {
  std::string name;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> child_pointers;
  ArrowSchema dictionary{};
};

void release_schema(ArrowSchema* schema) {
  auto* parts = static_cast<SchemaParts*>(schema->private_data);
  for (ArrowSchema& child : parts->children) {
    if (child.release != nullptr) child.release(&child);
  }
  if (parts->dictionary.release != nullptr) parts->dictionary.release(&parts->dictionary);
  delete parts;
  schema->release = nullptr;
}

// `format` is a literal; the children, if any, are filled in by the caller.
void make_schema(const char* format, std::string name, std::size_t children, ArrowSchema* out) {
  auto parts = std::make_unique<SchemaParts>();
  parts->name = std::move(name);
  parts->children.resize(children);
  for (ArrowSchema& child : parts->children) parts->child_pointers.push_back(&child);
  *out = ArrowSchema{};
  out->format = format;
  out->name = parts->name.c_str();
  out->n_children = static_cast<std::int64_t>(children);
  out->children = parts->child_pointers.data();
  out->release = release_schema;
  out->private_data = parts.release();
}

void make_field(const Field& field, ArrowSchema* out) {
  const bool is_list = field.type == ColumnType::kUint32List;
  make_schema(format_of(field.type), field.name, is_list ? 1 : 0, out);
  if (field.may_be_null) out->flags = ARROW_FLAG_NULLABLE;
  if (is_list) make_schema(format_of(ColumnType::kUint32), "item", 0, out->children[0]);
  if (field.dictionary) {
    auto* parts = static_cast<SchemaParts*>(out->private_data);
    make_schema(kText, "", 0, &parts->dictionary);
    out->dictionary = &parts->dictionary;
  }
}

// --- arrays -------------------------------------------------------------------------------------

struct ArrayParts {
  TablePtr table;
  std::vector<const void*> buffers;
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> child_pointers;
  ArrowArray dictionary{};
};

void release_array(ArrowArray* array) {
  auto* parts = static_cast<ArrayParts*>(array->private_data);
  for (ArrowArray& child : parts->children) {
    if (child.release != nullptr) child.release(&child);
  }
  if (parts->dictionary.release != nullptr) parts->dictionary.release(&parts->dictionary);
  delete parts;
  array->release = nullptr;
}

const void* or_nothing(const void* buffer) { return buffer != nullptr ? buffer : kNothing.data(); }

void make_array(const TablePtr& table, std::size_t length, std::vector<const void*> buffers,
                std::size_t children, ArrowArray* out) {
  auto parts = std::make_unique<ArrayParts>();
  parts->table = table;
  parts->buffers = std::move(buffers);
  parts->children.resize(children);
  for (ArrowArray& child : parts->children) parts->child_pointers.push_back(&child);
  *out = ArrowArray{};
  out->length = static_cast<std::int64_t>(length);
  out->n_buffers = static_cast<std::int64_t>(parts->buffers.size());
  out->buffers = parts->buffers.data();
  out->n_children = static_cast<std::int64_t>(children);
  out->children = parts->child_pointers.data();
  out->release = release_array;
  out->private_data = parts.release();
}

void make_column(const TablePtr& table, const Field& field, const Column& column, std::size_t rows,
                 ArrowArray* out) {
  const void* const validity = column.validity;  // the one buffer that may be null
  if (field.type == ColumnType::kUint32List) {
    make_array(table, rows, {validity, or_nothing(column.offsets)}, 1, out);
    const std::size_t items = column.offsets != nullptr ? column.offsets[rows] : 0;
    make_array(table, items, {nullptr, or_nothing(column.values)}, 0, out->children[0]);
  } else {
    make_array(table, rows, {validity, or_nothing(column.values)}, 0, out);
  }
  out->null_count = static_cast<std::int64_t>(column.null_count);
  if (field.dictionary) {
    auto* parts = static_cast<ArrayParts*>(out->private_data);
    const Dictionary& words = *field.dictionary;
    make_array(table, words.size(), {nullptr, words.offsets.data(), words.text.data()}, 0,
               &parts->dictionary);
    out->dictionary = &parts->dictionary;
  }
}

void make_batch(const TablePtr& table, const Batch& batch, ArrowArray* out) {
  make_array(table, batch.rows, {nullptr}, batch.columns.size(), out);
  for (std::size_t i = 0; i < batch.columns.size(); ++i) {
    make_column(table, table->fields[i], batch.columns[i], batch.rows, out->children[i]);
  }
}

// --- the stream ---------------------------------------------------------------------------------

struct StreamParts {
  TablePtr table;
  std::size_t next = 0;
};

StreamParts& parts_of(ArrowArrayStream* stream) {
  return *static_cast<StreamParts*>(stream->private_data);
}

int get_schema(ArrowArrayStream* stream, ArrowSchema* out) {
  try {
    export_schema(*parts_of(stream).table, out);
    return 0;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

int get_next(ArrowArrayStream* stream, ArrowArray* out) {
  StreamParts& parts = parts_of(stream);
  *out = ArrowArray{};  // released: the end
  if (parts.next == parts.table->batches.size()) return 0;
  try {
    make_batch(parts.table, parts.table->batches[parts.next], out);
    ++parts.next;
    return 0;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

const char* get_last_error(ArrowArrayStream*) { return nullptr; }

void release_stream(ArrowArrayStream* stream) {
  delete &parts_of(stream);
  stream->release = nullptr;
}

}  // namespace

void export_schema(const Table& table, ArrowSchema* out) {
  make_schema("+s", "", table.fields.size(), out);
  for (std::size_t i = 0; i < table.fields.size(); ++i) {
    make_field(table.fields[i], out->children[i]);
  }
}

void export_stream(TablePtr table, ArrowArrayStream* out) {
  *out = ArrowArrayStream{get_schema, get_next, get_last_error, release_stream,
                          new StreamParts{std::move(table), 0}};
}

}  // namespace plimsoll::python
