#include "python/optimizers.h"

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "parameters.h"
#include "python/modules.h"
#include "python/objects.h"
#include "python/owners.h"
#include "python/threads.h"
#include "stepping_optimizer.h"
#include "tagged_storages.h"
#include "uses.h"

namespace plimsoll::libtorch {
namespace {

// A parameter's gradient and its tensor id, which is valid until the gradient's dtype or shape
// changes.
struct KnownGradient {
  const c10::TensorImpl* parameter = nullptr;
  std::uint64_t shape = 0;
  std::uint32_t tensor = 0;
};

struct Optimizer {
  PyObject* weak = nullptr;
  std::vector<KnownGradient> gradients;  // in the order of the parameters
  TaggedStorages parameters;
  TaggedStorages state;
  bool has_sought_owner = false;
  Reference owner;  // weak
  std::string owner_name;
  TaggedStorages attributes;
  std::string type;
  int number = 0;  // among the live optimizers of its type; 0: not needed so far
};

std::unordered_map<PyObject*, std::unique_ptr<Optimizer>>& optimizers() {
  static Immortal<std::unordered_map<PyObject*, std::unique_ptr<Optimizer>>> all;
  return all.get();
}

std::unordered_map<std::string, std::set<int>>& used_numbers() {  // by type
  static Immortal<std::unordered_map<std::string, std::set<int>>> all;
  return all.get();
}

// "Adam", or "Adam#2" for the second of two live ones: their parameters must not have equal names.
std::string name_of(PyObject* object, Optimizer& optimizer) {
  if (optimizer.number == 0) {
    const std::string type = Py_TYPE(object)->tp_name;
    optimizer.type = type.substr(type.rfind('.') + 1);
    std::set<int>& used = used_numbers()[optimizer.type];
    optimizer.number = 1;
    while (used.contains(optimizer.number)) ++optimizer.number;
    used.insert(optimizer.number);
  }
  return optimizer.number == 1 ? optimizer.type
                               : optimizer.type + "#" + std::to_string(optimizer.number);
}

SteppingOptimizer g_stepping;
bool g_user_steps = false;
std::uint64_t g_steps = 0;

PyObject* optimizer_died(PyObject* self, PyObject* /*weak*/) {
  auto* address = static_cast<PyObject*>(PyCapsule_GetPointer(self, nullptr));
  PyErr_Clear();
  const auto found = optimizers().find(address);
  if (found != optimizers().end()) {
    PyObject* weak = found->second->weak;
    used_numbers()[found->second->type].erase(found->second->number);
    g_stepping.forget(address);
    optimizers().erase(found);
    Py_XDECREF(weak);
  }
  Py_RETURN_NONE;
}
PyMethodDef g_optimizer_died = {"optimizer_died", optimizer_died, METH_O, nullptr};

Optimizer* find_or_add(PyObject* object) {
  const auto found = optimizers().find(object);
  if (found != optimizers().end()) return found->second.get();
  Reference capsule = Reference::steal(PyCapsule_New(object, nullptr, nullptr));
  Reference callback =
      Reference::steal(capsule ? PyCFunction_New(&g_optimizer_died, capsule.get()) : nullptr);
  PyObject* weak = callback ? PyWeakref_NewRef(object, callback.get()) : nullptr;
  if (weak == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  auto optimizer = std::make_unique<Optimizer>();
  optimizer->weak = weak;
  return (optimizers()[object] = std::move(optimizer)).get();
}

// Calls visit(group number, group, index, parameter).
template <typename Visit>
void for_each_parameter(PyObject* optimizer, Visit&& visit) {
  static PyObject* groups_name = interned("param_groups");
  static PyObject* params_name = interned("params");
  const Reference groups = own_attribute(optimizer, groups_name);
  if (!groups || PyList_Check(groups.get()) == 0) return;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(groups.get()); ++i) {
    PyObject* group = PyList_GET_ITEM(groups.get(), i);
    if (PyDict_Check(group) == 0) continue;
    PyObject* params = PyDict_GetItemWithError(group, params_name);
    if (params == nullptr || PyList_Check(params) == 0) continue;
    for (Py_ssize_t j = 0; j < PyList_GET_SIZE(params); ++j) {
      if (const at::Tensor* tensor = as_tensor(PyList_GET_ITEM(params, j))) {
        visit(i, group, j, *tensor);
      }
    }
  }
}

// Owners have numbers, as roots of modules have: "GaussianModel", "GaussianModel#2". A search takes
// some 20 ms, so programs that make optimizers all the time have few searches.
class Owners {
 public:
  void find(PyObject* object, Optimizer& optimizer, const at::Tensor& parameter) {
    using Clock = std::chrono::steady_clock;
    constexpr int kShare = 100;  // of the time, searches take at most one part
    if (!g_attachment.has_operators || std::exchange(optimizer.has_sought_owner, true)) return;
    const Clock::time_point began = Clock::now();
    if (began < due_) return;
    PyObject* owner = owner_of(object, parameter);
    const Clock::time_point ended = Clock::now();
    due_ = ended + kShare * (ended - began);
    if (owner == nullptr) return;
    optimizer.owner = Reference::steal(PyWeakref_NewRef(owner, nullptr));
    PyErr_Clear();
    const std::string type = Py_TYPE(owner)->tp_name;
    const std::string name = type.substr(type.rfind('.') + 1);
    if (!optimizer.owner) return;
    Named& known = names_[optimizer.owner.get()];
    if (!known.weak) {
      const int number = ++counts_[name];
      known.weak = Reference::borrow(optimizer.owner.get());
      known.name = number == 1 ? name : name + "#" + std::to_string(number);
    }
    optimizer.owner_name = known.name;
  }
  void forget() { *this = {}; }

