#include "python/holders/find.h"

#include <c10/core/StorageImpl.h>

#include <chrono>
#include <exception>
#include <memory>
#include <vector>

#include "attachment.h"
#include "python/holders/chains.h"
#include "python/holders/cut.h"
#include "python/holders/graph_edges.h"
#include "python/holders/roots.h"
#include "python/holders/walk.h"
#include "python/objects.h"
#include "python/threads.h"
#include "thread_state.h"

namespace plimsoll::libtorch::holders {
namespace {

// A collection would run the program's code, and would free the evidence.
class CollectorPause {
 public:
  CollectorPause() : was_enabled_(PyGC_Disable() != 0) {}
  ~CollectorPause() {
    if (was_enabled_) PyGC_Enable();
  }
  CollectorPause(const CollectorPause&) = delete;
  CollectorPause& operator=(const CollectorPause&) = delete;

 private:
  bool was_enabled_;
};

// Keeps an exception that is being raised.
class ErrorPause {
 public:
  ErrorPause() { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~ErrorPause() { PyErr_Restore(type_, value_, traceback_); }
  ErrorPause(const ErrorPause&) = delete;
  ErrorPause& operator=(const ErrorPause&) = delete;

 private:
  PyObject *type_ = nullptr, *value_ = nullptr, *traceback_ = nullptr;
};

// What is found, as texts and numbers only: no object of the program is referred to.
struct Found {
  std::vector<std::string> texts;
  std::vector<plimsoll_holder_link> links;  // with numbers of texts
  std::vector<plimsoll_held> held;
  std::vector<plimsoll_holder_cut> cuts;
  plimsoll_holders summary{};
};

std::uint8_t device_of(const c10::StorageImpl& storage) {
  if (storage.device_type() != c10::DeviceType::CUDA || !is_attached()) return kCpu;
  return recorder().device(PLIMSOLL_DEVICE_CUDA, storage.device().index());
}

void add_held(const Table& table, const Chains& chains, Found& found) {
  for (const std::uint32_t each : chains.storages()) {
    const Entry& entry = table[each];
    if (entry.link == 0) continue;
    auto& storage = *static_cast<c10::StorageImpl*>(const_cast<void*>(entry.address));
    plimsoll_held row{};
    row.address = reinterpret_cast<std::uintptr_t>(storage._mutable_data_ptr_no_checks().get());
    row.link = entry.link;
    row.device = device_of(storage);
    found.held.push_back(row);
  }
}

void add_links(const Chains& chains, Found& found) {
  found.texts = chains.texts().all();
  for (std::uint32_t i = 1; i <= chains.size(); ++i) {
    const Link& link = chains[i];
    plimsoll_holder_link row{};
    row.parent = link.parent;
    row.kind = static_cast<std::uint8_t>(link.kind);
    row.name = link.name;
    row.type = link.type;
    row.file = link.file;
    row.line = link.line;
    row.length = link.length;
    row.limit = link.limit;
    found.links.push_back(row);
  }
}

void search(Walk& walk, PyObject* error, Passed passed, Found& found) {
  g_reads_graphs = true;
  forget_types();
  find_node_types();
  if (!walk.open()) return walk.end_early(PLIMSOLL_WALK_MEMORY);
  g_reads_graphs = add_roots(walk, error) && may_read_gradients();
  if (walk.run()) {
    for (PyObject* each : passed) walk.pass(each);
    if (walk.run_blocked()) walk.walk_rest();
  }
  if (!g_reads_graphs && walk.end() == PLIMSOLL_WALK_COMPLETE) {
    walk.end_early(PLIMSOLL_WALK_NODES);
  }
  Chains chains(walk);
  chains.build();
  // A reference that a walk without graphs has missed counts as one of native code.
  if (walk.end() == PLIMSOLL_WALK_COMPLETE || walk.end() == PLIMSOLL_WALK_NODES) {
    found.cuts = cut_holders(walk, chains);
  }
  add_links(chains, found);
  add_held(walk.table(), chains, found);
}

Found find(const Limits& limits, PyObject* error, Passed passed = {}) {
  const CollectorPause no_collection;
  const ErrorPause no_error;
  Found found;
  const Walk::Clock::time_point began = Walk::Clock::now();
  const auto walk = std::make_unique<Walk>(limits);
  try {
    search(*walk, error, passed, found);
  } catch (const std::exception&) {
    found = {};
    walk->end_early(PLIMSOLL_WALK_MEMORY);
  }
  found.summary.size_bytes = sizeof(plimsoll_holders);
  found.summary.end = static_cast<std::uint8_t>(walk->end());
  found.summary.objects = walk->objects();
  found.summary.nodes = walk->nodes();
  found.summary.duration_ns =
      static_cast<std::uint64_t>(std::chrono::nanoseconds(Walk::Clock::now() - began).count());
  return found;
}

bool parse(PyObject* args, Limits& limits, PyObject*& error) {
  unsigned int objects = 0, nodes = 0, milliseconds = 0;
  if (PyArg_ParseTuple(args, "|IIIO", &objects, &nodes, &milliseconds, &error) == 0) return false;
  if (objects != 0) limits.objects = std::min(objects, limits.objects);
  if (nodes != 0) limits.nodes = nodes;
  if (milliseconds != 0) limits.time = std::chrono::milliseconds(milliseconds);
  return true;
}

// ---- to the recorder ----------------------------------------------------------------------------

void report(Found& found) {
  std::vector<std::uint32_t> names(found.texts.size() + 1);
  for (std::size_t i = 0; i < found.texts.size(); ++i) names[i + 1] = name_id(found.texts[i]);
  for (plimsoll_holder_link& link : found.links) {
    link.name = names[link.name];
    link.type = names[link.type];
    link.file = names[link.file];
  }
  plimsoll_holders& all = found.summary;
  all.links = found.links.data();
  all.link_count = found.links.size();
  all.held = found.held.data();
  all.held_count = found.held.size();
  all.cuts = found.cuts.data();
  all.cut_count = found.cuts.size();
  recorder().holders(thread_state().context, &all);
}

// ---- to Python ----------------------------------------------------------------------------------

template <typename Rows, typename Make>
PyObject* list_of(const Rows& rows, Make&& make) {
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(rows.size()));
  for (std::size_t i = 0; list != nullptr && i < rows.size(); ++i) {
    PyObject* row = make(rows[i]);
    if (row == nullptr) {
      Py_DECREF(list);
      return nullptr;
    }
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), row);
  }
  return list;
}

