// What the command's exit status means. Scripts rely on these numbers.
#pragma once

#include "plimsoll/result.h"

namespace plimsoll::cli {

inline constexpr int kFine = 0;
inline constexpr int kFindingToFailOn = 1;  // one that --fail-on names
inline constexpr int kWrongUse = 2;
inline constexpr int kUnreadableInput = 3;
inline constexpr int kOurFault = 4;       // a bug, no memory, or the output could not be written
inline constexpr int kInterrupted = 130;  // Ctrl-C, as shells count it

// Of an error that opening a file or asking a question gave.
inline int exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return kWrongUse;
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
      return kOurFault;
  }
  return kOurFault;
}

}  // namespace plimsoll::cli
