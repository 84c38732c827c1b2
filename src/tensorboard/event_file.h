// Writes TensorBoard event files without TensorBoard: TFRecord frames around Event messages, one
// per sample with all its scalars, and others for layouts and images. TensorBoard, its data server
// and EventAccumulator read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/record_file.h"
#include "plimsoll/result.h"
#include "tensorboard/layout.h"
#include "tensorboard/scalars.h"

namespace plimsoll::tensorboard {

class EventFile {
 public:
  // Creates events.out.tfevents.SECONDS.HOST.PID.N in the folder, and the folder if necessary.
  Status create(const std::string& folder);

  // After a failure, which is reported only the first time, the file accepts no more. TensorBoard
  // stores values as 32-bit floats.
  Status write(std::int64_t time_ns, std::int64_t step, const std::vector<Scalar>& scalars);
  // The dashboard "Custom Scalars" uses the layout that was written last.
  Status write_layout(std::int64_t time_ns, const std::vector<ChartGroup>& groups);
  Status write_image(std::int64_t time_ns, std::int64_t step, const std::string& tag,
                     const std::string& png);
  void close() { file_.close(); }

  bool is_open() const { return file_.is_open(); }
  const std::string& path() const { return file_.path(); }

 private:
  base::RecordFile file_;
};

}  // namespace plimsoll::tensorboard
