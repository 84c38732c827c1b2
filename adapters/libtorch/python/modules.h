// The modules of the program: their names, their parameters and buffers. All under the GIL.
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
  PyObject* object = nullptr;  // not owned: `weak` says when it dies
  PyObject* weak = nullptr;
  PyObject* parent = nullptr;     // the module it was registered in last; maybe dead
  std::string attribute;          // under which name
  std::uint32_t layer = 0;        // 0: not named yet
  std::string path;               // "UNet.down.0.conv"
  std::uint32_t root_number = 0;  // of its class, if it is a root; from 1
  bool has_wrappers = false;      // parameters that are shards, maybe, and whole at other times
  TaggedStorages tagged;
};

class Modules {
 public:
  // Null, if the module cannot be watched.
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
  // Its layer; names it and all that belong to it when it is called for the first time.
  std::uint32_t layer_of_called(ThreadState& thread, Module& module) {
    return module.layer != 0 ? module.layer : name_called(thread, module);
  }
  // Names every root that has a parameter or buffer, called or not.
  void name_all(ThreadState& thread);
  // After a call of a module that has wrappers: its parameters may be gathered now.
  void tag_called(ThreadState& thread, PyObject* object);
  // Tells the parameters and buffers that are new since the last time.
  void tag_changed(ThreadState& thread);
  // Records the gradients of all parameters that are new since the last time.
  void tag_gradients(ThreadState& thread);

 private:
  // Where a module is found that was met lately, without asking modules_.
  Module*& recent_of(PyObject* module) {
    return recent_[(reinterpret_cast<std::uintptr_t>(module) >> 4U) % recent_.size()];
  }
  std::uint32_t name_called(ThreadState& thread, Module& module);
  Module* root_of(Module& module);
  void name_root(ThreadState& thread, Module& root);
  void name_tree(ThreadState& thread, Module& module, const std::string& path, int nesting);
  static std::string path_in(const Module& parent, const Module& child);
  void tag_tensors(ThreadState& thread, Module& module);
  void unname(Module& module, int nesting);
  void add_children(Module& module);
  void keep_number(const Module& root);
  std::uint32_t number_of_root(PyObject* object, const std::string& name);
  // A copy, until the next call: a module that dies meanwhile leaves modules_.
  std::vector<PyObject*>& named();

  std::unordered_map<PyObject*, std::unique_ptr<Module>> modules_;
  std::array<Module*, 1024> recent_{};
  std::unordered_map<std::uint32_t, std::string> paths_;  // of layers
  std::unordered_map<std::string, std::unordered_set<std::uint32_t>> root_numbers_;
  // Of the roots that lived when the hooks were last taken out: the next recording gives them the
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

// Calls of modules set the layer: the C slot behind the call is replaced in nn.Module and each
// class below it. Nothing that Python can see changes.
void watch_calls_of(PyTypeObject* type);
void watch_calls(PyTypeObject* root);  // and of all classes below it, unless they are watched
void watch_new_classes();              // cheap, where there are none
void stop_watching_calls();

}  // namespace plimsoll::libtorch
