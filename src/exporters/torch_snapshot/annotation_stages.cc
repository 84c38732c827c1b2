#include "exporters/torch_snapshot/annotation_stages.h"

#include <algorithm>

#include "model/ids.h"

namespace plimsoll::exporters::torch_snapshot {

std::vector<Stage> stages_of(const std::vector<model::Annotation>& annotations) {
  std::vector<Stage> starts;
  std::vector<Stage> ends;
  for (const model::Annotation& annotation : annotations) {
    if (annotation.begin_ns != model::kNoTime) {
      starts.push_back(Stage{&annotation, annotation.begin_ns, true});
    }
    if (annotation.end_ns != model::kNoTime) {
      ends.push_back(Stage{&annotation, annotation.end_ns, false});
    }
  }
  std::ranges::stable_sort(starts, {}, &Stage::time_ns);
  std::ranges::stable_sort(ends, {}, &Stage::time_ns);

  std::vector<Stage> stages;
  std::vector<bool> is_open(annotations.size());  // its START is in the list
  auto next = starts.begin();
  auto place = [&](const Stage& start) {
    const auto row = static_cast<std::size_t>(start.annotation - annotations.data());
    if (!is_open[row]) stages.push_back(start);
    is_open[row] = true;
  };
  for (const Stage& end : ends) {
    for (; next != starts.end() && next->time_ns < end.time_ns; ++next) place(*next);
    if (end.annotation->begin_ns != model::kNoTime) {
      place(Stage{end.annotation, end.annotation->begin_ns, true});
    }
    stages.push_back(end);
  }
  for (; next != starts.end(); ++next) place(*next);
  return stages;
}

}  // namespace plimsoll::exporters::torch_snapshot
