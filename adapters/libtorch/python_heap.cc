#include "python_heap.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace plimsoll::libtorch {
namespace {

PyTypeObject* g_searched_module = nullptr;
PyTypeObject* g_searched_optimizer = nullptr;

// ---- what an object is --------------------------------------------------------------------------

// Sorts objects by their type. Hundreds of thousands of them have a few thousand types.
class Sorter {
 public:
  void add(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    Entry& entry = entries_[(reinterpret_cast<std::uintptr_t>(type) >> 4U) % kEntries];
    if (entry.type != type) entry = {type, list_of(type)};
    if (entry.list != nullptr) entry.list->push_back(Reference::borrow(object));
  }
  HeapObjects take() { return std::move(objects_); }

 private:
  static constexpr std::size_t kEntries = 1024;
  struct Entry {
    PyTypeObject* type = nullptr;
    std::vector<Reference>* list = nullptr;
  };
  std::vector<Reference>* list_of(PyTypeObject* type) {
    auto* tensor = reinterpret_cast<PyTypeObject*>(THPVariableClass);
    if (PyType_IsSubtype(type, tensor) != 0) return &objects_.tensors;
    if (PyType_IsSubtype(type, g_searched_module) != 0) return &objects_.modules;
    return PyType_IsSubtype(type, g_searched_optimizer) != 0 ? &objects_.optimizers : nullptr;
  }
  HeapObjects objects_;
  std::array<Entry, kEntries> entries_{};
};

// ---- the collector's lists ----------------------------------------------------------------------

// CPython's PyGC_Head, which lies before each object: a ring for each generation.
struct Node {
  std::uintptr_t next;
  std::uintptr_t previous;  // its two lowest bits are flags
};
Node* next_of(const Node* node) { return reinterpret_cast<Node*>(node->next); }
Node* previous_of(const Node* node) {
  return reinterpret_cast<Node*>(node->previous & ~std::uintptr_t{3});
}
Node* node_of(PyObject* object) { return reinterpret_cast<Node*>(object) - 1; }
PyObject* object_of(Node* node) { return reinterpret_cast<PyObject*>(node + 1); }

// As CPython lays out its collector: the youngest generation first.
struct Generation {
  Node head;
  int threshold;
  int count;
};
struct Generations {
  std::array<Generation, 3> collected;
  Generation* youngest;
  Generation permanent;  // of gc.freeze()
};

bool is_ring(const Node& head) {
  return previous_of(next_of(&head)) == &head && next_of(previous_of(&head)) == &head;
}

// Null where this Python's collector has another layout.
Generations* find_generations() {
#if PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED)
  // The newest object is the last of the youngest ring: behind it comes the ring's head.
  const Reference newest = Reference::steal(PyList_New(0));
  if (!newest) return nullptr;
  auto* found = reinterpret_cast<Generations*>(next_of(node_of(newest.get())));
  if (found->youngest != found->collected.data() || !is_ring(found->permanent.head)) return nullptr;
  const bool are_rings =
      std::ranges::all_of(found->collected, [](const Generation& g) { return is_ring(g.head); });
  return are_rings ? found : nullptr;
#else
  return nullptr;
#endif
}

// An empty list of ours. Objects created after it are linked behind it, or in a younger generation:
// what is referenced from outside keeps its place in a collection.
Reference& marker() {
  static auto* object = new Reference;
  return *object;
}

void place_marker() {
  marker() = Reference::steal(PyList_New(0));
  PyErr_Clear();
}

// A walk has to wait for memory at each object. Several walks at once wait together: they begin at
// imported modules, which lie all over the rings, and end where another one began.
class ParallelWalk {
 public:
  explicit ParallelWalk(Generations& generations) {
    for (Generation& generation : generations.collected) add(&generation.head);
    add(&generations.permanent.head);
    PyObject* imported = PyImport_GetModuleDict();
    const Py_ssize_t stride = 1 + PyDict_Size(imported) / static_cast<Py_ssize_t>(kImported);
    PyObject *name = nullptr, *module = nullptr;
    Py_ssize_t position = 0;
    for (Py_ssize_t i = 0; PyDict_Next(imported, &position, &name, &module) != 0; ++i) {
      if (i % stride != 0 || PyObject_IS_GC(module) == 0 || PyObject_GC_IsTracked(module) == 0) {
        continue;
      }
      if (!is_start(node_of(module))) add(node_of(module));
    }
  }

