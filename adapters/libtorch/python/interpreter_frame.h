// The interpreter's frames, by version of Python. The structs repeat the first members of those in
// CPython's internal headers (internal/pycore_frame.h), which are not always installed and do not
// compile as C++. The adapter is compiled for one version of Python and checked when it is loaded.
#pragma once

#include <Python.h>
#include <frameobject.h>

#include <cstdint>

#ifdef Py_GIL_DISABLED
#error "Plimsoll's adapter does not support a Python without the GIL."
#endif

namespace plimsoll::libtorch {

// A position in the program. The stack cache compares these two members.
struct PythonFrame {
  PyCodeObject* code;
  std::int64_t offset;  // in bytes, as PyCode_Addr2Line takes it
};

#if PY_VERSION_HEX < 0x030B0000  // 3.10: plain frame objects

using InterpreterFrame = PyFrameObject;

inline InterpreterFrame* innermost_frame(PyThreadState* thread) { return thread->frame; }
inline const void* const* position_of(PyThreadState* thread) {
  return reinterpret_cast<const void* const*>(&thread->frame);
}
inline InterpreterFrame* frame_at(const void* position) {
  return static_cast<InterpreterFrame*>(const_cast<void*>(position));
}
inline InterpreterFrame* frame_before(InterpreterFrame* frame) { return frame->f_back; }
inline bool read_frame(InterpreterFrame* frame, PythonFrame& read) {
  read = {frame->f_code, static_cast<std::int64_t>(frame->f_lasti) * 2};
  return true;
}

#else

struct InterpreterFrame {
#if PY_VERSION_HEX < 0x030C0000    // 3.11
  void *function, *globals, *builtins, *locals;
  PyCodeObject* code;
  void* frame_object;
  InterpreterFrame* previous;
  const void* instruction;
  int stack_top;
  bool is_entry;
  char owner;
#elif PY_VERSION_HEX < 0x030E0000  // 3.12, 3.13
  PyCodeObject* code;  // 3.13: or None, in frames that no Python code owns
  InterpreterFrame* previous;
  void *function, *globals, *builtins, *locals, *frame_object;
  const void* instruction;
  int stack_top;
  std::uint16_t return_offset;
  char owner;
#else
#error "Plimsoll's adapter does not support the frames of this Python yet."
#endif
};

inline constexpr char kOwnedByCStack = 3;  // the interpreter's entry, from 3.12 on

inline InterpreterFrame* innermost_frame(PyThreadState* thread) {
#if PY_VERSION_HEX < 0x030D0000
  return reinterpret_cast<InterpreterFrame*>(thread->cframe->current_frame);
#else
  return reinterpret_cast<InterpreterFrame*>(thread->current_frame);
#endif
}
#if PY_VERSION_HEX < 0x030D0000
// A run of the interpreter's loop: where it lies on the C stack, and the frame that it runs.
struct InterpreterLoop {
  const char* position = nullptr;  // null: there is none
  InterpreterFrame* frame = nullptr;
};
inline InterpreterLoop loop_at(const decltype(PyThreadState::cframe) at) {
  if (at == nullptr) return {};
  return {reinterpret_cast<const char*>(at),
          reinterpret_cast<InterpreterFrame*>(at->current_frame)};
}
inline InterpreterLoop innermost_loop(PyThreadState* thread) { return loop_at(thread->cframe); }
inline InterpreterLoop loop_outside(const InterpreterLoop& loop) {
  return loop_at(reinterpret_cast<const _PyCFrame*>(loop.position)->previous);
}
#endif
// A pointer that differs while Python code called from C runs.
inline const void* const* position_of(PyThreadState* thread) {
#if PY_VERSION_HEX < 0x030D0000
  return reinterpret_cast<const void* const*>(&thread->cframe);
#else
  return reinterpret_cast<const void* const*>(&thread->current_frame);
#endif
}
// The innermost frame at such a position.
inline InterpreterFrame* frame_at(const void* position) {
#if PY_VERSION_HEX < 0x030D0000
  const auto* at = static_cast<const decltype(PyThreadState::cframe)>(const_cast<void*>(position));
  return at == nullptr ? nullptr : reinterpret_cast<InterpreterFrame*>(at->current_frame);
#else
  return static_cast<InterpreterFrame*>(const_cast<void*>(position));
#endif
}
inline InterpreterFrame* frame_before(InterpreterFrame* frame) { return frame->previous; }

inline bool read_frame(InterpreterFrame* frame, PythonFrame& read) {
  if (frame->owner == kOwnedByCStack) return false;
  const auto* first = reinterpret_cast<const char*>(frame->code->co_code_adaptive);
  read = {frame->code, static_cast<const char*>(frame->instruction) - first};
  return true;
}

#endif

}  // namespace plimsoll::libtorch
