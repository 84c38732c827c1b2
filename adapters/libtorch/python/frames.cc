// Reads Python stacks without the GIL. This is safe because a thread's frames change only while
// that thread runs Python, and here it runs this code. Each frame retains its code object. A stack
// is identified by its (code, instruction) pairs. Their names and lines are resolved only once,
// under the GIL, at the end of the operator, while the frames still exist. From then on this file
// retains the code object, so that the pair keeps its meaning.
#include "python/frames.h"

#include <Python.h>
#include <frameobject.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "python/interpreter_frame.h"
#include "python/objects.h"
#include "thread_state.h"

namespace plimsoll::libtorch {

// Stacks that this thread has seen: open addressing over chains of frames, stored consecutively.
struct StackCache {
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t begin = 0;  // position in `frames`
    std::uint32_t count = 0;
    std::uint32_t stack = 0;  // 0: empty slot
  };
  std::vector<Slot> slots = std::vector<Slot>(1024);
  std::vector<PythonFrame> frames;
  std::unordered_map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> by_stack;  // positions
  std::vector<std::uint32_t> undefined;  // stacks in slots that are not defined yet
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
  cache.by_stack.emplace(slot.stack, std::pair{slot.begin, slot.count});
  ++cache.used;
  thread.has_new_stacks = true;
  return slot.stack;
}

// A chain of frames, innermost first.
struct Chain {
  PythonFrame frames[kMaxDepth];
  std::size_t count = 0;
  std::uint64_t hash = 0;

  static std::uint64_t mixed(std::uint64_t hash, const PythonFrame& frame) {
    hash = (hash ^ reinterpret_cast<std::uintptr_t>(frame.code) ^
            static_cast<std::uint64_t>(frame.offset) << 44U) *
           0x9E3779B97F4A7C15U;
    return hash ^ hash >> 29U;
  }
  void add(const PythonFrame& frame) {
    hash = mixed(hash, frame);
    frames[count++] = frame;
  }
  // The frames from `frame` on, up to `end`; null: all.
  void add_all(InterpreterFrame* frame, const InterpreterFrame* end) {
    std::size_t size = count;
    std::uint64_t mix = hash;  // both stay in registers: a hot loop
    for (; frame != nullptr && frame != end && size < kMaxDepth; frame = frame_before(frame)) {
      if (!read_frame(frame, frames[size])) continue;
      mix = mixed(mix, frames[size++]);
    }
    count = size;
    hash = mix;
  }
};

StackCache& cache_of(ThreadState& thread) {
  if (thread.stacks == nullptr) {
    auto cache = std::make_shared<StackCache>();
    thread.stacks = cache.get();
    thread.stacks_owner = std::move(cache);
  }
  return *thread.stacks;
}

std::uint32_t stack_of(ThreadState& thread, const Chain& chain) {
  if (chain.count == 0) return 0;
  StackCache& cache = cache_of(thread);
  for (std::size_t at = chain.hash & (cache.slots.size() - 1); cache.slots[at].stack != 0;
       at = (at + 1) & (cache.slots.size() - 1)) {
    const StackCache::Slot& slot = cache.slots[at];
    if (slot.hash == chain.hash && slot.count == chain.count &&
        std::memcmp(&cache.frames[slot.begin], chain.frames, chain.count * sizeof(PythonFrame)) ==
            0) {
      return slot.stack;
    }
  }
  return remember(thread, cache, chain.frames, chain.count, chain.hash);
}

std::uint32_t capture(ThreadState& thread) noexcept try {
  PyThreadState* python = PyGILState_GetThisThreadState();
  if (python == nullptr) return 0;
  // Outside an operator there is no later point at which the frames still exist.
  if (thread.context->op_instance == 0 && PyGILState_Check() == 0) return 0;
  Chain chain;
  chain.add_all(innermost_frame(python), nullptr);
  return stack_of(thread, chain);
} catch (const std::exception&) {
  count_lost_detail();
  return 0;
}

