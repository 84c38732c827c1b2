// Why this is safe without the GIL: a thread's frames change only while that thread runs Python,
// and here it runs us. Each frame holds its code object. A stack is known by its (code,
// instruction) pairs; what they mean in names and lines is asked once, under the GIL, at the end of
// the operator, while the frames still stand. From then on we hold the code object, so that the
// pair means the same for ever.
#include "python_frames.h"

#include <Python.h>
#include <frameobject.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "python_interpreter_frame.h"
#include "python_objects.h"
#include "thread_state.h"

namespace plimsoll::libtorch {

// Stacks this thread has met: open addressing over chains of frames, which lie one after another.
struct StackCache {
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t begin = 0;  // in frames
    std::uint32_t count = 0;
    std::uint32_t stack = 0;  // 0: empty slot
  };
  std::vector<Slot> slots = std::vector<Slot>(1024);
  std::vector<PythonFrame> frames;
  std::vector<std::uint32_t> undefined;  // slots' stacks that the recorder awaits
  std::vector<Slot> waiting;
  std::size_t used = 0;
};

namespace {

constexpr std::size_t kMaxDepth = 64;

std::string& runner_folder() {
  static Immortal<std::string> path;
  return path.get();
}

void insert(std::vector<StackCache::Slot>& slots, const StackCache::Slot& slot) {
  std::size_t at = slot.hash & (slots.size() - 1);
  while (slots[at].stack != 0) at = (at + 1) & (slots.size() - 1);
  slots[at] = slot;
}

[[gnu::noinline]] std::uint32_t remember(ThreadState& thread, StackCache& cache,
                                         const PythonFrame* frames, std::size_t count,
                                         std::uint64_t hash) {
  if (cache.used * 2 >= cache.slots.size()) {
    std::vector<StackCache::Slot> wider(cache.slots.size() * 2);
    for (const StackCache::Slot& slot : cache.slots) {
      if (slot.stack != 0) insert(wider, slot);
    }
    cache.slots.swap(wider);
  }
  const StackCache::Slot slot{.hash = hash,
                              .begin = static_cast<std::uint32_t>(cache.frames.size()),
                              .count = static_cast<std::uint32_t>(count),
                              .stack = recorder().reserve_stack()};
  cache.frames.insert(cache.frames.end(), frames, frames + count);
  cache.waiting.push_back(slot);
  insert(cache.slots, slot);
  ++cache.used;
  thread.has_new_stacks = true;
  return slot.stack;
}

std::uint32_t capture_or_throw(ThreadState& thread) {
  PyThreadState* python = PyGILState_GetThisThreadState();
  if (python == nullptr) return 0;
  // Outside an operator there is no later moment at which the frames still stand.
  if (thread.context->op_instance == 0 && PyGILState_Check() == 0) return 0;
  PythonFrame frames[kMaxDepth];
  std::size_t count = 0;
  std::uint64_t hash = 0;
  for (InterpreterFrame* frame = innermost_frame(python); frame != nullptr && count < kMaxDepth;
       frame = frame_before(frame)) {
    if (!read_frame(frame, frames[count])) continue;
    hash = (hash ^ reinterpret_cast<std::uintptr_t>(frames[count].code) ^
            static_cast<std::uint64_t>(frames[count].offset) << 44U) *
           0x9E3779B97F4A7C15U;
    hash ^= hash >> 29U;
    ++count;
  }
  if (count == 0) return 0;
  if (thread.stacks == nullptr) {
    auto cache = std::make_shared<StackCache>();
    thread.stacks = cache.get();
    thread.stacks_owner = std::move(cache);
  }
  StackCache& cache = *thread.stacks;
  for (std::size_t at = hash & (cache.slots.size() - 1); cache.slots[at].stack != 0;
       at = (at + 1) & (cache.slots.size() - 1)) {
    const StackCache::Slot& slot = cache.slots[at];
    if (slot.hash == hash && slot.count == count &&
        std::memcmp(&cache.frames[slot.begin], frames, count * sizeof(PythonFrame)) == 0) {
      return slot.stack;
    }
  }
  return remember(thread, cache, frames, count, hash);
}

std::uint32_t capture(ThreadState& thread) noexcept try {
  return capture_or_throw(thread);
} catch (const std::exception&) {
  count_lost_detail();
  return 0;
}

// ---- what frames mean; all of it under the GIL ------------------------------------------------

std::uint32_t name_of(PyObject* text) {
  Py_ssize_t size = 0;
  const char* bytes = text == nullptr ? nullptr : PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr) {
    PyErr_Clear();
    return recorder().name("?", 1);
  }
  return recorder().name(bytes, static_cast<std::size_t>(size));
}