 private:
  std::chrono::steady_clock::time_point due_;
  std::unordered_map<std::string, int> counts_;  // by class
  struct Named {
    Reference weak;
    std::string name;
  };
  std::unordered_map<PyObject*, Named> names_;  // by its weak reference, of which it has only one
};
Owners& owners() {
  static Immortal<Owners> all;
  return all.get();
}

PyObject* live_owner(const Optimizer& optimizer) {
  PyObject* owner = optimizer.owner ? PyWeakref_GetObject(optimizer.owner.get()) : nullptr;
  return owner == Py_None ? nullptr : owner;
}

// A parameter of no known module: "Adam.xyz" by its group's name, "GaussianModel._xyz" by the
// attribute that it is, or by its number.
std::string name_of(PyObject* object, Optimizer& optimizer, Py_ssize_t number, PyObject* group,
                    Py_ssize_t index, const at::Tensor& tensor) {
  PyObject* group_name = PyDict_GetItemString(group, "name");
  owners().find(object, optimizer, tensor);
  PyObject* owner = live_owner(optimizer);
  if (group_name == nullptr && owner != nullptr) {
    std::string attribute;
    for_each_tensor_attribute(owner, [&](PyObject* each, const at::Tensor& value) {
      if (attribute.empty() && value.is_same(tensor)) attribute = text_of(each);
    });
    if (!attribute.empty()) return optimizer.owner_name + "." + attribute;
  }
  const std::string name =
      name_of(object, optimizer) + (group_name != nullptr
                                        ? "." + text_of(group_name)
                                        : ".param_groups[" + std::to_string(number) + "]");
  PyObject* params = PyDict_GetItemString(group, "params");
  const bool is_alone = group_name != nullptr && PyList_GET_SIZE(params) == 1;
  return is_alone ? name : name + "[" + std::to_string(index) + "]";
}

void tag_parameters(ThreadState& thread, PyObject* object, Optimizer& optimizer,
                    bool has_gradients) {
  optimizer.parameters.begin_walk();
  for_each_parameter(
      object, [&](Py_ssize_t number, PyObject* group, Py_ssize_t index, const at::Tensor& tensor) {
        if (optimizer.parameters.has_news(tensor)) {
          Parameter parameter;
          if (!parameters().find(tensor, parameter)) {
            const std::string name = name_of(object, optimizer, number, group, index, tensor);
            parameter = {.name = name_id(name), .layer = 0, .text = name};
            parameters().add(tensor, parameter);
          }
          tag_tensor(thread, tensor, PLIMSOLL_ROLE_PARAMETER, parameter.name);
        }
        if (has_gradients) parameters().tag_gradient(thread, tensor);
      });
  optimizer.parameters.end_walk();
}

// Names the other tensors of the object that has the optimizer: `max_radii2D`, `denom`.
void tag_attributes(ThreadState& thread, Optimizer& optimizer) {
  PyObject* owner = live_owner(optimizer);
  if (owner == nullptr) return;
  optimizer.attributes.begin_walk();
  for_each_tensor_attribute(owner, [&](PyObject* name, const at::Tensor& tensor) {
    Parameter parameter;
    if (!optimizer.attributes.has_news(tensor) || parameters().find(tensor, parameter)) return;
    tag_tensor(thread, tensor, PLIMSOLL_ROLE_KNOWN,
               name_id(optimizer.owner_name + "." + text_of(name)));
  });
  optimizer.attributes.end_walk();
}

void tag_state(ThreadState& thread, PyObject* object, Optimizer& optimizer) {
  static PyObject* state_attribute = interned("state");
  const Reference state = own_attribute(object, state_attribute);
  if (!state || PyDict_Check(state.get()) == 0) return;
  optimizer.state.begin_walk();
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(state.get(), &position, &key, &value) != 0) {
    const at::Tensor* parameter = as_tensor(key);
    for_each_tensor(value, Path(""), [&](const Path& path, const at::Tensor& tensor) {
      if (!optimizer.state.has_news(tensor)) return;
      const std::string owner = parameter == nullptr ? "" : parameters().name_text(*parameter);
      const std::string name = owner.empty() ? path.text() : owner + "." + path.text();
      tag_tensor(thread, tensor, PLIMSOLL_ROLE_OPTIMIZER_STATE, name_id(name));
    });
  }
  optimizer.state.end_walk();
}

std::uint64_t shape_of(const at::Tensor& tensor) {
  auto hash = static_cast<std::uint64_t>(tensor.scalar_type()) + 1;
  for (const std::int64_t size : sizes_of(tensor)) {
    hash = (hash ^ static_cast<std::uint64_t>(size)) * 0x9E3779B97F4A7C15U;
  }
  return hash;
}

// Tags only the gradients: they come and go with each step, and peaks are explained by their
// categories. Returns false if a parameter is still unknown.
bool tag_gradients(ThreadState& thread, PyObject* object, Optimizer& optimizer) {
  std::size_t next = 0;
  bool are_known = true;
  for_each_parameter(object, [&](Py_ssize_t, PyObject*, Py_ssize_t, const at::Tensor& tensor) {
    const c10::TensorImpl* parameter = tensor.unsafeGetTensorImpl();
    if (next == optimizer.gradients.size()) optimizer.gradients.emplace_back();
    KnownGradient& known = optimizer.gradients[next++];
    const at::Tensor& gradient = parameter->grad();
    if (!gradient.defined()) return;
    const std::uint64_t shape = shape_of(gradient);
    if (known.parameter != parameter || known.shape != shape) {
      Parameter of;
      if (!parameters().find(tensor, of)) {
        are_known = false;
        return;
      }
      known = {parameter, shape, tensor_id(thread, gradient, PLIMSOLL_ROLE_GRADIENT, of.name)};
    }
    tag_storage(thread, gradient, known.tensor);
  });
  optimizer.gradients.resize(next);
  return are_known;
}

}  // namespace

