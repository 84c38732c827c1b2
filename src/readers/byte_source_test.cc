#include "readers/byte_source.h"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::readers {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Reads all bytes of a source, through a window of `window` bytes.
Result<std::string> read_all(ByteSource& source, std::size_t window = 5) {
  std::string all;
  std::vector<std::byte> buffer(window);
  for (;;) {
    PLIMSOLL_TRY_ASSIGN(const std::size_t got, source.read(buffer));
    if (got == 0) return all;
    all.append(reinterpret_cast<const char*>(buffer.data()), got);
  }
}

std::string gzip(std::string_view text) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  std::string in(text);
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

Result<std::string> gunzip_all(std::string_view compressed, std::size_t piece = SIZE_MAX,
                               std::size_t window = 5) {
  const auto source = gunzip(view_memory(bytes_of(compressed), piece));
  return read_all(*source, window);
}

class Files : public testing::Test {
 protected:
  Files()
      : folder_(std::filesystem::temp_directory_path() /
                ("plimsoll_byte_source_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Files() override { std::filesystem::remove_all(folder_); }

  std::string write(const char* name, std::string_view text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  std::string path(const char* name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_;
};

TEST_F(Files, a_file_returns_its_bytes_and_how_many_remain) {
  auto file = open_file(write("a", "hello, hold"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->size_hint(), 11u);
  std::vector<std::byte> few(4);
  ASSERT_TRUE((*file)->read(few).ok());
  EXPECT_EQ((*file)->size_hint(), 7u);
  EXPECT_EQ(*read_all(**file), "o, hold");
  EXPECT_EQ((*file)->size_hint(), 0u);
}

TEST_F(Files, an_empty_file_is_at_its_end) {
  auto file = open_file(write("empty", ""));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(*read_all(**file), "");
}

TEST_F(Files, a_missing_file_is_named) {
  const auto file = open_file(path("no such file"));
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(file.error().message,
            "cannot open " + path("no such file") + ": No such file or directory");
}

TEST_F(Files, a_file_below_a_file_is_not_found) {
  const auto file = open_file(write("a", "") + "/b");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
}

TEST_F(Files, a_directory_is_rejected_with_a_message) {
  const auto file = open_file(folder_.string());
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(file.error().message, folder_.string() + " is a directory; name a file in it");
}

TEST_F(Files, a_pipe_is_rejected_without_blocking) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const auto file = open_file(path("pipe"));
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::kUnsupported);
}

TEST_F(Files, a_file_without_permission_is_rejected) {
  const std::string file_path = write("secret", "x");
  ::chmod(file_path.c_str(), 0);
  if (::access(file_path.c_str(), R_OK) == 0) GTEST_SKIP() << "this user may read every file";
  const auto file = open_file(file_path);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, ErrorCode::kPermission);
}

TEST(ViewMemory, pieces_are_no_larger_than_requested) {
  const auto source = view_memory(bytes_of("abcdefgh"), 3);
  std::vector<std::byte> window(100);
  EXPECT_EQ(*source->read(window), 3u);
  EXPECT_EQ(source->size_hint(), 5u);
  EXPECT_EQ(*read_all(*source), "defgh");
}

TEST(Prepend, the_head_comes_first_for_any_window_size) {
  for (const std::size_t window : {1u, 2u, 3u, 64u}) {
    const auto head = bytes_of("abc");
    const auto source = prepend({head.begin(), head.end()}, view_memory(bytes_of("defgh"), 2));
    EXPECT_EQ(source->size_hint(), 8u);
    EXPECT_EQ(*read_all(*source, window), "abcdefgh");
    EXPECT_EQ(source->size_hint(), 0u);
  }
}

TEST(Prepend, an_empty_head_changes_nothing) {
  const auto source = prepend({}, view_memory(bytes_of("abc")));
  EXPECT_EQ(*read_all(*source), "abc");
}

TEST(Gunzip, any_pieces_give_the_same_bytes) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "line " + std::to_string(i) + "\n";
  const std::string compressed = gzip(text);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{4096}, SIZE_MAX}) {
    for (const std::size_t window : {7u, 65536u}) {
      const auto all = gunzip_all(compressed, piece, window);
      ASSERT_TRUE(all.ok()) << all.error().message;
      EXPECT_TRUE(*all == text) << "piece " << piece << ", window " << window;
    }
  }
}

TEST(Gunzip, all_members_are_read_including_empty_ones) {
  const std::string compressed = gzip("one ") + gzip("") + gzip("two");
  for (const std::size_t piece : {std::size_t{1}, SIZE_MAX}) {
    const auto all = gunzip_all(compressed, piece);
    ASSERT_TRUE(all.ok()) << all.error().message;
    EXPECT_EQ(*all, "one two");
  }
}

TEST(Gunzip, an_empty_member_is_an_empty_file) {
  const auto all = gunzip_all(gzip(""));
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(*all, "");
}

TEST(Gunzip, padding_after_the_last_member_is_ignored) {
  for (const std::size_t piece : {std::size_t{1}, SIZE_MAX}) {
    EXPECT_EQ(*gunzip_all(gzip("one") + std::string(700, '\0'), piece), "one");
    EXPECT_EQ(*gunzip_all(gzip("one") + "rubbish", piece), "one");
  }
}

TEST(Gunzip, truncation_at_any_byte_is_reported) {
  const std::string compressed = gzip("a text that is long enough to be cut in many places");
  for (std::size_t size = 1; size < compressed.size(); ++size) {
    const auto all = gunzip_all(std::string_view(compressed).substr(0, size));
    ASSERT_FALSE(all.ok()) << size;
    EXPECT_EQ(all.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(all.error().message.find("truncated"), std::string::npos) << all.error().message;
  }
}

TEST(Gunzip, damage_is_reported_with_its_position) {
  std::string compressed = gzip("a text whose checksum will not agree");
  compressed[compressed.size() - 6] = static_cast<char>(compressed[compressed.size() - 6] + 1);
  const auto all = gunzip_all(compressed);
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(all.error().message.find("near compressed byte"), std::string::npos);
  EXPECT_FALSE(gunzip_all("not gzip at all").ok());
}

// A source that fails midway, like a broken disk.
class FailingSource final : public ByteSource {
 public:
  explicit FailingSource(std::string_view head) : head_(view_memory(bytes_of(head))) {}
  Result<std::size_t> read(std::span<std::byte> into) override {
    PLIMSOLL_TRY_ASSIGN(const std::size_t got, head_->read(into));
    if (got == 0) return make_error(ErrorCode::kIo, "the disk is gone");
    return got;
  }

 private:
  std::unique_ptr<ByteSource> head_;
};

TEST(Gunzip, errors_of_the_source_are_passed_on) {
  const std::string compressed = gzip("some text");
  const auto source = gunzip(std::make_unique<FailingSource>(
      std::string_view(compressed).substr(0, compressed.size() / 2)));
  const auto all = read_all(*source);
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace plimsoll::readers
