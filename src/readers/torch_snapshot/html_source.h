// The pickle inside a page written by torch.cuda._memory_viz.trace_plot (or segment_plot): base64
// text after `"base64": "`.
#pragma once

#include <memory>

#include "readers/byte_source.h"

namespace plimsoll::readers::torch_snapshot {

// Returns the decoded bytes; fails if the page has no such text or it is not base64. `page` must
// outlive the source.
std::unique_ptr<ByteSource> unpack_html(ByteSource& page);

}  // namespace plimsoll::readers::torch_snapshot