void before_step(ThreadState& thread, PyObject* object) {
  Optimizer* optimizer = find_or_add(object);
  if (!g_attachment.has_walks && optimizer != nullptr && !optimizer->gradients.empty() &&
      tag_gradients(thread, object, *optimizer)) {
    return;
  }
  parameters().take_accumulated();
  modules().tag_changed(thread);
  if (optimizer == nullptr) return;
  tag_parameters(thread, object, *optimizer, true);
  if (!g_attachment.has_walks) tag_gradients(thread, object, *optimizer);
}

bool after_step(ThreadState& thread, PyObject* object) {
  Optimizer* optimizer = find_or_add(object);
  if (optimizer == nullptr) return false;
  if (g_attachment.has_walks) {
    tag_state(thread, object, *optimizer);
    tag_attributes(thread, *optimizer);
  }
  if (!g_stepping.ends_step(object)) return false;
  poll_foreign_storages(thread);
  if (g_attachment.has_walks) parameters().forget_dead();
  ++g_steps;
  if (!g_user_steps) {
    recorder().mark(thread.context, PLIMSOLL_MARK_STEP, g_steps);
    end_use_step();
  }
  return true;
}

void adopt_optimizer(ThreadState& thread, PyObject* object) {
  Optimizer* optimizer = find_or_add(object);
  if (optimizer == nullptr) return;
  tag_parameters(thread, object, *optimizer, may_read_gradients());
  tag_state(thread, object, *optimizer);
}

void tag_optimizers(ThreadState& thread) {
  // a copy: an optimizer that dies meanwhile is removed from optimizers()
  std::vector<Reference> objects;
  for (const auto& [object, optimizer] : optimizers()) objects.push_back(Reference::borrow(object));
  for (const Reference& object : objects) adopt_optimizer(thread, object.get());
}

void leave_steps_to_user(ThreadState& thread) {
  if (std::exchange(g_user_steps, true) || g_steps == 0) return;
  recorder().mark(thread.context, PLIMSOLL_MARK_OWN_STEPS, 0);
}

std::uint64_t steps_so_far() { return g_steps; }

bool has_steps() { return g_user_steps || g_steps > 0; }

void continue_steps(std::uint64_t number) { g_steps = number; }

void forget_optimizers() {
  owners().forget();
  std::unordered_map<PyObject*, std::unique_ptr<Optimizer>> all;
  all.swap(optimizers());
  for (auto& [object, optimizer] : all) Py_XDECREF(optimizer->weak);
  g_stepping = {};
  g_user_steps = false;
  g_steps = 0;
}

}  // namespace plimsoll::libtorch