  template <typename Visit>
  void run(Visit&& visit) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (i >= kRings) visit(object_of(starts_[i]));
      at_[i] = next_of(starts_[i]);
    }
    for (std::size_t running = count_; running > 0;) {
      for (std::size_t i = 0; i < running;) {
        Node* node = at_[i];
        if (is_start(node)) {
          at_[i] = at_[--running];
          continue;
        }
        at_[i] = next_of(node);
        __builtin_prefetch(at_[i]);
        visit(object_of(node));
        ++i;
      }
    }
  }

 private:
  static constexpr std::size_t kRings = 4;
  static constexpr std::size_t kImported = 32;
  static constexpr std::size_t kMost = kRings + kImported;
  static std::size_t slot_of(const Node* node) {
    return (reinterpret_cast<std::uintptr_t>(node) >> 4U) % 4096;
  }
  bool is_start(const Node* node) const {
    return may_start_[slot_of(node)] &&
           std::find(starts_.begin(), starts_.begin() + static_cast<long>(count_), node) !=
               starts_.begin() + static_cast<long>(count_);
  }
  void add(Node* node) {
    if (count_ == kMost) return;
    starts_[count_++] = node;
    may_start_[slot_of(node)] = true;
  }

  std::array<Node*, kMost> starts_{};
  std::array<Node*, kMost> at_{};
  std::size_t count_ = 0;
  std::array<bool, 4096> may_start_{};
};

template <typename Visit>
void walk_new(Generations& generations, Visit&& visit) {
  const Node* end = node_of(marker().get());
  for (Generation& generation : generations.collected) {
    const Node* head = &generation.head;
    for (Node* node = previous_of(head); node != head; node = previous_of(node)) {
      if (node == end) return;
      visit(object_of(node));
    }
  }
}

void add_list(Sorter& sorter, PyObject* list) {
  if (list == nullptr || PyList_Check(list) == 0) return;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) sorter.add(PyList_GET_ITEM(list, i));
}

// Where the layout is unknown, gc.get_objects(): all of them, or the two younger generations.
void add_by_module(Sorter& sorter, HeapPart part) {
  const Reference gc = Reference::steal(PyImport_ImportModule("gc"));
  for (int generation = part == HeapPart::kAll ? -1 : 1; gc && generation >= -1; --generation) {
    if (part == HeapPart::kNew && generation < 0) break;
    const Reference list = Reference::steal(
        part == HeapPart::kAll ? PyObject_CallMethod(gc.get(), "get_objects", nullptr)
                               : PyObject_CallMethod(gc.get(), "get_objects", "i", generation));
    add_list(sorter, list.get());
  }
  PyErr_Clear();
}

}  // namespace

void set_searched_classes(PyTypeObject* module_class, PyTypeObject* optimizer_class) {
  g_searched_module = module_class;
  g_searched_optimizer = optimizer_class;
}

HeapObjects search_heap(HeapPart part) {
  Sorter sorter;
  const auto add = [&](PyObject* object) { sorter.add(object); };
  Generations* generations = find_generations();
  if (generations == nullptr) {
    add_by_module(sorter, part);
  } else if (part == HeapPart::kNew && marker()) {
    walk_new(*generations, add);
  } else {
    ParallelWalk(*generations).run(add);
  }
  if (generations != nullptr) place_marker();
  return sorter.take();
}

void forget_searches() { marker() = Reference(); }

}  // namespace plimsoll::libtorch
