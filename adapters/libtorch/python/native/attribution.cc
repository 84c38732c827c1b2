#include "python/native/attribution.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <dlfcn.h>
#include <pthread.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/python_function.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <unordered_map>

#include "autograd_nodes.h"
#include "gathered_parameters.h"
#include "operators.h"
#include "python/frames.h"
#include "python/interpreter_frame.h"
#include "python/modules.h"
#include "python/native/chains.h"
#include "python/native/patched_words.h"
#include "python/objects.h"

#if defined(__x86_64__) && PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030D0000
#define PLIMSOLL_HAS_NATIVE_ATTRIBUTION
#endif

namespace plimsoll::libtorch {

#ifdef PLIMSOLL_HAS_NATIVE_ATTRIBUTION

using torch::autograd::AccumulateGrad;

namespace {

struct NodeName {
  std::uint32_t id = 0;
  std::uint32_t forward = 0;  // of a Python autograd.Function
};

// An autograd.Function or another function that has built a node outside every operator. Until it
// returns, it hides autograd from the operators that it runs.
struct RunningFunction {
  RunningOperator call;
  std::uint32_t name = 0;
  std::uint8_t autograd = PLIMSOLL_AUTOGRAD_UNKNOWN;
};

// A node that runs another backward, and its context.
struct OuterNode {
  RunningOperator running;
  plimsoll_context context;
};

}  // namespace

// What the native attribution knows about a thread.
struct NativeThread {
  NativeChains chains;
  const char* stack_begin = nullptr;
  const char* stack_end = nullptr;
  RunningFunction function;
  std::vector<OuterNode> outer_nodes;
  std::unordered_map<const void*, NodeName> node_names;  // by virtual function table
  const void* last_node_type = nullptr;
  NodeName last_node_name;

