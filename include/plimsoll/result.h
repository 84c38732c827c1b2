// Expected failure as a value: Result<T> and Status. A small subset of std::expected, which the
// supported compilers lack. An Error has one sentence that a person can act on, with the numbers
// and the place.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace plimsoll {

enum class ErrorCode : std::uint8_t {
  kInvalidArgument,  // the caller requested something that does not exist
  kNotFound,         // no such file
  kPermission,       // the file may not be read or written
  kIo,               // reading or writing failed
  kUnsupported,      // an unknown format, or one that this build cannot read
  kCorrupt,          // data that violates its own format
  kUnsafe,           // data that would run code; Plimsoll never runs it
  kLimit,            // data that needs more memory than allowed
  kInterrupted,      // stopped by the user
  kInternal,         // a bug in Plimsoll
};

const char* to_string(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  const char* file = "";  // place in Plimsoll's source; for bug reports only
  int line = 0;
};

inline Error make_error(ErrorCode code, std::string message, const char* file = __builtin_FILE(),
                        int line = __builtin_LINE()) {
  return Error{code, std::move(message), file, line};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit, so that a function can return a value or an Error directly.
  explicit(false) Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  explicit(false) Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  // value() requires ok(), error() the opposite.
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  explicit(false) Status(Error error) : error_(std::move(error)), ok_(false) {}

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  Error& error() & { return error_; }
  const Error& error() const& { return error_; }
  Error&& error() && { return std::move(error_); }

 private:
  Error error_;
  bool ok_ = true;
};

}  // namespace plimsoll

// Returns the error of a failed Status or Result from the enclosing function.
#define PLIMSOLL_TRY(expression)                                       \
  do {                                                                 \
    if (auto plimsoll_try_result = (expression); !plimsoll_try_result) \
      return std::move(plimsoll_try_result).error();                   \
  } while (false)

#define PLIMSOLL_TRY_CONCAT_(a, b) a##b
#define PLIMSOLL_TRY_NAME_(line) PLIMSOLL_TRY_CONCAT_(plimsoll_try_, line)

// Assigns the value of a Result to `target`, which may be a declaration, or returns its error.
#define PLIMSOLL_TRY_ASSIGN(target, expression)                                              \
  auto PLIMSOLL_TRY_NAME_(__LINE__) = (expression);                                          \
  if (!PLIMSOLL_TRY_NAME_(__LINE__)) return std::move(PLIMSOLL_TRY_NAME_(__LINE__)).error(); \
  target = std::move(PLIMSOLL_TRY_NAME_(__LINE__)).value()
