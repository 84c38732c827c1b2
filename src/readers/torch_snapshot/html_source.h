// The pickle inside a page that torch.cuda._memory_viz.trace_plot (or segment_plot) wrote: base64
// text after `"base64": "`.
#pragma once

#include <memory>

#include "readers/byte_source.h"

namespace plimsoll::readers::torch_snapshot {

// Yields the decoded bytes; errors if the page holds none, or text that is not base64. `page` must
// outlive the source.
std::unique_ptr<ByteSource> unpack_html(ByteSource& page);

}  // namespace plimsoll::readers::torch_snapshot