  // Fibers run on other memory, which may be gone when they end.
  bool is_on_stack(const char* base) const { return base >= stack_begin && base < stack_end; }
};

namespace {

NativeThread& native_thread(ThreadState& thread) {
  if (thread.native != nullptr) [[likely]]
    return *thread.native;
  auto made = std::make_shared<NativeThread>();
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    void* begin = nullptr;
    std::size_t size = 0;
    pthread_attr_getstack(&attributes, &begin, &size);
    pthread_attr_destroy(&attributes);
    made->stack_begin = static_cast<const char*>(begin);
    made->stack_end = made->stack_begin + size;
  }
  thread.native = made.get();
  thread.native_owner = std::move(made);
  return *thread.native;
}

// ---- Python code --------------------------------------------------------------------------------

// The Python code that has called a function of the C stack.
struct PythonPlace {
  const InterpreterFrame* frame = nullptr;
  const void* instruction = nullptr;
  bool operator==(const PythonPlace&) const = default;
};

// A sum over what the frame's variables and operands refer to. Only its own code changes them, so
// while it has called something, the sum stays the same. Of two calls by one instruction, the sums
// differ, unless all variables and operands are the same objects.
std::uint64_t values_of(const void* at) {
  const auto* const frame = static_cast<const InterpreterFrame*>(at);
  if (frame == nullptr) return 0;
  const auto* const words = reinterpret_cast<const std::uint64_t*>(frame + 1);
  const int count = frame->code->co_nlocalsplus + frame->code->co_stacksize;
  std::uint64_t even = 0, odd = 0;
  int i = 0;
  for (; i + 1 < count; i += 2) {
    even += words[i];
    odd += words[i + 1];
  }
  if (i < count) even += words[i];
  return even * 3 + odd;
}

PythonPlace place_of(const InterpreterLoop& loop) {
  if (loop.frame == nullptr) return {};
  return {loop.frame, loop.frame->instruction};
}

InterpreterLoop running_loop() {
  PyThreadState* const python = PyGILState_GetThisThreadState();
  return python == nullptr ? InterpreterLoop{} : innermost_loop(python);
}

// The code outside of this address of the stack.
PythonPlace place_outside(const char* address) {
  InterpreterLoop loop = running_loop();
  while (loop.frame != nullptr && loop.position < address) loop = loop_outside(loop);
  return place_of(loop);
}

// torch's Python code calls an operator by its handle, an object that it calls. Such a call has no
// function of at::_ops, so the slots of the handles' types are replaced, as those of modules are
// (calls.cc), to learn the name of each handle with the GIL.
struct HandleType {
  const char* type_name;
  const char* name_attribute;
  PyTypeObject* type = nullptr;
  const PyCodeObject* code = nullptr;  // of its __call__
  ternaryfunc original = nullptr;
};
HandleType g_handle_types[] = {{"OpOverload", "_name"},
                               {"TorchBindOpOverload", "_name"},
                               {"OpOverloadPacket", "_qualified_op_name"}};

enum class UserScopeCall : std::uint8_t { kNone, kBegin, kEnd };
struct Handle {
  std::uint32_t name = 0;
  UserScopeCall scope = UserScopeCall::kNone;
};
using Handles = std::unordered_map<const PyObject*, Handle>;
thread_local Handles* t_handles [[gnu::tls_model("initial-exec")]] = nullptr;

Handle read_handle(PyObject* handle, const char* attribute) {
  const Reference text = Reference::steal(PyObject_GetAttrString(handle, attribute));
  if (!text || PyUnicode_Check(text.get()) == 0) {
    PyErr_Clear();
    return {};
  }
  std::string name = text_of(text.get());
  const auto overload = name.find('.', name.find("::"));
  if (overload != std::string::npos) name.resize(overload);
  Handle read{.name = recorder().name(name.data(), name.size())};
  if (name == "profiler::_record_function_enter_new") read.scope = UserScopeCall::kBegin;
  if (name == "profiler::_record_function_exit") read.scope = UserScopeCall::kEnd;
  return read;
}

Handle learn_handle(PyObject* self, const HandleType& type) noexcept try {
  if (t_handles == nullptr) t_handles = new Handles;  // as long as the process lives
  const auto [entry, is_new] = t_handles->try_emplace(self);
  if (is_new) {
    Py_INCREF(self);  // for good: another handle must not get its address
    entry->second = read_handle(self, type.name_attribute);
  }
  return entry->second;
} catch (const std::exception&) {
  count_lost_detail();
  return {};
}

PyObject* watched_handle_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  for (const HandleType& each : g_handle_types) {
    if (each.type == nullptr || PyType_IsSubtype(Py_TYPE(self), each.type) == 0) continue;
    if (!g_attachment.has_scopes_of_python || !is_attached() || !g_attachment.has_operators) {
      return each.original(self, args, kwargs);
    }
    const UserScopeCall scope = learn_handle(self, each).scope;
    PyObject* const first = PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : nullptr;
    if (scope == UserScopeCall::kEnd) end_user_scope(first);
    PyObject* const result = each.original(self, args, kwargs);
    const bool begins = scope == UserScopeCall::kBegin && result != nullptr && first != nullptr;
    if (begins && PyUnicode_Check(first) != 0) begin_user_scope(result, text_of(first));
    return result;
  }
  return PyType_Type.tp_call(self, args, kwargs);  // never
}

PyCodeObject* g_apply = nullptr;  // of autograd.Function.apply(cls, ...)

void find_python_code() {
  const Reference module = Reference::steal(PyImport_ImportModule("torch._ops"));
  for (HandleType& each : g_handle_types) {
    if (!module) break;
    Reference type = Reference::steal(PyObject_GetAttrString(module.get(), each.type_name));
    if (!type || PyType_Check(type.get()) == 0) continue;
    const Reference call = Reference::steal(PyObject_GetAttrString(type.get(), "__call__"));
    if (!call || PyFunction_Check(call.get()) == 0) continue;
    each.code = reinterpret_cast<PyCodeObject*>(PyFunction_GetCode(call.get()));
    Py_INCREF(type.get());  // for good
    each.type = reinterpret_cast<PyTypeObject*>(type.get());
  }
  const Reference functions = Reference::steal(PyImport_ImportModule("torch.autograd.function"));
  const Reference type =
      Reference::steal(functions ? PyObject_GetAttrString(functions.get(), "Function") : nullptr);
  const Reference apply =
      Reference::steal(type ? PyObject_GetAttrString(type.get(), "apply") : nullptr);
  if (apply && PyMethod_Check(apply.get()) != 0 &&
      PyFunction_Check(PyMethod_GET_FUNCTION(apply.get()))) {
    g_apply =
        reinterpret_cast<PyCodeObject*>(PyFunction_GetCode(PyMethod_GET_FUNCTION(apply.get())));
  }
  PyErr_Clear();
}

