// The program's modules: their names, parameters and buffers. Everything here needs the GIL.
#pragma once

#include <Python.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tagged_storages.h"
#include "thread_state.h"

namespace plimsoll::libtorch {

struct Module {
  static constexpr std::uint64_t kNotReported = ~std::uint64_t{0};

  PyObject* object = nullptr;  // not owned: `weak` says when it dies
  PyObject* weak = nullptr;
  PyObject* parent = nullptr;  // the module in which it was last registered; see parent_of()
  std::uint64_t serial = 0;    // a later module may have the same address
  std::uint64_t parent_serial = 0;
  std::string attribute;                         // its name there
  std::uint32_t layer = 0;                       // 0: no name yet
  std::string path;                              // "UNet.down.0.conv"
  std::uint32_t root_number = 0;                 // of its class, if it is a root; from 1
  std::uint64_t parameter_bytes = kNotReported;  // of those that it has directly
  std::uint8_t state = 0;                        // as reported: plimsoll_module_state
  bool has_wrappers = false;  // its parameters may be shards, and complete at other times
  TaggedStorages tagged;
};

class Modules {
 public:
  // Returns null if the module cannot be watched.
  Module* find_or_add(PyObject* module);
  Module* find(PyObject* module) {
    Module*& recent = recent_of(module);
    if (recent != nullptr && recent->object == module) return recent;
    const auto found = modules_.find(module);
    return found == modules_.end() ? nullptr : recent = found->second.get();
  }
  void forget(PyObject* module);
  void clear();

  void add_child(PyObject* parent, const char* attribute, PyObject* child);
  // Its layer; at the first call, names it and everything below it.
  std::uint32_t layer_of_called(ThreadState& thread, Module& module) {
    return module.layer != 0 ? module.layer : name_called(thread, module);
  }
  // Names every root that has a parameter or buffer, called or not.
  void name_all(ThreadState& thread);
  // After a call of a module that has wrappers: its parameters may be gathered now.
  void tag_called(ThreadState& thread, PyObject* object);
  // Tags the parameters and buffers that are new since the last call.
  void tag_changed(ThreadState& thread);
  // Tags the gradients of all parameters that are new since the last call.
  void tag_gradients(ThreadState& thread);

 private:
  // Cache of recently met modules, to avoid a lookup in modules_.
  Module*& recent_of(PyObject* module) {
    return recent_[(reinterpret_cast<std::uintptr_t>(module) >> 4U) % recent_.size()];
  }
  std::uint32_t name_called(ThreadState& thread, Module& module);
  // Returns null if the module has no parent, or the parent is dead.
  Module* parent_of(const Module& module);
  static void set_parent(Module& module, const Module& parent, std::string attribute);
  Module* root_of(Module& module);
  void name_root(ThreadState& thread, Module& root);
  void name_tree(ThreadState& thread, Module& module, const std::string& path, int nesting);
  static std::string path_in(const Module& parent, const Module& child);
  void tag_tensors(ThreadState& thread, Module& module);
  static void report(Module& module);
  void unname(Module& module, int nesting);
  void add_children(Module& module);
  void keep_number(const Module& root);
  std::uint32_t number_of_root(PyObject* object, const std::string& name);
  // Returns the modules with names. A copy, because a module that dies during an iteration is
  // removed from modules_. Valid until the next call.
  std::vector<PyObject*>& named();

  std::unordered_map<PyObject*, std::unique_ptr<Module>> modules_;
  std::uint64_t last_serial_ = 0;
  std::array<Module*, 1024> recent_{};
  std::unordered_map<std::uint32_t, std::string> paths_;  // of layers
  std::unordered_map<std::string, std::unordered_set<std::uint32_t>> root_numbers_;
  // The roots that were live when the hooks were last removed: the next recording gives them the
  // same paths.
  struct KeptNumber {
    PyObject* weak = nullptr;
    std::string name;  // of the class
    std::uint32_t number = 0;
  };
  std::unordered_map<PyObject*, KeptNumber> kept_;
};

Modules& modules();

// torch.nn.Module; set when the Python module is loaded.
void set_module_class(PyTypeObject* type);
bool is_module(PyObject* object);

// Watches calls of modules, which set the layer: replaces the C slot behind the call in nn.Module
// and each subclass. Python sees no change.
void watch_calls_of(PyTypeObject* type);
void watch_calls(PyTypeObject* root);  // and all subclasses that are not observed yet
void watch_new_classes();              // cheap if there are none
void stop_watching_calls();
// The function that runs each call that is watched.
void (*boundary_of_calls())();

}  // namespace plimsoll::libtorch
