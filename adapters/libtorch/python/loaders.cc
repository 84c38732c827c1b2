#include "python/loaders.h"

#include <Python.h>

#include <array>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

#include "python/objects.h"
#include "tensors.h"

namespace plimsoll::libtorch {
namespace {

struct WatchedIterator {
  const char* name;
  PyTypeObject* type = nullptr;  // retained while its slot contains our function
};
std::array<WatchedIterator, 2> g_iterators{WatchedIterator{"_SingleProcessDataLoaderIter"},
                                           WatchedIterator{"_MultiProcessingDataLoaderIter"}};
// CPython's slot for a `__next__` in Python. Both classes have it. A subclass may inherit our
// function, and keeps it.
iternextfunc g_original = nullptr;

// Weak references to the iterators that have returned a batch.
std::vector<Reference>& iterators() {
  static Immortal<std::vector<Reference>> weak;
  return weak.get();
}

void remember(PyObject* iterator) {
  std::vector<Reference>& known = iterators();
  std::erase_if(known,
                [](const Reference& weak) { return PyWeakref_GetObject(weak.get()) == Py_None; });
  for (const Reference& weak : known) {
    if (PyWeakref_GetObject(weak.get()) == iterator) return;
  }
  Reference weak = Reference::steal(PyWeakref_NewRef(iterator, nullptr));
  if (weak) known.push_back(std::move(weak));
}

void record_batch(ThreadState& thread, PyObject* batch) {
  poll_foreign_storages(thread);
  settle_operator(thread, PLIMSOLL_STACK_BASE);
  const std::uint8_t phase = std::exchange(thread.context->phase, PLIMSOLL_PHASE_DATA);
  for_each_tensor(batch, Path("batch"), [&](const Path& path, const at::Tensor& tensor) {
    if (is_borrowed(tensor)) {
      tag_tensor(thread, tensor, PLIMSOLL_ROLE_INPUT, name_id(path.text()));
    }
  });
  settle_operator(thread, PLIMSOLL_STACK_BASE);  // what was adopted is of no operator
  thread.context->phase = phase;
}

PyObject* watched_next(PyObject* self) {
  PyObject* batch = g_original(self);
  if (batch == nullptr || !is_attached()) return batch;
  try {
    remember(self);
    record_batch(thread_state(), batch);
  } catch (const std::exception&) {  // out of memory must not stop the program
    count_lost_detail();
  }
  PyErr_Clear();
  return batch;
}

template <typename Visit>
void for_each_in_queue(PyObject* queue, Visit&& visit) {
  static PyObject* items_name = interned("queue");
  const Reference items = own_attribute(queue, items_name);
  if (!items || Py_TYPE(items.get())->tp_name != std::string_view("collections.deque")) return;
  const Reference each = Reference::steal(PyObject_GetIter(items.get()));
  while (each) {
    const Reference item = Reference::steal(PyIter_Next(each.get()));
    if (!item) break;
    visit(item.get());
  }
  PyErr_Clear();
}

}  // namespace

void watch_loaders() {
  const Reference name = Reference::steal(PyUnicode_FromString("torch.utils.data.dataloader"));
  const Reference module = Reference::steal(name ? PyImport_GetModule(name.get()) : nullptr);
  for (WatchedIterator& each : g_iterators) {
    Reference found =
        Reference::steal(module ? PyObject_GetAttrString(module.get(), each.name) : nullptr);
    PyErr_Clear();
    if (!found || PyType_Check(found.get()) == 0) continue;
    auto* type = reinterpret_cast<PyTypeObject*>(found.get());
    if (type->tp_iternext == nullptr || type->tp_iternext == watched_next) continue;
    if (g_original != nullptr && type->tp_iternext != g_original) continue;
    g_original = type->tp_iternext;
    Py_XDECREF(reinterpret_cast<PyObject*>(std::exchange(each.type, type)));
    Py_INCREF(type);
    type->tp_iternext = watched_next;
  }
}

void stop_watching_loaders() {
  for (WatchedIterator& each : g_iterators) {
    if (each.type == nullptr) continue;
    if (each.type->tp_iternext == watched_next) each.type->tp_iternext = g_original;
    Py_DECREF(reinterpret_cast<PyObject*>(std::exchange(each.type, nullptr)));
  }
  iterators().clear();
}

std::unordered_set<const c10::StorageImpl*> delivered_ahead() {
  static PyObject* tasks_name = interned("_task_info");
  static PyObject* queue_name = interned("_data_queue");
  std::unordered_set<const c10::StorageImpl*> storages;
  const auto add = [&](const Path& /*path*/, const at::Tensor& tensor) {
    if (const c10::StorageImpl* storage = recorded_storage(tensor)) storages.insert(storage);
  };
  for (const Reference& weak : iterators()) {
    PyObject* iterator = PyWeakref_GetObject(weak.get());
    if (iterator == Py_None) continue;
    for_each_tensor(own_attribute(iterator, tasks_name).get(), Path(""), add);
    // With pinned memory, a thread moves the batches into a queue of this process.
    const Reference queue = own_attribute(iterator, queue_name);
    if (!queue) continue;
    for_each_in_queue(queue.get(), [&](PyObject* item) { for_each_tensor(item, Path(""), add); });
  }
  return storages;
}

}  // namespace plimsoll::libtorch