void watch_handles() {
  for (HandleType& each : g_handle_types) {
    if (each.type == nullptr || each.type->tp_call == watched_handle_call) continue;
    each.original = each.type->tp_call;
    each.type->tp_call = watched_handle_call;
  }
}

void stop_watching_handles() {
  for (HandleType& each : g_handle_types) {
    if (each.type != nullptr && each.type->tp_call == watched_handle_call) {
      each.type->tp_call = each.original;
    }
  }
}

// The name of the autograd.Function that this frame applies; 0: none.
std::uint32_t applied_function(ThreadState& thread, const InterpreterFrame* frame) {
  if (frame == nullptr || g_apply == nullptr || frame->code != g_apply) return 0;
  PyObject* const type = *reinterpret_cast<PyObject* const*>(frame + 1);  // the first argument
  if (type == nullptr || PyType_Check(type) == 0) return 0;
  return thread.names.find_text(reinterpret_cast<PyTypeObject*>(type)->tp_name).id;
}

// The operator whose handle this frame calls; 0: none.
std::uint32_t called_handle(const void* at) {
  const auto* const frame = static_cast<const InterpreterFrame*>(at);
  const auto is_of = [&](const HandleType& type) { return frame->code == type.code; };
  const bool is_call = frame != nullptr && std::ranges::any_of(g_handle_types, is_of);
  if (!is_call || t_handles == nullptr) [[likely]]
    return 0;
  const auto* const self = *reinterpret_cast<PyObject* const*>(frame + 1);  // the first argument
  const auto found = t_handles->find(self);
  return found == t_handles->end() ? 0 : found->second.name;
}

// ---- autograd -----------------------------------------------------------------------------------

// A Python node's class may die, so its name is looked up each time. Node::name() would take the
// GIL for it.
NodeName name_of(ThreadState& thread, const torch::autograd::Node& node) {
  NativeThread& own = *thread.native;
  const void* type = *reinterpret_cast<const void* const*>(&node);
  if (type == own.last_node_type) return own.last_node_name;
  const auto found = own.node_names.find(type);
  NodeName name;
  if (found != own.node_names.end()) {
    name = found->second;
  } else if (std::strcmp(typeid(node).name(), "N5torch8autograd6PyNodeE") == 0) {
    const PyObject* object = static_cast<const torch::autograd::PyNode&>(node).pyobj();
    if (object == nullptr) return {};
    const std::string_view text = Py_TYPE(object)->tp_name;
    constexpr std::string_view kBackward = "Backward";
    name.id = thread.names.find_text(text).id;
    if (text.ends_with(kBackward)) {
      name.forward = thread.names.find_text(text.substr(0, text.size() - kBackward.size())).id;
    }
    return name;
  } else {
    name.id = thread.names.find_text(node.name()).id;
    own.node_names.emplace(type, name);
  }
  own.last_node_type = type;
  own.last_node_name = name;
  return name;
}

void describe_node(ThreadState& thread, const torch::autograd::Node& node) {
  is_in_backward(thread);  // marks its begin
  plimsoll_context& context = *thread.context;
  const NodeName name = name_of(thread, node);
  const ForwardSite site = site_of(thread, node);
  context.outer_op = name.id;
  context.forward_op = site.op != 0 ? site.op : name.forward;
  context.layer = site.layer;
  context.stack = thread.running.node_stack = site.stack;
  context.phase = PLIMSOLL_PHASE_BACKWARD;
  context.autograd = PLIMSOLL_AUTOGRAD_UNKNOWN;
}

// ---- operators ----------------------------------------------------------------------------------

bool is_below_anchor(const RunningOperator& running, const NativeThread& own, const char* base) {
  if (running.anchor == nullptr || base >= running.anchor || !own.is_on_stack(base)) return false;
  return *reinterpret_cast<const volatile std::uint64_t*>(running.anchor) == running.anchor_value;
}

