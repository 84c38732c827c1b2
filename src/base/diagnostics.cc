#include "base/diagnostics.h"

namespace plimsoll::base {

const char* to_string(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "info";
    case Severity::kDataLoss:
      return "data_loss";
    case Severity::kError:
      return "error";
  }
  return "error";
}

void Diagnostics::add(const DiagnosticKind& kind, std::uint64_t count, std::string_view example) {
  if (count == 0) return;
  for (Diagnostic& known : all_) {
    if (known.kind == &kind) {
      if (__builtin_add_overflow(known.count, count, &known.count)) known.count = UINT64_MAX;
      return;
    }
  }
  all_.push_back(Diagnostic{&kind, count, std::string(example)});
}

void Diagnostics::append(const Diagnostics& others) {
  for (const Diagnostic& each : others.all_) add(*each.kind, each.count, each.first_example);
}

std::uint64_t Diagnostics::count(const DiagnosticKind& kind) const {
  for (const Diagnostic& known : all_) {
    if (known.kind == &kind) return known.count;
  }
  return 0;
}

}  // namespace plimsoll::base