PyObject* as_python(const Found& found) {
  const auto text = [&](std::uint32_t number) {
    return number == 0 ? "" : found.texts[number - 1].c_str();
  };
  PyObject* links = list_of(found.links, [&](const plimsoll_holder_link& link) {
    return Py_BuildValue("(IisssIKK)", link.parent, int{link.kind}, text(link.name),
                         text(link.type), text(link.file), link.line,
                         static_cast<unsigned long long>(link.length),
                         static_cast<unsigned long long>(link.limit));
  });
  PyObject* held = list_of(found.held, [](const plimsoll_held& row) {
    return Py_BuildValue("(KiI)", static_cast<unsigned long long>(row.address), int{row.device},
                         row.link);
  });
  PyObject* cuts = list_of(found.cuts, [](const plimsoll_holder_cut& cut) {
    return Py_BuildValue("(IIKKKKi)", cut.link, cut.other,
                         static_cast<unsigned long long>(cut.freed_count),
                         static_cast<unsigned long long>(cut.freed_bytes),
                         static_cast<unsigned long long>(cut.left_count),
                         static_cast<unsigned long long>(cut.left_bytes), int{cut.is_native});
  });
  return Py_BuildValue("{s:i,s:K,s:K,s:K,s:N,s:N,s:N}", "end", int{found.summary.end}, "objects",
                       static_cast<unsigned long long>(found.summary.objects), "nodes",
                       static_cast<unsigned long long>(found.summary.nodes), "duration_ns",
                       static_cast<unsigned long long>(found.summary.duration_ns), "links", links,
                       "held", held, "cuts", cuts);
}

Walk::Clock::time_point g_due{};  // of the next walk for memory that grows

// Returns whether the recorder took them.
bool find_and_report(const Limits& limits, PyObject* error, Passed passed = {}) noexcept {
  if (!is_attached()) return false;
  try {
    Found found = find(limits, error, passed);
    report(found);
    return true;
  } catch (const std::exception&) {
    count_lost_detail();
    return false;
  }
}

}  // namespace

void begin_growth() noexcept { g_due = {}; }

void find_wanted_holders(Passed passed) noexcept {
  constexpr int kShare = 100;  // of the time, walks that nobody asked for take at most one part
  const int wanted = recorder().wants_holders();
  if (wanted == PLIMSOLL_HOLDERS_NOT_WANTED) return;
  const Walk::Clock::time_point began = Walk::Clock::now();
  if (wanted == PLIMSOLL_HOLDERS_OF_GROWTH && began < g_due) return;
  find_and_report({}, nullptr, passed);
  const Walk::Clock::time_point ended = Walk::Clock::now();
  g_due = ended + kShare * (ended - began);
}

PyObject* find_holders(PyObject* /*self*/, PyObject* args) {
  Limits limits;
  PyObject* error = nullptr;
  if (!parse(args, limits, error)) return nullptr;
  return PyBool_FromLong(find_and_report(limits, error) ? 1 : 0);
}

PyObject* holders_as_python(PyObject* /*self*/, PyObject* args) {
  Limits limits;
  PyObject* error = nullptr;
  if (!parse(args, limits, error)) return nullptr;
  try {
    return as_python(find(limits, error));
  } catch (const std::exception&) {
    return PyErr_NoMemory();
  }
}

}  // namespace plimsoll::libtorch::holders