// Whether the call of this operator has not returned. Below its anchor, a word can be overwritten
// only by its own calls. If the anchor contains the same address again, another operator may run,
// but then its Python code has gone on.
bool still_runs(const RunningOperator& running, const NativeThread& own, const char* base) {
  if (!is_below_anchor(running, own, base)) return false;
  if (running.node != nullptr) {
    return torch::autograd::get_current_node().get() == running.node;
  }
  const PythonPlace place = place_outside(running.anchor);
  return place.frame == running.frame && place.instruction == running.instruction &&
         values_of(place.frame) == running.values;
}

bool is_plain_forward(const ThreadState& thread) {
  const std::uint8_t phase =
      thread.running.is_described ? thread.phase_outside : thread.context->phase;
  return thread.module_depth != 0 && phase == PLIMSOLL_PHASE_FORWARD;
}

// After a backward inside a node, the context is that of the node again. Returns false if there is
// no such node.
bool return_to_outer_node(ThreadState& thread, const char* base) {
  std::vector<OuterNode>& nodes = thread.native->outer_nodes;
  const NativeThread& own = *thread.native;
  while (!nodes.empty() && !is_below_anchor(nodes.back().running, own, base)) nodes.pop_back();
  if (nodes.empty() || !still_runs(nodes.back().running, own, base)) return false;
  thread.leave_described();
  thread.running = nodes.back().running;
  *thread.context = nodes.back().context;
  nodes.pop_back();
  return true;
}

void settle(ThreadState& thread, const char* base) noexcept {
  if (thread.running.is_described && !still_runs(thread.running, *thread.native, base) &&
      !return_to_outer_node(thread, base)) {
    thread.leave_described();
  }
  // What a backward frees before it allocates was saved for it.
  if (!thread.running.is_described && !is_plain_forward(thread)) is_in_backward(thread);
}

std::uint8_t autograd_of(const NativeThread& own, const char* base) {
  if (still_runs(own.function.call, own, base)) return own.function.autograd;
  return c10::GradMode::is_enabled() ? PLIMSOLL_AUTOGRAD_ON : PLIMSOLL_AUTOGRAD_OFF;
}

std::atomic<std::uint64_t> g_unknown{0};

void begin_described(ThreadState& thread, const NativeChain& chain, const char* base,
                     const PythonPlace& place, const torch::autograd::Node* node) {
  plimsoll_context& context = *thread.context;
  const RunningOperator& outer = thread.running;
  if (node != nullptr && outer.node != nullptr && base + chain.anchor < outer.anchor &&
      is_below_anchor(outer, *thread.native, base)) {
    thread.native->outer_nodes.push_back({outer, context});
  }
  thread.leave_described();
  thread.phase_outside = context.phase;
  thread.layer_outside = context.layer;
  thread.running = {.anchor = chain.anchor == 0 ? nullptr : base + chain.anchor,
                    .anchor_value = chain.anchor_value,
                    .frame = place.frame,
                    .instruction = place.instruction,
                    .node = node,
                    .is_described = true};
  context.op_instance = chain.anchor == 0 ? 0 : thread.next_instance();
  if (node != nullptr) return describe_node(thread, *node);
  context.outer_op = chain.outer_op;
  if (!is_plain_forward(thread) && context.phase != PLIMSOLL_PHASE_BACKWARD &&
      is_in_backward(thread)) {
    context.phase = PLIMSOLL_PHASE_BACKWARD;
  }
  if (chain.outer_op != 0) context.autograd = autograd_of(*thread.native, base);
}

