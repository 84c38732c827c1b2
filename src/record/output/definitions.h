// What ids stand for: names, stacks, tensors and devices, each interned once for the life of the
// process; and the facts that hold until they are told anew: settings of allocators, and notices.
// Any thread adds; the drain copies what is new into the files. Nothing is evicted, as hooks keep
// ids for the life of the process; the tables are bounded. Beyond its limits a table gives one name
// or stack that says so, and a tensor of the same role; without memory it gives 0. Both are
// counted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "format/encoder.h"
#include "format/records.h"
#include "record/ledger/id_index.h"

namespace plimsoll::record {

struct DefinitionLimits {
  std::size_t names = 1u << 20;
  std::size_t name_bytes = 256u << 20;         // of all together
  std::size_t longest_name_bytes = 64u << 10;  // longer ones are cut
  std::size_t stacks = 1u << 20;
  std::size_t frames = 32u << 20;  // of all together
  std::size_t tensors = 1u << 20;
  std::size_t settings = 1u << 10;
  std::size_t notices = 1u << 10;
};

// How far a file has got with them.
struct DefinitionCursor {
  std::size_t names = 0;
  std::size_t stacks = 0;
  std::size_t tensors = 0;
  std::size_t devices = 0;
  std::uint64_t facts = 0;  // settings and notices
};

class Definitions {
 public:
  explicit Definitions(const DefinitionLimits& limits = {}) noexcept;
  Definitions(const Definitions&) = delete;
  Definitions& operator=(const Definitions&) = delete;

  std::uint32_t name(std::string_view text) noexcept;
  std::uint32_t stack(std::span<const format::Frame> frames) noexcept;
  std::uint32_t reserve_stack() noexcept;
  void define_stack(std::uint32_t stack, std::span<const format::Frame> frames) noexcept;
  std::uint32_t tensor(const format::Tensor& tensor) noexcept;
  std::uint8_t device(const format::Device& device) noexcept;
  void setting(const format::Setting& setting) noexcept;
  void notice(const format::Notice& notice) noexcept;
  void forget_notices() noexcept;  // what went wrong in a recording that has ended

  // What stands for names and stacks beyond the limits; 0: nothing was refused yet.
  struct Beyond {
    std::uint32_t name = 0;
    std::uint32_t stack = 0;
    std::uint32_t tensor = 0;  // and all tensors after it
  };
  Beyond beyond() noexcept;
  bool is_beyond(std::uint32_t tensor) noexcept;
  std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

  // What is new since the cursor.
  void write_new(DefinitionCursor& cursor, format::Encoder& encoder) noexcept;
  // Appends the roles of the tensors that are new since there were `roles.size()` of them.
  void copy_roles(std::vector<std::uint8_t>& roles);

  // For ever; "" for an id that was not given.
  std::string_view text(std::uint32_t name) noexcept;
  // Visits all tensors so far, by id - 1, under the lock.
  template <typename Visit>
  void visit_tensors(Visit&& visit) {
    const std::lock_guard lock(mutex_);
    visit(std::span<const format::Tensor>(tensors_));
  }
  format::Device device_of(std::uint8_t id) noexcept;
  // How many frames a stack has, of which the first ones are copied; 0 for an id without any.
  std::size_t copy_frames(std::uint32_t stack, std::span<format::Frame> frames) noexcept;

  // Around fork.
  void lock() noexcept { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }

 private:
  struct Stack {
    std::size_t first = 0;
    std::uint32_t count = 0;
    bool is_defined = false;
  };

  // As it is now, and the count of facts when it was told.
  template <typename Fact>
  struct Told {
    Fact fact;
    std::uint64_t at = 0;
  };

  std::uint32_t refuse() noexcept;
  std::uint32_t name_beyond();
  std::uint32_t stack_beyond();
  template <typename Fact, typename IsSame>
  void tell(std::vector<Told<Fact>>& facts, std::size_t limit, const Fact& fact, IsSame is_same);
  std::uint32_t find_or_add(const format::Tensor& tensor, std::size_t most);
  std::string_view keep(std::string_view text);
  std::span<const format::Frame> frames_of(std::uint32_t stack) const noexcept;
  void fill(std::uint32_t stack, std::span<const format::Frame> frames);

  const DefinitionLimits limits_;
  std::mutex mutex_;
  std::atomic<std::uint64_t> refused_{0};
  Beyond beyond_;

  std::vector<std::string_view> names_;  // id - 1
  IdIndex name_index_;
  std::vector<std::unique_ptr<char[]>> text_chunks_;
  std::size_t chunk_left_ = 0;
  char* chunk_at_ = nullptr;
  std::size_t name_bytes_ = 0;

  std::vector<Stack> stacks_;  // id - 1
  IdIndex stack_index_;
  std::vector<format::Frame> frames_;
  std::vector<std::uint32_t> defined_stacks_;  // in the order in which they were defined

  std::vector<format::Tensor> tensors_;  // id - 1
  IdIndex tensor_index_;

  std::vector<format::Device> devices_;  // id

  std::vector<Told<format::Setting>> settings_;  // by name
  std::vector<Told<format::Notice>> notices_;    // by kind and device
  std::uint64_t facts_ = 0;
};

}  // namespace plimsoll::record
