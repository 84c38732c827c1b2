// Reads Python stacks without the GIL. This is safe because a thread's frames change only while
// that thread runs Python, and here it runs this code. Each frame retains its code object. A stack
// is identified by its (code, instruction) pairs. Their names and lines are resolved only once,
// under the GIL, at the end of the operator, while the frames still exist. From then on this file
// retains the code object, so that the pair keeps its meaning.
#include "python/frames.h"

#include <Python.h>
#include <frameobject.h>

#include <algorithm>
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
    // A hash of the names and lines of its frames, while not all of their code objects are
    // retained; else 0.
    std::uint64_t content = 0;
  };
  std::vector<Slot> slots = std::vector<Slot>(1024);
  std::vector<PythonFrame> frames;
  std::unordered_map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> by_stack;  // positions
  std::vector<std::uint32_t> undefined;  // stacks in slots that are not defined yet
  std::vector<Slot> waiting;
  std::size_t used = 0;
  std::unordered_set<PyCodeObject*> held;  // known to this thread
  std::vector<std::uint32_t> unheld;       // stacks with a content
  bool has_new_unheld = false;
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

std::uint64_t content_of(const PythonFrame* frames, std::size_t count);

// The slot of this chain; null: there is none.
StackCache::Slot* find_slot(StackCache& cache, const Chain& chain) {
  for (std::size_t at = chain.hash & (cache.slots.size() - 1); cache.slots[at].stack != 0;
       at = (at + 1) & (cache.slots.size() - 1)) {
    StackCache::Slot& slot = cache.slots[at];
    if (slot.hash == chain.hash && slot.count == chain.count &&
        std::memcmp(&cache.frames[slot.begin], chain.frames, chain.count * sizeof(PythonFrame)) ==
            0) {
      const bool is_same =
          slot.content == 0 || slot.content == content_of(chain.frames, chain.count);
      if (is_same) return &slot;
      slot.count = 0;  // a code object has died, and another has its address
    }
  }
  return nullptr;
}

