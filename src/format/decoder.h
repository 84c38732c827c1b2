// Decoder reads a trace file in pieces of any size and passes its records to a visitor in file
// order. Whatever the input, it never fails and buffers no more than one block and its tables;
// damage is counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "format/block_stream.h"
#include "format/definition_decoder.h"
#include "format/event_decoder.h"
#include "format/file_state.h"

namespace plimsoll::format {

// A base for visitors: override only the records of interest.
struct NoRecords : NoEvents, NoDefinitions {
  void on_block(const Block&) {}  // before the records in it
  void on_end(const End&) {}
  void on_file_state(const FileState&) {}
  void on_attachment(const AttachmentPiece&) {}
};

template <typename Visitor>
class Decoder {
 public:
  explicit Decoder(Visitor& visitor) : visitor_(visitor) {}

  void push(std::span<const std::byte> piece) {
    stream_.push(piece);
    report_blocks();
  }
  // Call this after the last piece. The counts are then final.
  void finish() {
    stream_.finish();
    report_blocks();
  }

  BlockStream::Kind kind() const { return stream_.kind(); }
  const Prelude& prelude() const { return stream_.prelude(); }
  const Damage& damage() const { return stream_.damage(); }
  bool is_ended() const { return is_ended_; }                         // the end block was read
  std::uint64_t unknown_records() const { return unknown_records_; }  // from a later version

 private:
  void report_blocks() {
    while (const auto block = stream_.next()) {
      visitor_.on_block(*block);
      if (!emit(*block)) stream_.damage().add(block->offset, block->head.events);
    }
  }

  bool emit(const Block& block) {
    switch (block.head.kind) {
      case BlockKind::kDefinitions: {
        const bool is_whole = definitions_.decode(block.payload, visitor_);
        unknown_records_ += definitions_.unknown_records();
        return is_whole;
      }
      case BlockKind::kEvents: {
        // A site's definition takes at least ten bytes, and all of them are in the file.
        events_.set_site_limit(kFreeSites + block.offset / kLeastSiteBytes);
        const auto outcome = events_.decode(block.payload, visitor_);
        unknown_records_ += events_.unknown_records();
        return outcome == EventDecoder::Outcome::kWhole;
      }
      case BlockKind::kEnd:
        is_ended_ = true;
        visitor_.on_end(read_end(block.payload));
        return true;
      case BlockKind::kAttachment: {
        const auto piece = read_attachment(block.payload);
        if (piece) visitor_.on_attachment(*piece);
        return piece.has_value();
      }
      case BlockKind::kFileState: {
        const auto state = read_file_state(block.payload);
        if (state) visitor_.on_file_state(*state);
        return true;
      }
    }
    return true;
  }

  static constexpr std::uint64_t kFreeSites = 1 << 12;
  static constexpr std::uint64_t kLeastSiteBytes = 4;

  Visitor& visitor_;
  BlockStream stream_;
  DefinitionDecoder definitions_;
  EventDecoder events_;
  std::uint64_t unknown_records_ = 0;
  bool is_ended_ = false;
};

}  // namespace plimsoll::format