// Without memory to remember it, it is held once more.
void hold(PyCodeObject* code) noexcept try {
  static Immortal<std::unordered_set<PyCodeObject*>> held;
  if (held.get().insert(code).second) Py_INCREF(code);
} catch (const std::exception&) {
  Py_INCREF(code);
}

bool is_runner(PyCodeObject* code) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(code->co_filename, &size);
  if (bytes == nullptr) {
    PyErr_Clear();
    return false;
  }
  const std::string_view file(bytes, static_cast<std::size_t>(size));
  return file == "<frozen runpy>" || file.ends_with("/runpy.py") ||
         (!runner_folder().empty() && file.starts_with(runner_folder()));
}

PyObject* g_notebook_cells = nullptr;

std::uint32_t file_of(PyCodeObject* code) {
  PyObject* number = g_notebook_cells == nullptr
                         ? nullptr
                         : PyDict_GetItemWithError(g_notebook_cells, code->co_filename);
  if (number == nullptr || PyLong_Check(number) == 0) {
    PyErr_Clear();
    return name_of(code->co_filename);
  }
  char cell[32];
  const int size = std::snprintf(cell, sizeof(cell), "In[%ld]", PyLong_AsLong(number));
  PyErr_Clear();  // a number that no notebook has
  return recorder().name(cell, static_cast<std::size_t>(size));
}

plimsoll_frame describe(const PythonFrame& frame) {
#if PY_VERSION_HEX >= 0x030B0000
  PyObject* function = frame.code->co_qualname;
#else
  PyObject* function = frame.code->co_name;
#endif
  const int line = PyCode_Addr2Line(frame.code, static_cast<int>(frame.offset));
  return {.file = file_of(frame.code),
          .function = name_of(function),
          .line = line > 0 ? static_cast<std::uint32_t>(line) : 0};
}

void define_one(const StackCache& cache, const StackCache::Slot& slot) {
  plimsoll_frame told[kMaxDepth];
  std::size_t count = slot.count;
  for (std::size_t i = 0; i < slot.count; ++i) hold(cache.frames[slot.begin + i].code);
  while (count > 1 && is_runner(cache.frames[slot.begin + count - 1].code)) --count;
  for (std::size_t i = 0; i < count; ++i) told[i] = describe(cache.frames[slot.begin + i]);
  recorder().define_stack(slot.stack, told, count);
}

// Nothing may throw here, or the GIL would be held for ever.
void define(ThreadState& thread) noexcept {
  thread.has_new_stacks = false;
  if (thread.stacks == nullptr) return;
  if (is_finalizing()) {
    thread.stacks->waiting.clear();
    return;
  }
  const PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  for (const StackCache::Slot& slot : thread.stacks->waiting) define_one(*thread.stacks, slot);
  thread.stacks->waiting.clear();
  PyErr_Restore(type, value, traceback);
  PyGILState_Release(gil);
}

}  // namespace

StackSource python_stacks() { return {.capture = capture, .define = define}; }

void set_runner_folder(const char* path) { runner_folder() = path; }

void set_notebook_cells(PyObject* cells) {
  Py_XINCREF(cells);
  Py_XSETREF(g_notebook_cells, cells);
}

}  // namespace plimsoll::libtorch