// Returns the chain; null if nothing is known.
const NativeChain* describe_by_chain(ThreadState& thread, const char* base) {
  NativeThread& own = native_thread(thread);
  if (!own.is_on_stack(base)) return nullptr;
  const InterpreterLoop loop = running_loop();
  const PythonPlace innermost = place_of(loop);
  const std::uint32_t handle = called_handle(innermost.frame);
  std::uint64_t tag = reinterpret_cast<std::uintptr_t>(innermost.instruction);
  if (loop.frame != nullptr) {
    // Where C++ code has called Python, the outer Python code says which C++ code that may be.
    const PythonPlace outer = place_of(loop_outside(loop));
    tag = tag * 31 + reinterpret_cast<std::uintptr_t>(loop.position);
    tag = tag * 31 + reinterpret_cast<std::uintptr_t>(outer.instruction);
    tag = tag * 31 + handle;
  }
  const auto outer_handle = [](const char* address) {
    return called_handle(place_outside(address).frame);
  };
  const NativeChain& chain = own.chains.find(base, tag, {handle, loop.position, outer_handle});
  if (!chain.is_known) return nullptr;
  const auto node = chain.is_in_node ? torch::autograd::get_current_node()
                                     : decltype(torch::autograd::get_current_node()){};
  plimsoll_context& context = *thread.context;
  const RunningOperator& running = thread.running;
  const PythonPlace place =
      node == nullptr && chain.runs_python ? place_outside(base + chain.anchor) : innermost;
  const auto is_running = [&] {
    return running.is_described && chain.anchor != 0 && running.anchor == base + chain.anchor &&
           running.anchor_value == chain.anchor_value && running.node == node.get();
  };
  bool is_same = is_running();
  if (!is_same && node != nullptr && return_to_outer_node(thread, base)) is_same = is_running();
  if (node == nullptr) {
    const std::uint64_t values = values_of(place.frame);
    const bool has_stacks = stack_source().capture != nullptr;
    const std::uint32_t stack = has_stacks ? capture_without_gil(thread, place.frame) : 0;
    // A function that was called again, by other code, has the same frame and instruction.
    is_same = is_same && running.frame == place.frame && running.instruction == place.instruction &&
              running.values == values && context.stack == stack;
    if (!is_same) begin_described(thread, chain, base, place, nullptr);
    thread.running.values = values;
    context.stack = stack;
  } else if (!is_same) {
    begin_described(thread, chain, base, place, node.get());
  }
  context.inner_op = chain.inner_op;
  if (chain.inner_op == 0) {
    context.inner_op = context.outer_op;
    const RunningFunction& function = own.function;
    if (node == nullptr && still_runs(function.call, own, base)) context.inner_op = function.name;
  }
  if (node != nullptr) {
    const bool has_frames = chain.runs_python && stack_source().capture != nullptr;
    context.stack = has_frames
                        ? capture_in_node_without_gil(thread, running.node_stack,
                                                      place_outside(base + chain.anchor).frame)
                        : running.node_stack;
  }
  return &chain;
}

const NativeChain* describe_or_count(ThreadState& thread, const char* base) noexcept try {
  const NativeChain* const chain = describe_by_chain(thread, base);
  if (chain != nullptr) return chain;
  g_unknown.fetch_add(1, std::memory_order_relaxed);
  begin_described(thread, {}, base, {}, nullptr);
  return nullptr;
} catch (const std::exception&) {
  count_lost_detail();
  thread.leave_described();
  return nullptr;
}

void describe(ThreadState& thread, const char* base) { describe_or_count(thread, base); }

// ---- what torch calls while a recording runs ----------------------------------------------------

PatchedWords& patched_words() {
  static Immortal<PatchedWords> words;
  return words.get();
}

using NextNumber = std::uint64_t (*)();
NextNumber g_next_number = nullptr;        // torch's own
std::atomic<std::uint64_t> g_numbered{0};  // for the self-test
std::atomic<bool> g_is_testing{false};

