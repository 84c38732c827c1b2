// BlockStream: finds the blocks in a trace file that comes in pieces of any size. Takes any prefix
// of a file; a damaged block is skipped and counted. Holds at most one block at a time, reads
// every byte once, and returns a block that lies whole in the caller's piece without copying it.
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
  std::uint64_t offset = 0;  // of its head in the file
  std::span<const std::byte> payload;
};

// What was wrong with the file.
struct Damage {
  std::uint64_t blocks = 0;         // skipped, and stretches that should have been blocks
  std::uint64_t events = 0;         // in those blocks, as far as their heads could be read
  std::uint64_t first_offset = 0;   // of the first of them
  std::uint64_t unknown_kinds = 0;  // blocks of a later version; no damage
  std::uint64_t cut_bytes = 0;      // of the block that the file's end cuts off
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
    kNoTrace,  // no trace file
    kTooNew    // one of a later version that says we cannot read it
  };

  // The next piece of the file. It must live until next() has returned nothing.
  void push(std::span<const std::byte> piece);
  // No more will come: what is left is looked through for whole blocks.
  void finish() { is_finished_ = true; }
  // The next block, good until the next call; nothing: another piece is needed, or the end.
  std::optional<Block> next();

  Kind kind() const { return kind_; }
  const Prelude& prelude() const { return prelude_; }
  const Damage& damage() const { return damage_; }
  Damage& damage() { return damage_; }  // for who finds a payload broken in spite of its checksum
  std::uint64_t bytes() const { return offset_; }  // done with

 private:
  // The bytes at hand: what was kept of the pieces before, or else the piece itself.
  std::span<const std::byte> at_hand() const;
  // Makes so many lie together at hand; false: they are not here yet, and all there are is kept.
  bool want(std::size_t bytes);
  void skip(std::size_t bytes);
  bool take_prelude();
  std::optional<BlockHead> take_head();
  void cut_off(std::uint32_t events);

  std::span<const std::byte> piece_;
  std::vector<std::byte> kept_;
  std::size_t kept_done_ = 0;
  std::size_t handed_out_ = 0;  // bytes of the block that next() returned last
  std::uint64_t offset_ = 0;
  Kind kind_ = Kind::kUnknown;
  Prelude prelude_;
  Damage damage_;
  bool is_finished_ = false;
  bool is_lost_ = false;  // in bytes that are no block
};

}  // namespace plimsoll::format
