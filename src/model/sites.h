// Sites: where memory events happen. Each distinct combination of stack, operators, layer, phase,
// stream and pool is one row, and an event refers to its row. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/column.h"
#include "base/recorder_names.h"
#include "model/ids.h"
#include "model/row_set.h"

namespace plimsoll::model {

// The thread's context (docs/attribution.md).
using base::Autograd;
using base::Phase;

struct Site {
  StackId stack;
  StreamId stream;
  PoolId pool;
  StringId category;    // as the file states it for the event; 0: not stated
  StringId op;          // the outermost operator of the thread
  StringId inner_op;    // the innermost one
  StringId forward_op;  // in backward: the operator that created the autograd node
  StringId layer;       // the module path
  StringId compile_context;
  Phase phase = Phase::kOther;
  Autograd autograd = Autograd::kUnknown;

  friend bool operator==(const Site&, const Site&) = default;
};

class SiteTable {
 public:
  SiteTable();

  SiteId intern(const Site& site) {
    return site == rows_[last_.index()] ? last_ : intern_another(site);
  }
  const Site& operator[](SiteId id) const { return rows_[id.index()]; }
  std::size_t size() const { return rows_.size(); }
  // Whether any site has this field.
  template <typename Field>
  bool states(Field Site::* field) const {
    return some_.*field != Field{};
  }
  std::size_t memory_bytes() const { return rows_.memory_bytes() + set_.memory_bytes(); }

 private:
  SiteId intern_another(const Site& site);

  base::Column<Site> rows_;
  RowSet set_;
  SiteId last_;  // consecutive events often have the same site
  Site some_;    // for each field, a value that some site has
};

}  // namespace plimsoll::model
