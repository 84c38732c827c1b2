// The meanings of the exit status. Scripts rely on these numbers.
#pragma once

#include "plimsoll/result.h"

namespace plimsoll::cli {

inline constexpr int kFine = 0;
inline constexpr int kFindingToFailOn = 1;  // --fail-on matched, or a budget is exceeded
inline constexpr int kUsageError = 2;
inline constexpr int kUnreadableInput = 3;
inline constexpr int kInternalError = 4;  // a bug, out of memory, or failed output
inline constexpr int kInterrupted = 130;  // Ctrl-C: 128 + SIGINT, as in shells

// The exit code for an error in opening a file or in a request.
inline int exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return kUsageError;
    case ErrorCode::kNotFound:
    case ErrorCode::kPermission:
    case ErrorCode::kIo:
    case ErrorCode::kUnsupported:
    case ErrorCode::kCorrupt:
    case ErrorCode::kUnsafe:
    case ErrorCode::kLimit:
      return kUnreadableInput;
    case ErrorCode::kInterrupted:
      return kInterrupted;
    case ErrorCode::kInternal:
      return kInternalError;
  }
  return kInternalError;
}

}  // namespace plimsoll::cli
