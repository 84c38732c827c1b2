#include "python/modules.h"

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

#include "attachment.h"
#include "gathered_parameters.h"
#include "parameters.h"
#include "python/objects.h"
#include "python/threads.h"
#include "tensor_parts.h"
#include "tensors.h"

namespace plimsoll::libtorch {
namespace {

PyTypeObject* g_module_class = nullptr;

std::string class_name(PyObject* object) {
  const std::string_view name = Py_TYPE(object)->tp_name;
  return std::string(name.substr(name.rfind('.') + 1));
}

// The attribute by which a wrapper refers to the one module inside it; null for an ordinary module.
const char* wrapped_attribute(PyObject* module) {
  const std::string name = class_name(module);
  if (name == "DistributedDataParallel" || name == "DataParallel") return "module";
  return name == "OptimizedModule" ? "_orig_mod" : nullptr;
}

// ---- weak references that identify their module -------------------------------------------------

// The callback's `self` is a capsule with the module's address.
PyObject* module_died(PyObject* self, PyObject* /*weak*/) {
  auto* address = static_cast<PyObject*>(PyCapsule_GetPointer(self, nullptr));
  if (address != nullptr) modules().forget(address);
  PyErr_Clear();
  Py_RETURN_NONE;
}
PyMethodDef g_module_died = {"module_died", module_died, METH_O, nullptr};

PyObject* weak_reference(PyObject* module) {
  Reference capsule = Reference::steal(PyCapsule_New(module, nullptr, nullptr));
  if (!capsule) return nullptr;
  Reference callback = Reference::steal(PyCFunction_New(&g_module_died, capsule.get()));
  return callback ? PyWeakref_NewRef(module, callback.get()) : nullptr;
}

Reference dict_of(PyObject* module, const char* which) {
  static PyObject* children = interned("_modules");
  static PyObject* parameters_name = interned("_parameters");
  static PyObject* buffers = interned("_buffers");
  const std::string_view name = which;
  PyObject* key = name == "_modules" ? children : name == "_buffers" ? buffers : parameters_name;
  Reference dict = own_attribute(module, key);
  if (dict && PyDict_Check(dict.get()) == 0) return {};  // a ScriptModule's own kind
  return dict;
}

template <typename Visit>
void for_each_item(const Reference& dict, Visit&& visit) {
  if (!dict) return;
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict.get(), &position, &key, &value) != 0) {
    if (value != Py_None) visit(key, value);
  }
}

std::uint64_t bytes_of(const at::Tensor& tensor) noexcept try {
  std::uint64_t bytes = 0;
  if (recorded_storage(tensor) != nullptr) {
    bytes = tensor.itemsize();
    for (const std::int64_t size : sizes_of(tensor)) bytes *= static_cast<std::uint64_t>(size);
  } else {
    for (const at::Tensor& part : parts_of(tensor)) bytes += bytes_of(part);
  }
  return bytes;
} catch (const std::exception&) {
  return 0;  // a tensor of an unusual kind: no sizes, no dtype
}

// Of the parameters that the module has directly.
std::uint64_t parameter_bytes_of(PyObject* module) {
  std::uint64_t bytes = 0;
  for_each_item(dict_of(module, "_parameters"), [&](PyObject* /*key*/, PyObject* value) {
    if (const at::Tensor* tensor = as_tensor(value)) bytes += bytes_of(*tensor);
  });
  return bytes;
}

// Whether the class, like ModuleList, only has the forward of Module, which raises an error.
bool only_holds(PyObject* module) {
  static PyObject* forward = interned("forward");
  return _PyType_Lookup(Py_TYPE(module), forward) == _PyType_Lookup(g_module_class, forward);
}

// Of plimsoll_module_state. Settings of the object only: what its class sets is no choice.
std::uint8_t state_of(PyObject* module) {
  static PyObject* training = interned("training");
  static PyObject* checkpoints = interned("gradient_checkpointing");
  const bool is_in_eval_mode = own_attribute(module, training).get() == Py_False;
  return static_cast<std::uint8_t>(
      (is_in_eval_mode ? PLIMSOLL_MODULE_IN_EVAL_MODE : 0) |
      (own_attribute(module, checkpoints).get() == Py_True ? PLIMSOLL_MODULE_CHECKPOINTS : 0) |
      (only_holds(module) ? PLIMSOLL_MODULE_ONLY_HOLDS : 0));
}

