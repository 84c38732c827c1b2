// Column<T>: one column of a table with tens of millions of rows. A vector of trivially copyable
// values that grows with realloc, so that the kernel remaps a large column instead of copying it
// (and faulting in its pages again) at each doubling. Throws std::bad_alloc if memory runs out,
// like a vector.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace plimsoll::base {

template <typename T>
class Column {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;

  Column() = default;
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;
  Column(Column&& other) noexcept { swap(other); }
  Column& operator=(Column&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Column() { std::free(data_); }

  void push_back(T value) {
    if (size_ == capacity_) grow(size_ + 1);
    data_[size_++] = value;
  }
  // For hot loops that have reserved capacity: they write past the end, then set the new end.
  void push_back_reserved(T value) { data_[size_++] = value; }
  void set_end(const T* end) { size_ = static_cast<std::size_t>(end - data_); }
  std::size_t capacity() const { return capacity_; }
  void append(std::span<const T> values) {
    if (values.size() > capacity_ - size_) grow(size_ + values.size());
    for (const T& value : values) data_[size_++] = value;
  }
  // New rows, if any, are set to `fill`.
  void resize(std::size_t size, T fill = T{}) {
    if (size > capacity_) grow(size);
    while (size_ < size) data_[size_++] = fill;
    size_ = size;
  }
  void reserve(std::size_t capacity) {
    if (capacity > capacity_) reallocate(capacity);
  }
  void shrink_to_fit() {
    if (size_ < capacity_ && size_ > 0) reallocate(size_);
  }
  void clear() { size_ = 0; }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::size_t memory_bytes() const { return capacity_ * sizeof(T); }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](std::size_t row) { return data_[row]; }
  const T& operator[](std::size_t row) const { return data_[row]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  std::span<const T> span() const { return {data_, size_}; }
  std::span<const T> span(std::size_t first, std::size_t count) const {
    return {data_ + first, count};
  }

  void swap(Column& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

 private:
  void grow(std::size_t least) {
    std::size_t wanted = capacity_ < 16 ? 16 : capacity_ * 2;
    reallocate(wanted < least ? least : wanted);
  }
  void reallocate(std::size_t capacity) {
    void* moved = std::realloc(static_cast<void*>(data_), capacity * sizeof(T));
    if (moved == nullptr) throw std::bad_alloc();
    data_ = static_cast<T*>(moved);
    capacity_ = capacity;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace plimsoll::base
