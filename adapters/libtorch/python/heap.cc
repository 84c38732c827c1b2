#include "python/heap.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace plimsoll::libtorch {
namespace {

PyTypeObject* g_searched_module = nullptr;
PyTypeObject* g_searched_optimizer = nullptr;

// ---- kinds of objects ---------------------------------------------------------------------------

// Classifies objects by their type. Hundreds of thousands of them have a few thousand types.
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

// CPython's PyGC_Head, which precedes each object: a ring for each generation.
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

// The generations in CPython's layout of its collector, the youngest first.
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

// Returns null if this Python's collector has another layout.
Generations* find_generations() {
#if PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED)
  // The newest object is the last of the youngest ring, before the ring's head.
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

// An empty list that marks the end of the last search. Newer objects follow it in its ring or are
// in a younger generation. A collection does not move it, because C++ holds a reference to it.
Reference& marker() {
  static Immortal<Reference> object;
  return object.get();
}

void place_marker() {
  marker() = Reference::steal(PyList_New(0));
  PyErr_Clear();
}

// ---- a walk of all objects ----------------------------------------------------------------------

constexpr std::size_t kRings = 4;
constexpr std::size_t kAnchors = 96;

// Weak references to functions spread evenly over the rings, where the lanes of a walk begin.
// Functions are numerous, long-lived and weakly referenceable.
std::vector<Reference>& anchors() {
  static Immortal<std::vector<Reference>> weak;
  return weak.get();
}

// A walk waits for memory at each object. Several lanes overlap these waits: each begins at its own
// node and ends where another one began.
class ParallelWalk {
 public:
  explicit ParallelWalk(Generations& generations) {
    for (Generation& generation : generations.collected) add(&generation.head);
    add(&generations.permanent.head);
    for (const Reference& weak : anchors()) add_object(PyWeakref_GetObject(weak.get()));
    // With fewer than a quarter of the anchors left, this walk chooses new ones.
    collects_anchors_ = lanes_.size() < kRings + kAnchors / 4;
    if (collects_anchors_) add_imported_modules();
  }

  template <typename Visit>
  void run(Visit&& visit) {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      if (i >= kRings) visit(object_of(lanes_[i].at));
      lanes_[i].at = next_of(lanes_[i].at);
    }
    while (!lanes_.empty()) {
      for (std::size_t i = 0; i < lanes_.size();) {
        Lane& lane = lanes_[i];
        Node* node = lane.at;
        if (is_start(node)) {
          lane = lanes_.back();
          lanes_.pop_back();
          continue;
        }
        lane.at = next_of(node);
        __builtin_prefetch(lane.at);
        PyObject* object = object_of(node);
        visit(object);
        if (collects_anchors_) consider_as_anchor(lane, object);
        ++i;
      }
    }
  }

  // May trigger a garbage collection, so it runs only after the walk.
  void renew_anchors() {
    if (!collects_anchors_) return;
    const std::size_t spacing = objects_ / kAnchors;
    std::vector<std::size_t> passed(starts_.size());
    std::vector<Reference> kept;
    for (const PassedFunction& each : functions_) {
      passed[each.lane] += each.objects;
      if (passed[each.lane] < spacing) continue;
      passed[each.lane] = 0;
      kept.push_back(Reference::borrow(each.function));
    }
    anchors().clear();
    for (const Reference& function : kept) {
      Reference weak = Reference::steal(PyWeakref_NewRef(function.get(), nullptr));
      if (weak) anchors().push_back(std::move(weak));
    }
    PyErr_Clear();
  }

 private:
  static constexpr std::size_t kSlots = 16384;
  static constexpr std::size_t kImported = 32;
  static constexpr std::uint32_t kBetweenFunctions = 128;  // objects of a lane
  struct Lane {
    Node* at = nullptr;
    std::uint32_t number = 0;
    std::uint32_t passed = 0;  // objects since its last function
  };
  struct PassedFunction {
    PyObject* function = nullptr;
    std::uint32_t lane = 0;
    std::uint32_t objects = 0;  // of the lane, since its last function
  };

  static std::size_t slot_of(const Node* node) {
    return (reinterpret_cast<std::uintptr_t>(node) >> 4U) % kSlots;
  }
  bool is_start(const Node* node) const {
    return may_start_[slot_of(node)] && std::ranges::find(starts_, node) != starts_.end();
  }
  void add(Node* node) {
    starts_.push_back(node);
    lanes_.push_back({.at = node, .number = static_cast<std::uint32_t>(lanes_.size())});
    may_start_[slot_of(node)] = true;
  }
  void add_object(PyObject* object) {
    const bool is_in_ring = PyObject_IS_GC(object) != 0 && PyObject_GC_IsTracked(object) != 0;
    if (is_in_ring && !is_start(node_of(object))) add(node_of(object));
  }
  void add_imported_modules() {
    PyObject* imported = PyImport_GetModuleDict();
    const Py_ssize_t stride = 1 + PyDict_Size(imported) / static_cast<Py_ssize_t>(kImported);
    PyObject *name = nullptr, *module = nullptr;
    Py_ssize_t position = 0;
    for (Py_ssize_t i = 0; PyDict_Next(imported, &position, &name, &module) != 0; ++i) {
      if (i % stride == 0) add_object(module);
    }
  }
  void consider_as_anchor(Lane& lane, PyObject* object) {
    ++objects_;
    if (++lane.passed < kBetweenFunctions || PyFunction_Check(object) == 0) return;
    functions_.push_back({object, lane.number, lane.passed});
    lane.passed = 0;
  }

  std::vector<Node*> starts_;
  std::vector<Lane> lanes_;
  std::array<bool, kSlots> may_start_{};
  bool collects_anchors_ = false;
  std::size_t objects_ = 0;
  std::vector<PassedFunction> functions_;
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

// gc.get_objects, looked up before the first hook runs: an import can run the program's code.
Reference& get_objects() {
  static Immortal<Reference> function;
  return function.get();
}

// If the layout is unknown, uses gc.get_objects(): all objects, or the two younger generations.
void add_by_function(Sorter& sorter, HeapPart part) {
  PyObject* function = get_objects().get();
  for (int generation = part == HeapPart::kAll ? -1 : 1; generation >= -1; --generation) {
    if (part == HeapPart::kNew && generation < 0) break;
    const Reference list =
        Reference::steal(part == HeapPart::kAll ? PyObject_CallFunction(function, nullptr)
                                                : PyObject_CallFunction(function, "i", generation));
    add_list(sorter, list.get());
  }
  PyErr_Clear();
}

}  // namespace

bool prepare_searches(PyTypeObject* module_class, PyTypeObject* optimizer_class) {
  g_searched_module = module_class;
  g_searched_optimizer = optimizer_class;
  const Reference gc = Reference::steal(PyImport_ImportModule("gc"));
  get_objects() = Reference::steal(gc ? PyObject_GetAttrString(gc.get(), "get_objects") : nullptr);
  return static_cast<bool>(get_objects());
}

HeapObjects search_heap(HeapPart part) {
  Sorter sorter;
  const auto add = [&](PyObject* object) { sorter.add(object); };
  Generations* generations = find_generations();
  if (generations == nullptr) {
    add_by_function(sorter, part);
  } else if (part == HeapPart::kNew && marker()) {
    walk_new(*generations, add);
  } else {
    ParallelWalk walk(*generations);
    walk.run(add);
    walk.renew_anchors();
  }
  if (generations != nullptr) place_marker();
  return sorter.take();
}

void for_each_tracked(const std::function<void(PyObject*)>& visit) {
  static Generations* const generations = find_generations();
  if (generations != nullptr) ParallelWalk(*generations).run(visit);
}

void forget_searches() { marker() = Reference(); }

}  // namespace plimsoll::libtorch