// torch builds an autograd node with this number.
void node_built(std::uint64_t number, const char* base) noexcept {
  ThreadState* const state = thread_state_or_null();
  if (state == nullptr) return;
  ThreadState& thread = *state;
  const NativeChain* const chain = describe_or_count(thread, base);
  plimsoll_context& context = *thread.context;
  RunningOperator& running = thread.running;
  const auto link = [&] {
    const std::uint32_t stack = running.node != nullptr ? running.node_stack : context.stack;
    thread.links->store(number, {.layer = context.layer, .op = context.inner_op, .stack = stack});
  };
  link();
  if (chain == nullptr) return;
  if (chain->anchor == 0) {
    RunningFunction& function = thread.native->function;
    if (chain->call == 0) return;
    // A function inside another one: the outer one hides autograd.
    const bool is_inside = function.call.anchor != base + chain->call;
    if (is_inside && still_runs(function.call, *thread.native, base)) return;
    function.call = running;
    function.call.anchor = base + chain->call;
    function.call.anchor_value = chain->call_value;
    function.name = applied_function(thread, static_cast<const InterpreterFrame*>(running.frame));
    const bool is_off = !c10::GradMode::is_enabled();
    function.autograd = is_off ? PLIMSOLL_AUTOGRAD_OFF : PLIMSOLL_AUTOGRAD_UNKNOWN;
    // What is known so far may be of the function that ran before it at the same place.
    context.inner_op = function.name;
    link();
    return;
  }
  if (running.node != nullptr) return;
  if (chain->runs_python) {
    const std::uint32_t name = applied_function(thread, running_loop().frame);
    if (name != 0) {  // in the kernel of a custom operator
      context.inner_op = name;
      link();
    }
  }
  // The operator builds part of a graph outside any module: usually a loss.
  if (context.phase == PLIMSOLL_PHASE_OTHER && thread.module_depth == 0) {
    recorder().set_phase(&context, PLIMSOLL_PHASE_FORWARD);
    context.phase = PLIMSOLL_PHASE_FORWARD;
  }
  if (context.autograd == PLIMSOLL_AUTOGRAD_ON) context.autograd = PLIMSOLL_AUTOGRAD_BUILT;
}

[[gnu::noinline]] std::uint64_t numbered() {
  const std::uint64_t number = g_next_number();
  if (is_attached() && native_source() != nullptr) node_built(number, PLIMSOLL_STACK_BASE);
  if (g_is_testing.load(std::memory_order_relaxed)) ++g_numbered;
  return number;
}

// A member function's first parameter is its object.
using Apply = torch::autograd::variable_list (*)(AccumulateGrad*, torch::autograd::variable_list&&);
Apply g_accumulate = nullptr;  // torch's own

torch::autograd::variable_list accumulated(AccumulateGrad* self,
                                           torch::autograd::variable_list&& gradients) {
  torch::autograd::variable_list result = g_accumulate(self, std::move(gradients));
  if (is_attached() && native_source() != nullptr) {
    try {
      ThreadState& thread = thread_state();
      tag_accumulated_gradient(thread, self->variable);
      gathered_parameters().tag_new_memory(thread);
    } catch (const std::exception&) {
      count_lost_detail();
    }
  }
  return result;
}

constexpr char kNextNumber[] = "_ZN2at15sequence_number17get_and_incrementEv";
constexpr char kAccumulateTable[] = "_ZTVN5torch8autograd14AccumulateGradE";

// The entry of AccumulateGrad::apply in the virtual function table; null if it is not found.
void** entry_of_accumulate() {
  const auto apply = &AccumulateGrad::apply;
  std::uintptr_t parts[2] = {};  // a virtual member function: its distance in the table, plus 1
  static_assert(sizeof(apply) == sizeof(parts));
  std::memcpy(parts, &apply, sizeof(parts));
  auto* const table = static_cast<char*>(dlsym(RTLD_DEFAULT, kAccumulateTable));
  if (table == nullptr || parts[0] % 8 != 1 || parts[1] != 0) return nullptr;
  constexpr std::size_t kBeforeFunctions = 16;  // two words
  return reinterpret_cast<void**>(table + kBeforeFunctions + parts[0] - 1);
}

bool patch() {
  void** const accumulate = entry_of_accumulate();
  if (accumulate == nullptr) return false;
  g_next_number = &at::sequence_number::get_and_increment;
  if (*accumulate != reinterpret_cast<void*>(&accumulated)) {
    g_accumulate = reinterpret_cast<Apply>(*accumulate);
  }
  return patched_words().replace(accumulate, reinterpret_cast<void*>(&accumulated)) &&
         patched_words().replace_imports(kNextNumber, reinterpret_cast<void*>(&numbered)) > 0;
}

// ---- the self-test ------------------------------------------------------------------------------

// Compares, at the begin of each operator and node, the innermost operator on the native stack with
// the one that torch reports.
struct Comparison {
  NativeChains chains;
  int operators = 0;
  int nodes = 0;
  bool is_equal = true;
};
Comparison* g_comparison = nullptr;
thread_local bool t_is_compared = false;