std::uint32_t stack_of(ThreadState& thread, const Chain& chain) {
  if (chain.count == 0) return 0;
  StackCache& cache = cache_of(thread);
  const StackCache::Slot* const slot = find_slot(cache, chain);
  if (slot != nullptr) return slot->stack;
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

// The text in UTF-8. Needs no GIL: the object is immutable, and CPython's own function would add a
// copy to it. `buffer` keeps what is not ASCII.
std::string_view utf8_of(PyObject* text, std::string& buffer) {
  if (text == nullptr || PyUnicode_Check(text) == 0) return "?";
  const auto size = static_cast<std::size_t>(PyUnicode_GET_LENGTH(text));
  if (PyUnicode_IS_COMPACT_ASCII(text)) {
    return {static_cast<const char*>(PyUnicode_DATA(text)), size};
  }
  buffer.clear();
  for (std::size_t i = 0; i < size; ++i) {
    const Py_UCS4 c = PyUnicode_READ_CHAR(text, static_cast<Py_ssize_t>(i));
    if (c >= 0xD800 && c < 0xE000) return "?";  // half of a pair
    const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    constexpr Py_UCS4 kFirst[] = {0, 0xC0, 0xE0, 0xF0};
    buffer += static_cast<char>(kFirst[more] | c >> (6 * more));
    for (int left = more; left-- > 0;) {
      buffer += static_cast<char>(0x80U | (c >> (6 * left) & 0x3FU));
    }
  }
  return buffer;
}

std::uint32_t name_of(PyObject* text) {
  std::string buffer;
  const std::string_view bytes = utf8_of(text, buffer);
  return recorder().name(bytes.data(), bytes.size());
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
  std::string buffer;
  const std::string_view file = utf8_of(code->co_filename, buffer);
  return file == "<frozen runpy>" || file.ends_with("/runpy.py") ||
         (!runner_folder().empty() && file.starts_with(runner_folder()));
}

PyObject* g_notebook_cells = nullptr;

std::uint32_t file_of(PyCodeObject* code) {
  if (g_notebook_cells == nullptr) return name_of(code->co_filename);
  PyObject* number = PyDict_GetItemWithError(g_notebook_cells, code->co_filename);
  if (number == nullptr || PyLong_Check(number) == 0) {
    PyErr_Clear();
    return name_of(code->co_filename);
  }
  char cell[32];
  const int size = std::snprintf(cell, sizeof(cell), "In[%ld]", PyLong_AsLong(number));
  PyErr_Clear();  // a number that no notebook cell has
  return recorder().name(cell, static_cast<std::size_t>(size));
}

PyObject* function_of(const PyCodeObject* code) {
#if PY_VERSION_HEX >= 0x030B0000
  return code->co_qualname;
#else
  return code->co_name;
#endif
}

std::uint32_t line_of(const PythonFrame& frame) {
  const int line = PyCode_Addr2Line(frame.code, static_cast<int>(frame.offset));
  return line > 0 ? static_cast<std::uint32_t>(line) : 0;
}

plimsoll_frame describe(const PythonFrame& frame) {
  return {.file = file_of(frame.code),
          .function = name_of(function_of(frame.code)),
          .line = line_of(frame)};
}

// `is_new`: whether a code object has not been met before.
template <typename IsNew>
void define_one(const StackCache& cache, const StackCache::Slot& slot, IsNew&& is_new) {
  plimsoll_frame reported[kMaxDepth];
  std::size_t count = slot.count;
  while (count > 1 && is_runner(cache.frames[slot.begin + count - 1].code)) --count;
  for (std::size_t i = 0; i < slot.count; ++i) {
    PyCodeObject* code = cache.frames[slot.begin + i].code;
    const bool is_code_new = is_new(code);
    if (i >= count) continue;
    reported[i] = describe(cache.frames[slot.begin + i]);
    const int first_line = code->co_firstlineno;
    if (!is_code_new || first_line <= 0) continue;
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
  for (const StackCache::Slot& slot : thread.stacks->waiting)
    define_one(*thread.stacks, slot, hold);
  thread.stacks->waiting.clear();
  PyErr_Restore(type, value, traceback);
  PyGILState_Release(gil);
}

// ---- Python that an autograd node runs --------------------------------------------------------

const void* const* position() {
  PyThreadState* python = PyGILState_GetThisThreadState();
  return python == nullptr ? nullptr : position_of(python);
}

// Adds the frames of a forward's stack that this thread has captured. Returns false if it has not.
bool add_forward(ThreadState& thread, std::uint32_t of_forward, Chain& chain) {
  if (of_forward == 0) return true;
  const StackCache& cache = cache_of(thread);
  const auto found = cache.by_stack.find(of_forward);
  const bool is_unheld = std::ranges::find(cache.unheld, of_forward) != cache.unheld.end();
  if (found == cache.by_stack.end() || is_unheld) return false;
  const auto [begin, count] = found->second;
  for (std::uint32_t i = 0; i < count && chain.count < kMaxDepth; ++i) {
    chain.add(cache.frames[begin + i]);
  }
  return true;
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
  if (!add_forward(thread, of_forward, chain)) return of_forward;
  const std::uint32_t stack = stack_of(thread, chain);
  if (!is_called && thread.has_new_stacks) define(thread);
  return stack;
} catch (const std::exception&) {
  count_lost_detail();
  return thread.context->stack;
}

// ---- without the GIL --------------------------------------------------------------------------

std::uint64_t content_of(const PythonFrame* frames, std::size_t count) {
  std::uint64_t hash = count;
  std::string buffer;
  const auto mix = [&](std::uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 29U;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const PyCodeObject* const code = frames[i].code;
    mix(std::hash<std::string_view>{}(utf8_of(code->co_filename, buffer)));
    mix(std::hash<std::string_view>{}(utf8_of(function_of(code), buffer)));
    mix(static_cast<std::uint64_t>(code->co_firstlineno) << 32U | line_of(frames[i]));
  }
  return hash | 1U;
}

bool are_held(const StackCache& cache, const PythonFrame* frames, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!cache.held.contains(frames[i].code)) return false;
  }
  return true;
}