bool has_tensors(PyObject* module, int nesting) {
  if (nesting > 64) return false;
  bool found = false;
  const auto visit = [&](PyObject* /*key*/, PyObject* value) {
    found = found || as_tensor(value) != nullptr;
  };
  for_each_item(dict_of(module, "_parameters"), visit);
  for_each_item(dict_of(module, "_buffers"), visit);
  if (found) return true;
  for_each_item(dict_of(module, "_modules"), [&](PyObject* /*key*/, PyObject* child) {
    found = found || (is_module(child) && has_tensors(child, nesting + 1));
  });
  return found;
}

}  // namespace

Modules& modules() {
  static Immortal<Modules> all;
  return all.get();
}

void set_module_class(PyTypeObject* type) { g_module_class = type; }

bool is_module(PyObject* object) {
  return g_module_class != nullptr && PyType_IsSubtype(Py_TYPE(object), g_module_class) != 0;
}

Module* Modules::find_or_add(PyObject* object) {
  if (Module* known = find(object)) return known;
  PyObject* weak = weak_reference(object);
  if (weak == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  auto module = std::make_unique<Module>();
  module->object = object;
  module->weak = weak;
  module->serial = ++last_serial_;
  watch_calls_of(Py_TYPE(object));
  Module* added = module.get();
  modules_[object] = std::move(module);
  add_children(*added);
  return added;
}

// Modules that existed before attaching have not registered their children with the hooks.
void Modules::add_children(Module& module) {
  for_each_item(dict_of(module.object, "_modules"), [&](PyObject* key, PyObject* child) {
    if (!is_module(child)) return;
    Module* added = find_or_add(child);
    if (added == nullptr || added->parent != nullptr) return;
    set_parent(*added, module, text_of(key));
  });
}

Module* Modules::parent_of(const Module& module) {
  if (module.parent == nullptr) return nullptr;
  Module* parent = find(module.parent);
  return parent != nullptr && parent->serial == module.parent_serial ? parent : nullptr;
}

void Modules::set_parent(Module& module, const Module& parent, std::string attribute) {
  module.parent = parent.object;
  module.parent_serial = parent.serial;
  module.attribute = std::move(attribute);
}

void Modules::forget(PyObject* object) {
  if (const auto kept = kept_.find(object); kept != kept_.end()) {
    PyObject* weak = kept->second.weak;
    kept_.erase(kept);
    Py_XDECREF(weak);
  }
  const auto found = modules_.find(object);
  if (found == modules_.end()) return;
  const Module& module = *found->second;
  if (module.root_number != 0) {
    try {
      root_numbers_[module.path.substr(0, module.path.find('#'))].erase(module.root_number);
    } catch (const std::exception&) {  // no memory: the number stays taken
    }
  }
  PyObject* weak = module.weak;
  recent_of(object) = nullptr;
  modules_.erase(found);
  Py_XDECREF(weak);
}

void Modules::clear() {
  decltype(modules_) all;
  all.swap(modules_);
  recent_.fill(nullptr);
  root_numbers_.clear();
  for (const auto& [object, module] : all) {
    const bool is_root = module->layer != 0 && module->path.find('.') == std::string::npos;
    if (!is_root) {  // nor if the wrapper is a root
      Py_XDECREF(module->weak);
      continue;
    }
    try {
      keep_number(*module);
    } catch (const std::exception&) {  // no memory: the next recording numbers it again
      count_lost_detail();
      Py_XDECREF(module->weak);
    }
  }
}

// Takes ownership of the weak reference, unless it throws.
void Modules::keep_number(const Module& root) {
  const std::size_t mark = root.path.find('#');
  KeptNumber fresh{.weak = root.weak, .name = root.path.substr(0, mark), .number = 1};
  if (mark != std::string::npos)
    fresh.number = static_cast<std::uint32_t>(std::stoul(root.path.substr(mark + 1)));
  KeptNumber& kept = kept_[root.object];
  Py_XDECREF(kept.weak);
  kept = std::move(fresh);
}

void Modules::add_child(PyObject* parent, const char* attribute, PyObject* child) {
  if (find_or_add(child) == nullptr) return;
  const Module* parent_module = find_or_add(parent);
  if (parent_module == nullptr) return;
  Module* added = find(child);
  if (added == nullptr || parent_of(*added) != nullptr)
    return;  // this one, or shared: it keeps its first path
  set_parent(*added, *parent_module, attribute);
  if (added->layer != 0) unname(*added, 0);  // it was a root until now
}

void Modules::unname(Module& module, int nesting) {
  if (nesting > 64) return;
  module.layer = 0;
  module.tagged.forget();
  if (module.root_number != 0) {
    root_numbers_[module.path.substr(0, module.path.find('#'))].erase(module.root_number);
    module.root_number = 0;
  }
  for_each_item(dict_of(module.object, "_modules"), [&](PyObject* /*key*/, PyObject* child) {
    Module* known = find(child);
    if (known != nullptr && parent_of(*known) == &module) unname(*known, nesting + 1);
  });
}

Module* Modules::root_of(Module& module) {
  Module* root = &module;
  for (int nesting = 0; nesting < 64; ++nesting) {
    Module* parent = parent_of(*root);
    if (parent == nullptr) break;
    root = parent;
  }
  return root;
}

std::uint32_t Modules::name_called(ThreadState& thread, Module& module) {
  Module* root = root_of(module);
  if (root != &module && root->layer == 0) name_root(thread, *root);
  if (module.layer != 0) return module.layer;
  if (const Module* parent = parent_of(module);
      parent != nullptr && parent->layer != 0) {  // added after its parent was named
    name_tree(thread, module, path_in(*parent, module), 0);
  } else if (thread.module_depth != 0 && thread.context->layer != 0) {
    // The caller is a module in which it is not registered: it is in a list, or was made inside the
    // forward.
    name_tree(thread, module, paths_[thread.context->layer] + "." + class_name(module.object), 0);
  } else {
    name_root(thread, module);
  }
  return module.layer;
}

void Modules::name_root(ThreadState& thread, Module& root) {
  PyObject* named = root.object;
  if (const char* inside = wrapped_attribute(named)) {
    const Reference dict = dict_of(named, "_modules");
    PyObject* child = dict ? PyDict_GetItemString(dict.get(), inside) : nullptr;
    if (child != nullptr) named = child;
  }
  std::string path = class_name(named);
  const std::uint32_t number = number_of_root(named, path);
  root.root_number = number;
  if (number > 1) path += "#" + std::to_string(number);
  name_tree(thread, root, path, 0);
}

// Returns the lowest number that no other root of this name has, or had in an earlier recording if
// it is still live. `object` is the model without wrappers.
std::uint32_t Modules::number_of_root(PyObject* object, const std::string& name) {
  std::unordered_set<std::uint32_t>& taken = root_numbers_[name];
  std::unordered_set<std::uint32_t> kept;  // numbers of the others
  std::uint32_t own = 0;
  for (const auto& [other, each] : kept_) {
    if (each.name != name) continue;
    if (other == object) own = each.number;
    if (other != object) kept.insert(each.number);
  }
  std::uint32_t number = own != 0 && !taken.contains(own) ? own : 1;
  while (taken.contains(number) || (number != own && kept.contains(number))) ++number;
  taken.insert(number);
  return number;
}

void Modules::name_tree(ThreadState& thread, Module& module, const std::string& path, int nesting) {
  if (nesting > 64) return;
  module.path = path;
  module.layer = name_id(path);
  paths_[module.layer] = path;
  PyObject* object = module.object;
  tag_tensors(thread, module);
  report(module);
  const char* inside = wrapped_attribute(object);
  for_each_item(dict_of(object, "_modules"), [&](PyObject* key, PyObject* child) {
    if (!is_module(child)) return;
    Module* known = find_or_add(child);
    if (known == nullptr || known->layer != 0) return;
    const Module* parent = parent_of(*known);
    if (parent != nullptr && parent != &module) return;  // shared: it is named at its first path
    const std::string name = text_of(key);
    set_parent(*known, module, name);
    const bool is_wrapped = inside != nullptr && name == inside;
    name_tree(thread, *known, is_wrapped ? path : path + "." + name, nesting + 1);
  });
}

void Modules::name_all(ThreadState& thread) {
  const auto all = [&] {
    std::vector<PyObject*> objects;
    for (const auto& [object, module] : modules_) objects.push_back(object);
    return objects;
  };
  for (PyObject* object : all()) {
    if (Module* module = find(object)) add_children(*module);  // children added since then
  }
  for (PyObject* object : all()) {
    Module* module = find(object);
    if (module == nullptr) continue;
    if (module->layer != 0) {
      report(*module);  // a lazy module has parameters only after its first call
      continue;
    }
    Module* root = root_of(*module);
    if (root->layer == 0 && has_tensors(root->object, 0)) name_root(thread, *root);
    const Module* parent = parent_of(*module);
    if (module->layer == 0 && parent != nullptr && parent->layer != 0) {
      name_tree(thread, *module, path_in(*parent, *module), 0);
    }
  }
}

// A wrapper has the path of the module inside it.
void Modules::report(Module& module) {
  if (wrapped_attribute(module.object) != nullptr) return;
  const std::uint64_t bytes = parameter_bytes_of(module.object);
  const std::uint8_t state = state_of(module.object);
  const bool is_known = std::exchange(module.parameter_bytes, bytes) == bytes;
  if (std::exchange(module.state, state) == state && is_known) return;
  recorder().module(module.layer, name_id(class_name(module.object)), bytes, state);
}

std::string Modules::path_in(const Module& parent, const Module& child) {
  const char* inside = wrapped_attribute(parent.object);
  const bool is_wrapped = inside != nullptr && child.attribute == inside;
  return is_wrapped ? parent.path : parent.path + "." + child.attribute;
}

std::vector<PyObject*>& Modules::named() {
  static Immortal<std::vector<PyObject*>> all;
  std::vector<PyObject*>& objects = all.get();
  objects.clear();
  for (const auto& [object, module] : modules_) {
    if (module->layer != 0) objects.push_back(object);
  }
  return objects;
}

void Modules::tag_called(ThreadState& thread, PyObject* object) {
  gathered_parameters().tag_new_memory(thread);
  if (Module* module = find(object)) tag_tensors(thread, *module);
}

void Modules::tag_changed(ThreadState& thread) {
  for (PyObject* object : named()) {
    if (Module* module = find(object)) tag_tensors(thread, *module);
  }
}

void Modules::tag_gradients(ThreadState& thread) {
  if (!may_read_gradients()) return;
  for (PyObject* object : named()) {
    if (find(object) == nullptr) continue;
    for_each_item(dict_of(object, "_parameters"), [&](PyObject* /*key*/, PyObject* value) {
      if (const at::Tensor* tensor = as_tensor(value)) parameters().tag_gradient(thread, *tensor);
    });
  }
}

void Modules::tag_tensors(ThreadState& thread, Module& module) {
  module.tagged.begin_walk();
  const auto name_of = [&](PyObject* key) { return module.path + "." + text_of(key); };
  for_each_item(dict_of(module.object, "_parameters"), [&](PyObject* key, PyObject* value) {
    const at::Tensor* tensor = as_tensor(value);
    if (tensor == nullptr) return;
    const bool is_wrapper = tensor->unsafeGetTensorImpl()->is_python_dispatch();
    module.has_wrappers = module.has_wrappers || is_wrapper;
    if (!module.tagged.has_news(*tensor)) return;
    Parameter parameter;
    // A tensor that several modules share keeps its first name. A name from an optimizer, which has
    // no layer, is replaced.
    if (!parameters().find(*tensor, parameter) || parameter.layer == 0) {
      const std::string name = name_of(key);
      parameter = {.name = name_id(name), .layer = module.layer, .text = name};
      parameters().add(*tensor, parameter);
    }
    tag_tensor(thread, *tensor, PLIMSOLL_ROLE_PARAMETER, parameter.name);
    if (module.has_wrappers && !is_wrapper) {
      gathered_parameters().add(
          *tensor, tensor_id(thread, *tensor, PLIMSOLL_ROLE_PARAMETER, parameter.name));
    }
    // The gradient may be from before the recording.
    if (may_read_gradients()) parameters().tag_gradient(thread, *tensor);
  });
  for_each_item(dict_of(module.object, "_buffers"), [&](PyObject* key, PyObject* value) {
    const at::Tensor* tensor = as_tensor(value);
    if (tensor == nullptr || !module.tagged.has_news(*tensor)) return;
    tag_tensor(thread, *tensor, PLIMSOLL_ROLE_BUFFER, name_id(name_of(key)));
  });
  module.tagged.end_walk();
}

}  // namespace plimsoll::libtorch
