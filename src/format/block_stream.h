// BlockStream finds the blocks in a trace file that arrives in pieces of any size. Any prefix of a
// file is accepted; a damaged block is skipped and counted. It buffers at most one block, reads
// every byte once, and returns a block that lies entirely in the caller's piece without copying.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "format/block.h"

namespace plimsoll::format {

struct Block {
  BlockHead head;
  std::uint64_t offset = 0;  // of the head, in the file
  std::span<const std::byte> payload;
};

// The damage found in a file.
struct Damage {
  std::uint64_t blocks = 0;         // skipped blocks, and stretches that should have been blocks
  std::uint64_t events = 0;         // in those blocks, where their heads were readable
  std::uint64_t first_offset = 0;   // of the first damaged block
  std::uint64_t unknown_kinds = 0;  // blocks from a later version; not damage
  std::uint64_t cut_bytes = 0;      // of the block that the end of the file cuts off
  std::uint64_t cut_events = 0;
  bool is_prelude_damaged = false;

  void add(std::uint64_t offset, std::uint64_t lost_events) {
    if (blocks++ == 0) first_offset = offset;
    events += lost_events;
  }
};

class BlockStream {
 public:
  enum class Kind : std::uint8_t {
    kUnknown,  // too few bytes yet
    kTrace,    // a trace file that this version reads
    kNoTrace,  // not a trace file
    kTooNew    // written by a later version that this one cannot read
  };

  // Passes the next piece of the file. The piece must stay valid until next() returns nothing.
  void push(std::span<const std::byte> piece);
  // Call this after the last piece: the remaining bytes are then searched for whole blocks.
  void finish() { is_finished_ = true; }
  // Returns the next block, valid until the next call; nothing if another piece is needed, or at
  // the end.
  std::optional<Block> next();

  Kind kind() const { return kind_; }
  const Prelude& prelude() const { return prelude_; }
  const Damage& damage() const { return damage_; }
  Damage& damage() {
    return damage_;
  }  // for a caller that finds a broken payload despite its
     // checksum
  std::uint64_t bytes() const { return offset_; }  // processed

 private:
  // The contiguous bytes available: those buffered from earlier pieces, or else the current piece.
  std::span<const std::byte> at_hand() const;
  // Makes `bytes` contiguous bytes available. If they have not all arrived, buffers the rest and
  // returns false.
  bool want(std::size_t bytes);
  void skip(std::size_t bytes);
  bool take_prelude();
  std::optional<BlockHead> take_head();
  void cut_off(std::uint32_t events);

  std::span<const std::byte> piece_;
  std::vector<std::byte> kept_;
  std::size_t kept_done_ = 0;
  std::size_t returned_bytes_ = 0;  // bytes of the block that next() returned last
  std::uint64_t offset_ = 0;
  Kind kind_ = Kind::kUnknown;
  Prelude prelude_;
  Damage damage_;
  bool is_finished_ = false;
  bool is_lost_ = false;  // inside bytes that are not a block
};

}  // namespace plimsoll::format
