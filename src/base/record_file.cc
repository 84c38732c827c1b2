#include "base/record_file.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>

namespace plimsoll::base {
namespace {

constexpr int kMostOfAName = 1000;

Error failure(const std::string& what, const std::string& path, int error) {
  const bool is_denied = error == EACCES || error == EPERM || error == EROFS;
  return make_error(is_denied ? ErrorCode::kPermission : ErrorCode::kIo,
                    what + " " + path + ": " + std::strerror(error));
}

}  // namespace

Status RecordFile::create(const std::string& folder, const std::string& stem,
                          const std::string& ending) {
  close();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return failure("cannot create the folder", folder, error.value());
  for (int n = 1; n <= kMostOfAName; ++n) {
    std::string name = stem;
    if (n > 1) name.append(".").append(std::to_string(n));
    path_ = (std::filesystem::path(folder) / name.append(ending)).string();
    const int status = file_.create(path_.c_str());
    if (status == 0) return {};
    if (status != EEXIST) return failure("cannot create", path_, status);
  }
  return failure("cannot create", path_, EEXIST);
}

Status RecordFile::write(std::string_view record) {
  if (!is_open()) return {};
  const int error = file_.write(std::as_bytes(std::span(record.data(), record.size())));
  if (error == 0) return {};
  close();
  return failure("cannot write", path_, error);
}

void RecordFile::close() { file_.close(); }

}  // namespace plimsoll::base