// ---- names and lines of frames; all under the GIL ---------------------------------------------

std::uint32_t name_of(PyObject* text) {
  Py_ssize_t size = 0;
  const char* bytes = text == nullptr ? nullptr : PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr) {
    PyErr_Clear();
    return recorder().name("?", 1);
  }
  return recorder().name(bytes, static_cast<std::size_t>(size));
}

// Retains the code object for good, and returns whether it is new. If there is no memory to note
// this, it is retained once more each time.
bool hold(PyCodeObject* code) noexcept try {
  static Immortal<std::unordered_set<PyCodeObject*>> held;
  const bool is_new = held.get().insert(code).second;
  if (is_new) Py_INCREF(code);
  return is_new;
} catch (const std::exception&) {
  Py_INCREF(code);
  return true;
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
  PyErr_Clear();  // a number that no notebook cell has
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
  plimsoll_frame reported[kMaxDepth];
  std::size_t count = slot.count;
  while (count > 1 && is_runner(cache.frames[slot.begin + count - 1].code)) --count;
  for (std::size_t i = 0; i < slot.count; ++i) {
    PyCodeObject* code = cache.frames[slot.begin + i].code;
    const bool is_new = hold(code);
    if (i >= count) continue;
    reported[i] = describe(cache.frames[slot.begin + i]);
    const int first_line = code->co_firstlineno;
    if (!is_new || first_line <= 0) continue;
    recorder().function(reported[i].file, reported[i].function,
                        static_cast<std::uint32_t>(first_line));
  }
  recorder().define_stack(slot.stack, reported, count);
}

// Nothing may throw here, or the GIL would never be released.
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

// ---- Python that an autograd node runs --------------------------------------------------------

const void* const* position() {
  PyThreadState* python = PyGILState_GetThisThreadState();
  return python == nullptr ? nullptr : position_of(python);
}

// The line is the hook's if it is the user's code, else the forward's. Only the thread that ran the
// forward knows its frames; another thread reports the hook's frames alone.
std::uint32_t capture_in_node(ThreadState& thread) noexcept try {
  const std::uint32_t of_forward = thread.context->stack;
  // No operator runs in between: as outside one, the stack is defined immediately.
  const bool is_called = thread.depth > thread.nodes.back().depth + 1;
  if (!is_called && PyGILState_Check() == 0) return of_forward;
  Chain chain;
  const void* const outside = thread.nodes.back().python_position;
  chain.add_all(frame_at(thread.python_position()), of_forward == 0 ? nullptr : frame_at(outside));
  if (of_forward != 0) {
    const StackCache& cache = cache_of(thread);
    const auto found = cache.by_stack.find(of_forward);
    if (found == cache.by_stack.end()) return of_forward;
    const auto [begin, count] = found->second;
    for (std::uint32_t i = 0; i < count && chain.count < kMaxDepth; ++i) {
      chain.add(cache.frames[begin + i]);
    }
  }
  const std::uint32_t stack = stack_of(thread, chain);
  if (!is_called && thread.has_new_stacks) define(thread);
  return stack;
} catch (const std::exception&) {
  count_lost_detail();
  return thread.context->stack;
}

}  // namespace

const StackSource& python_stacks() {
  static constexpr StackSource kStacks = {.capture = capture,
                                          .capture_in_node = capture_in_node,
                                          .position = position,
                                          .define = define};
  return kStacks;
}

void set_runner_folder(const char* path) { runner_folder() = path; }

bool is_own_code(const PyCodeObject* code) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(code->co_filename, &size);
  if (bytes == nullptr) PyErr_Clear();
  return bytes != nullptr && !runner_folder().empty() &&
         std::string_view(bytes, static_cast<std::size_t>(size)).starts_with(runner_folder());
}

void set_notebook_cells(PyObject* cells) {
  Py_XINCREF(cells);
  Py_XSETREF(g_notebook_cells, cells);
}

}  // namespace plimsoll::libtorch
