#include "analysis/holders/reported.h"

#include "analysis/holders/chains.h"

namespace plimsoll::analysis::holders {

FindingHolder as_reported(const model::Trace& trace, const Holder& holder) {
  const model::HolderLink& link = trace.holders.links[holder.link];
  FindingHolder row;
  row.path = path_text(trace, holder.link);
  row.type = trace.strings[link.type];
  row.length = link.length;
  row.limit = link.limit;
  row.chain = chain_text(trace, holder.example);
  row.count = holder.count;
  row.bytes = holder.bytes;
  if (holder.cut == nullptr) return row;
  row.is_cut = true;
  row.freed_bytes = holder.cut->freed_bytes;
  row.left_bytes = holder.cut->left_bytes;
  if (holder.cut->other != 0) row.other = path_text(trace, holder.cut->other);
  row.is_native = holder.cut->is_native;
  return row;
}

}  // namespace plimsoll::analysis::holders
