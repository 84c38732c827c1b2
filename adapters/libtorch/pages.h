// Memory from mmap, so that neither torch's allocator nor the program's malloc is affected.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <utility>

namespace plimsoll::libtorch {

class Pages {
 public:
  Pages() = default;
  ~Pages() {
    if (data_ != nullptr) munmap(data_, size_bytes_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  // Zeros. Returns false if there is no memory.
  bool reserve(std::size_t size_bytes) {
    void* const data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return false;
    data_ = data;
    size_bytes_ = size_bytes;
    return true;
  }
  void swap(Pages& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
  }
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

}  // namespace plimsoll::libtorch