[[gnu::noinline]] std::unique_ptr<at::ObserverContext> compare(const at::RecordFunction& record) {
  if (!t_is_compared) return nullptr;
  Comparison& comparison = *g_comparison;
  const std::string_view name = record.name();
  constexpr std::string_view kNode = "autograd::engine::evaluate_function: ";
  for (int i = 0; i < 2; ++i) {  // learned, and recognized
    const NativeChain& chain = comparison.chains.find(PLIMSOLL_STACK_BASE, 0, {});
    if (name.starts_with(kNode)) {
      const auto node = torch::autograd::get_current_node();
      ++comparison.nodes;
      comparison.is_equal &= chain.is_known && chain.is_in_node && node != nullptr &&
                             name.substr(kNode.size()) == node->name();
    } else if (name.find("::") != std::string_view::npos) {
      ++comparison.operators;
      comparison.is_equal &=
          chain.is_known && chain.inner_op == recorder().name(name.data(), name.size());
    }
  }
  return nullptr;
}

const char* compare_with_observer() {
  Comparison comparison;
  g_comparison = &comparison;
  g_numbered = 0;
  const at::CallbackHandle handle = at::addGlobalCallback(
      at::RecordFunctionCallback(compare).scopes({at::RecordScope::FUNCTION}));
  t_is_compared = g_is_testing = true;
  const char* problem = "the names of operators differ from those that torch reports";
  try {
    // Whatever the program has turned on stays out of the test.
    const c10::impl::ExcludeDispatchKeyGuard no_python(c10::python_ks);
    const c10::InferenceMode no_inference(false);
    const c10::AutoGradMode enabled(true);
    const at::Tensor weight = at::ones({2, 2}).requires_grad_();
    const at::Tensor input = at::ones({2, 2});
    at::Tensor loss = at::linear(input, weight).add(1).matmul(input).select(0, 0).relu().sum();
    const pybind11::gil_scoped_release released;  // as torch does
    loss.backward();
    constexpr int kLeast = 10;  // operators and nodes of these lines
    if (comparison.is_equal && comparison.operators > kLeast && comparison.nodes > kLeast) {
      problem = g_numbered > 0 ? nullptr : "the numbers of autograd's nodes are not seen";
    }
  } catch (const std::exception&) {
    problem = "its self-test has failed";
  }
  t_is_compared = g_is_testing = false;
  at::removeCallback(handle);
  return problem;
}

constexpr NativeSource kNative = {.describe = describe, .settle = settle};

}  // namespace

constexpr const char* kNotPatched = "torch's import tables cannot be changed";

const char* prepare_native_attribution(bool is_notebook) {
  if (is_notebook) return "the lines of a notebook's cells need Python";
  static bool is_tested = false;
  if (is_tested) return nullptr;
  if (!prepare_chains(boundary_of_calls())) return "torch's operators have no symbols";
  if (g_handle_types[0].type == nullptr) find_python_code();
  if (!patch()) {
    patched_words().restore();
    return kNotPatched;
  }
  const char* const problem = compare_with_observer();
  patched_words().restore();
  is_tested = problem == nullptr;
  return problem;
}

const char* begin_native_attribution() {
  if (!patch()) {
    patched_words().restore();
    return kNotPatched;
  }
  watch_handles();
  g_attachment.has_scopes_of_python = true;
  g_unknown = 0;
  g_attachment.wanted_native = &kNative;
  return nullptr;
}

void end_native_attribution() noexcept {
  g_attachment.wanted_native = nullptr;
  g_attachment.native = nullptr;
  g_attachment.has_scopes_of_python = false;
  stop_watching_handles();
  patched_words().restore();
}

void end_native_step() noexcept try {
  if (native_source() == nullptr || g_unknown.exchange(0) == 0) return;
  g_attachment.wanted_native = nullptr;
  renew_callback();
} catch (const std::exception&) {
  count_lost_detail();
}

#else

const char* prepare_native_attribution(bool /*is_notebook*/) {
  return "this processor or Python is not supported";
}
const char* begin_native_attribution() { return nullptr; }
void end_native_attribution() noexcept {}
void end_native_step() noexcept {}

#endif

}  // namespace plimsoll::libtorch
