#include <string>

#include "exporters/html/sections.h"

namespace plimsoll::exporters::html {

void write_over_time(Markup& html, const DeviceView& view) {
  (void)html;
  (void)view;
}
void write_step_chart(Markup&, const DeviceView&) {}
void write_segment_chart(Markup&, const DeviceView&) {}
void write_rank_chart(Markup&, const comparison::RankComparison*,
                      const std::vector<report::Report>&) {}

}  // namespace plimsoll::exporters::html
