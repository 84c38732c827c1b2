#include "readers/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace plimsoll::readers {
namespace {

Error file_error(const std::string& path, const char* what, int number) {
  ErrorCode code = ErrorCode::kIo;
  if (number == ENOENT || number == ENOTDIR) code = ErrorCode::kNotFound;
  if (number == EACCES || number == EPERM) code = ErrorCode::kPermission;
  return make_error(code, std::string(what) + " " + path + ": " + std::strerror(number));
}

class FileSource final : public ByteSource {
 public:
  FileSource(int descriptor, std::uint64_t size, std::string path)
      : descriptor_(descriptor), left_(size), path_(std::move(path)) {}
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override { ::close(descriptor_); }

  Result<std::size_t> read(std::span<std::byte> into) override {
    for (;;) {
      const ssize_t got = ::read(descriptor_, into.data(), into.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return file_error(path_, "cannot read", errno);
      const auto count = static_cast<std::size_t>(got);
      left_ -= std::min<std::uint64_t>(left_, count);
      return count;
    }
  }
  std::uint64_t size_hint() const override { return left_; }

 private:
  int descriptor_;
  std::uint64_t left_;
  std::string path_;
};

class MemorySource final : public ByteSource {
 public:
  MemorySource(std::span<const std::byte> bytes, std::size_t piece)
      : bytes_(bytes), piece_(piece) {}

  Result<std::size_t> read(std::span<std::byte> into) override {
    const std::size_t count = std::min({into.size(), bytes_.size(), piece_});
    if (count > 0) std::memcpy(into.data(), bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return count;
  }
  std::uint64_t size_hint() const override { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  std::size_t piece_;
};

class PrependSource final : public ByteSource {
 public:
  PrependSource(std::vector<std::byte> head, ByteSource& rest, std::unique_ptr<ByteSource> owned)
      : head_(std::move(head)), rest_(rest), owned_(std::move(owned)) {}

  Result<std::size_t> read(std::span<std::byte> into) override {
    if (at_ == head_.size()) return rest_.read(into);
    const std::size_t count = std::min(into.size(), head_.size() - at_);
    std::memcpy(into.data(), head_.data() + at_, count);
    at_ += count;
    return count;
  }
  std::uint64_t size_hint() const override {
    const std::uint64_t rest = rest_.size_hint();
    return rest == 0 ? 0 : rest + head_.size() - at_;
  }

 private:
  std::vector<std::byte> head_;
  std::size_t at_ = 0;
  ByteSource& rest_;
  std::unique_ptr<ByteSource> owned_;  // rest_, if this source owns it
};

class GunzipSource final : public ByteSource {
 public:
  explicit GunzipSource(std::unique_ptr<ByteSource> compressed)
      : compressed_(std::move(compressed)), input_(1 << 16) {}
  GunzipSource(const GunzipSource&) = delete;
  GunzipSource& operator=(const GunzipSource&) = delete;
  ~GunzipSource() override {
    if (started_) ::inflateEnd(&stream_);
  }

  Result<std::size_t> read(std::span<std::byte> into) override {
    if (into.empty() || ended_) return std::size_t{0};
    const std::size_t wanted = std::min<std::size_t>(into.size(), 1u << 30);
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(wanted);
    while (stream_.avail_out == wanted) {
      if (stream_.avail_in == 0) PLIMSOLL_TRY(refill());
      if (ended_) return std::size_t{0};
      PLIMSOLL_TRY(inflate_some());
    }
    return wanted - stream_.avail_out;
  }

 private:
  Status refill() {
    PLIMSOLL_TRY_ASSIGN(const std::size_t got, compressed_->read(input_));
    consumed_ += got;
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(got);
    if (got == 0) {
      if (in_member_) return damaged("the gzip stream is truncated");
      ended_ = true;
    }
    return {};
  }

  Status inflate_some() {
    if (!started_) {
      if (::inflateInit2(&stream_, 15 + 16) != Z_OK) {
        return make_error(ErrorCode::kInternal, "zlib could not be initialized");
      }
      started_ = true;
    }
    // Data after the last member is padding or garbage; gzip(1) ignores it too.
    if (!in_member_ && members_ > 0 && *stream_.next_in != 0x1f) {
      ended_ = true;
      stream_.avail_in = 0;
      return {};
    }
    in_member_ = true;
    const int code = ::inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      ++members_;
      in_member_ = false;
      ::inflateReset(&stream_);
      return {};
    }
    if (code != Z_OK && code != Z_BUF_ERROR) {
      return damaged(stream_.msg != nullptr ? stream_.msg : "the gzip stream is damaged");
    }
    return {};
  }

  Error damaged(const char* what) const {
    return make_error(ErrorCode::kCorrupt, std::string(what) + " (near compressed byte " +
                                               std::to_string(consumed_ - stream_.avail_in) + ")");
  }

  std::unique_ptr<ByteSource> compressed_;
  std::vector<std::byte> input_;
  z_stream stream_{};
  std::uint64_t consumed_ = 0;
  std::size_t members_ = 0;
  bool started_ = false;
  bool in_member_ = false;
  bool ended_ = false;
};

Result<std::unique_ptr<ByteSource>> open_standard_input() {
  const int descriptor = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) return file_error("standard input", "cannot open", errno);
  return std::unique_ptr<ByteSource>(std::make_unique<FileSource>(descriptor, 0, "standard input"));
}

}  // namespace

Result<std::unique_ptr<ByteSource>> open_file(const std::string& path) {
  if (path == "-") return open_standard_input();
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return file_error(path, "cannot open", errno);
  struct stat facts{};
  if (::fstat(descriptor, &facts) != 0) {
    const int number = errno;
    ::close(descriptor);
    return file_error(path, "cannot read the status of", number);
  }
  if (S_ISDIR(facts.st_mode)) {
    ::close(descriptor);
    return make_error(ErrorCode::kUnsupported, path + " is a directory; name a file in it");
  }
  if (!S_ISREG(facts.st_mode)) {
    ::close(descriptor);
    return make_error(ErrorCode::kUnsupported, path + " is not a regular file");
  }
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
  return std::unique_ptr<ByteSource>(
      std::make_unique<FileSource>(descriptor, static_cast<std::uint64_t>(facts.st_size), path));
}

std::unique_ptr<ByteSource> view_memory(std::span<const std::byte> bytes, std::size_t piece) {
  return std::make_unique<MemorySource>(bytes, piece);
}

std::unique_ptr<ByteSource> gunzip(std::unique_ptr<ByteSource> compressed) {
  return std::make_unique<GunzipSource>(std::move(compressed));
}

std::unique_ptr<ByteSource> prepend(std::vector<std::byte> head, std::unique_ptr<ByteSource> rest) {
  ByteSource& borrowed = *rest;
  return std::make_unique<PrependSource>(std::move(head), borrowed, std::move(rest));
}

std::unique_ptr<ByteSource> prepend(std::vector<std::byte> head, ByteSource& rest) {
  return std::make_unique<PrependSource>(std::move(head), rest, nullptr);
}

}  // namespace plimsoll::readers
