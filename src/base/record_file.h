// A file that grows by whole records while a program trains: what a killed program or a full disk
// leaves is readable up to its last record. The first failure is told once; from then on the file
// takes no more and says nothing, because training goes on.
#pragma once

#include <string>
#include <string_view>

#include "base/output_file.h"
#include "plimsoll/result.h"

namespace plimsoll::base {

class RecordFile {
 public:
  // Makes a file `stem + ending` in the folder, which it makes too; "stem.2", "stem.3", ... where
  // others have taken that name.
  Status create(const std::string& folder, const std::string& stem, const std::string& ending);

  // In one piece, at once.
  Status write(std::string_view record);
  void close();

  bool is_open() const { return file_.is_open(); }
  const std::string& path() const { return path_; }

 private:
  base::OutputFile file_;
  std::string path_;
};

}  // namespace plimsoll::base
