// Finds what holds tensors in a C++ program: follows every word of memory that may be a pointer,
// as LeakSanitizer does, from the program's variables and stacks through the blocks of malloc.
// It takes no reference, calls nothing of the program and reads copies only. What no variable
// reaches is followed from the memory of libraries; what nothing reaches is lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cpp_heap.h"
#include "cpp_types.h"
#include "plimsoll/holders_c.h"

namespace plimsoll::libtorch::cpp_holders {

struct Root {
  enum class Kind : std::uint8_t { kVariable, kLocal, kNative, kLost } kind = Kind::kNative;
  std::uintptr_t begin = 0, end = 0;
  std::string name = {};    // of a variable, or of another thread
  std::string object = {};  // file name of the library
  std::uintptr_t code = 0;  // of a frame: the call that its function executes
  std::uint32_t frame = 0;  // of local variables: the root that is their frame
  std::size_t offset = 0;   // of a container in it
  std::uint32_t whole = 0;  // of a part: the root that it is a part of
  std::string type = {};    // of a container, if known
};

enum BlockFlag : std::uint16_t {
  kSkipped = 1,    // the memory of a tensor, or Plimsoll's
  kCounted = 2,    // has a number of references
  kIsShared = 4,   // begins with the counts of a std::shared_ptr
  kSharedBy = 8,   // another variable refers to it, too
  kRetained = 16,  // of a cut: something else retains it
  kOfLibrary = 32  // a library refers to it
};

// A reference to a block that counts its references.
struct Reference {
  std::uint32_t to = 0;    // number of a block
  std::uint32_t from = 0;  // as Block::parent
};

struct Storage {
  std::uint32_t block = 0;
  std::uintptr_t address = 0;
  std::uint64_t size_bytes = 0;
  bool is_cuda = false;
  std::int8_t device = 0;
};

class Walk {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::uint32_t kRootBit = 1U << 31;

  // `stack`: of the calling thread, what is below is not the program's.
  explicit Walk(std::chrono::milliseconds time, std::uintptr_t stack);

  void run();  // throws std::bad_alloc

  Kind kind_of(std::uint32_t block) const { return types[heap[block].type].kind; }
  // The number of references to a block that counts them.
  std::uint64_t uses_of(std::uint32_t block) const;

  Heap heap;
  Types types;
  std::vector<Root> roots{Root{}};
  std::vector<Storage> storages;
  Array<Reference> references;
  Array<std::uint32_t> order;  // blocks that were reached, parents first
  std::unordered_map<std::uint32_t, std::uint32_t> other_owners;  // by block with kSharedBy
  std::uint64_t nodes = 0;
  bool is_of_glibc = false;  // otherwise nothing is known
  plimsoll_walk_end end = PLIMSOLL_WALK_COMPLETE;

 private:
  static constexpr int kStages = 3;
  struct Interior {
    std::uint32_t block, from, owner;
  };

  void see(Block& block, const std::uintptr_t* words);
  void read_storages();
  void add_roots();
  void add_stacks();
  void follow_roots(Root::Kind kind);
  void follow_lost();
  void follow_all();
  void follow_blocks();
  void follow_batch(const Array<std::uint32_t>& queue, std::size_t& next);
  void mark_libraries();
  void skip_own(std::uintptr_t begin, std::uintptr_t end);
  void visit(const std::uintptr_t* words, std::size_t count, std::uint32_t from,
             std::uint32_t owner, std::size_t skipped);
  void reach(std::uint32_t number, std::uintptr_t address, std::uint32_t from, std::uint32_t owner);
  void add(std::uint32_t number, std::uint32_t from, std::uint32_t owner);
  // Whether this is such a container.
  bool limit_vector(const std::uintptr_t* words, Block& block) const;
  bool limit_deque(const std::uintptr_t* words) const;
  int stage_of(std::uint32_t number, const char* type) const;
  bool is_part(std::uint32_t number, std::uint32_t from, std::uint32_t owner) const;
  std::uint32_t part_of(std::uint32_t owner);
  std::uint32_t local_of(std::uint32_t frame, std::size_t offset, const char* type);
  bool is_late();

  std::vector<Mapping> mappings_;
  std::vector<std::uint32_t> tensors_, storage_blocks_, pending_nodes_;
  std::vector<Interior> interiors_;
  std::map<std::pair<std::uint32_t, std::size_t>, std::uint32_t> locals_;  // by frame and offset
  Array<std::uint32_t> of_libraries_;
  bool is_marking_ = false;
  int stage_ = 0;  // of the walk from stacks
  Pages buffer_;
  std::size_t next_ = 0, next_node_ = 0;
  std::uintptr_t stack_, lowest_ = 0, highest_ = 0;
  std::chrono::nanoseconds most_time_, began_;  // by the thread's CPU time
};

}  // namespace plimsoll::libtorch::cpp_holders
