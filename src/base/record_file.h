// A file that grows by whole records while a program trains. After a kill or on a full disk it is
// readable up to its last record. The first failure is reported once; later writes are dropped
// silently, because training continues.
#pragma once

#include <string>
#include <string_view>

#include "base/output_file.h"
#include "plimsoll/result.h"

namespace plimsoll::base {

class RecordFile {
 public:
  // Creates a file `stem + ending` in the folder, and the folder if necessary; uses "stem.2",
  // "stem.3", ... if the name is taken.
  Status create(const std::string& folder, const std::string& stem, const std::string& ending);

  // Writes a whole record in a single write.
  Status write(std::string_view record);
  void close();

  bool is_open() const { return file_.is_open(); }
  const std::string& path() const { return path_; }

 private:
  base::OutputFile file_;
  std::string path_;
};

}  // namespace plimsoll::base