// After the interpreter's current instruction, with the GIL, in the main thread.
int hold_seen_code_soon(void* /*unused*/) {
  if (is_attached() && t_state != nullptr) hold_seen_code(*t_state);
  return 0;
}

std::uint32_t stack_without_gil(ThreadState& thread, const Chain& chain) {
  if (chain.count == 0) return 0;
  StackCache& cache = cache_of(thread);
  StackCache::Slot* slot = find_slot(cache, chain);
  if (slot != nullptr) return slot->stack;
  remember(thread, cache, chain.frames, chain.count, chain.hash);
  slot = find_slot(cache, chain);
  define_one(cache, *slot, [&](PyCodeObject* code) { return !cache.held.contains(code); });
  cache.waiting.clear();
  thread.has_new_stacks = false;
  if (are_held(cache, chain.frames, chain.count)) return slot->stack;
  slot->content = content_of(chain.frames, chain.count);
  cache.unheld.push_back(slot->stack);
  if (!std::exchange(cache.has_new_unheld, true)) Py_AddPendingCall(hold_seen_code_soon, nullptr);
  return slot->stack;
}

}  // namespace

std::uint32_t capture_without_gil(ThreadState& thread, const void* frame) noexcept try {
  Chain chain;
  chain.add_all(static_cast<InterpreterFrame*>(const_cast<void*>(frame)), nullptr);
  return stack_without_gil(thread, chain);
} catch (const std::exception&) {
  count_lost_detail();
  return 0;
}

std::uint32_t capture_in_node_without_gil(ThreadState& thread, std::uint32_t of_forward,
                                          const void* outside) noexcept try {
  PyThreadState* python = PyGILState_GetThisThreadState();
  if (python == nullptr) return of_forward;
  Chain chain;
  chain.add_all(innermost_frame(python),
                of_forward == 0 ? nullptr : static_cast<const InterpreterFrame*>(outside));
  return add_forward(thread, of_forward, chain) ? stack_without_gil(thread, chain) : of_forward;
} catch (const std::exception&) {
  count_lost_detail();
  return of_forward;
}

void hold_seen_code(ThreadState& thread) noexcept try {
  StackCache* const cache = thread.stacks;
  if (cache == nullptr || !std::exchange(cache->has_new_unheld, false) || is_finalizing()) return;
  PyThreadState* python = PyGILState_GetThisThreadState();
  if (python == nullptr) return;
  for (InterpreterFrame* each = innermost_frame(python); each != nullptr;
       each = frame_before(each)) {
    PythonFrame frame{};
    if (!read_frame(each, frame)) continue;
    hold(frame.code);
    cache->held.insert(frame.code);
  }
  // What a code object's address means is certain only from now on: its names must be the same.
  std::erase_if(cache->unheld, [&](std::uint32_t stack) {
    const auto [begin, count] = cache->by_stack.at(stack);
    const PythonFrame* const frames = &cache->frames[begin];
    if (!are_held(*cache, frames, count)) return false;
    Chain chain;
    for (std::uint32_t i = 0; i < count; ++i) chain.add(frames[i]);
    StackCache::Slot* const slot = find_slot(*cache, chain);
    const bool is_same = slot != nullptr && slot->stack == stack;
    is_same ? void(slot->content = 0) : void(cache->by_stack.erase(stack));
    return true;
  });
} catch (const std::exception&) {
  count_lost_detail();
}

const StackSource& python_stacks() {
  static constexpr StackSource kStacks = {.capture = capture,
                                          .capture_in_node = capture_in_node,
                                          .position = position,
                                          .define = define};
  return kStacks;
}

void set_runner_folder(const char* path) { runner_folder() = path; }

bool is_own_code(const PyCodeObject* code) {
  std::string buffer;
  return !runner_folder().empty() &&
         utf8_of(code->co_filename, buffer).starts_with(runner_folder());
}

void set_notebook_cells(PyObject* cells) {
  Py_XINCREF(cells);
  Py_XSETREF(g_notebook_cells, cells);
}

}  // namespace plimsoll::libtorch
