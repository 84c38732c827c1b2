#include "readers/native/native_reader.h"

#include <string>
#include <vector>

#include "base/units.h"
#include "format/decoder.h"
#include "readers/native/diagnostics.h"
#include "readers/native/file_end.h"
#include "readers/native/recording.h"

namespace plimsoll::readers::native {
namespace {

constexpr std::size_t kPieceBytes = 1 << 17;
constexpr const char* kStage = "reading events";

using Decoder = format::Decoder<Recording>;

Status check_kind(const Decoder& decoder) {
  switch (decoder.kind()) {
    case format::BlockStream::Kind::kTrace:
    case format::BlockStream::Kind::kUnknown:
      return {};
    case format::BlockStream::Kind::kNoTrace:
      return make_error(ErrorCode::kCorrupt,
                        "the file begins like a Plimsoll trace, but is not one");
    case format::BlockStream::Kind::kTooNew:
      return make_error(ErrorCode::kUnsupported,
                        "the trace is of format version " +
                            std::to_string(decoder.prelude().version) + ", which needs version " +
                            std::to_string(decoder.prelude().oldest_readable) +
                            " to read; this Plimsoll reads version " +
                            std::to_string(format::kVersion) + ". Update Plimsoll");
  }
  return {};
}

Status read_pieces(ByteSource& source, ReadContext& context, Decoder& decoder,
                   const Recording& recording) {
  std::vector<std::byte> piece(kPieceBytes);
  const std::uint64_t total = source.size_hint();
  for (std::uint64_t done = 0;;) {
    context.progress.advance(kStage, done, total);
    if (context.progress.interrupted()) {
      return make_error(ErrorCode::kInterrupted, "stopped while reading");
    }
    const auto got = source.read(piece);
    if (!got) {
      // A truncated compressed file: read as much of it as possible.
      if (got.error().code != ErrorCode::kCorrupt || done == 0) return got.error();
      context.diagnostics.add(kFileCut, 1, got.error().message);
      return {};
    }
    if (*got == 0) return {};
    decoder.push(std::span(piece).first(*got));
    done += *got;
    PLIMSOLL_TRY(check_kind(decoder));
    if (recording.failure()) return *recording.failure();
  }
}

void report_damage(const Decoder& decoder, base::Diagnostics& diagnostics) {
  const format::Damage& damage = decoder.damage();
  if (damage.is_prelude_damaged) diagnostics.add(kCorruptHead);
  diagnostics.add(kCorruptBlock, damage.blocks,
                  "the first at byte " + std::to_string(damage.first_offset) + "; " +
                      base::format_count(damage.events) +
                      (damage.events == 1 ? " record is missing" : " records are missing"));
  diagnostics.add(kLaterVersion, damage.unknown_kinds + decoder.unknown_records());
}

class NativeReader final : public Reader {
 public:
  const char* name() const override { return "plimsoll"; }

  Confidence sniff(std::span<const std::byte> head) const override {
    return format::has_magic(head) ? Confidence::kCertain : Confidence::kNo;
  }

  // An event of two bytes becomes a whole row of the model.
  std::uint64_t memory_factor() const override { return 48; }

  Status read(ByteSource& source, ReadContext& context) const override {
    Recording recording(context);
    Decoder decoder(recording);
    PLIMSOLL_TRY(read_pieces(source, context, decoder, recording));
    decoder.finish();
    PLIMSOLL_TRY(check_kind(decoder));
    if (recording.failure()) return *recording.failure();
    report_damage(decoder, context.diagnostics);
    if (!decoder.is_ended()) {
      report_end(recording, recording.last_event_ns(), decoder.damage(), context.diagnostics);
    }
    recording.attribute();
    if (context.builder.event_count() == 0)
      context.diagnostics.add(decoder.is_ended() ? kNoEvents : kNoEventsWritten);
    // If frees may be missing, an allocation ends no later than when another one takes its address.
    if (decoder.damage().blocks == 0) recording.pairs_known();
    return {};
  }
};

}  // namespace

std::unique_ptr<Reader> make() { return std::make_unique<NativeReader>(); }

}  // namespace plimsoll::readers::native
