// Names for the references of a chain: attributes, items, locals, variables of closures. Some
// references are not shown: those to an object's dict, to the cell of a variable, to the object of
// C++ behind a tensor.
#pragma once

#include <Python.h>

#include <cstdint>
#include <functional>
#include <string>

#include "plimsoll/holders_c.h"
#include "python/holders/table.h"

namespace plimsoll::libtorch::holders {

// How the references of an object are named, if not by its own type.
enum class Role : std::uint8_t {
  kNone,
  kAttributes,  // a dict of attributes
  kParts,       // a dict of a module's parameters, buffers or modules
  kLocals,      // a dict of local variables
  kKeywords,    // the dict of a function's keyword defaults
  kLocalDicts,  // of a threading.local: a dict of dicts of attributes
  kClosure,     // the tuple of a function's cells
  kDefaults,    // the tuple of a function's defaults
  kCell,        // has the name of the reference to it
  kTraceback    // of an exception, or the next of another
};

struct ReferenceName {
  plimsoll_link_kind kind = PLIMSOLL_LINK_OTHER;
  std::string name;
  std::string attribute;  // of the object, in which the element is; empty: the object itself
  bool is_shown = true;
  bool is_element = false;    // of a container that may contain many like it
  Role role = Role::kNone;    // of what it refers to
  PyObject* owner = nullptr;  // the function of a closure or of defaults
};

using VisitName = std::function<void(const void* target, ReferenceName&& name)>;

// Names the references of an entry. One that the visitor has seen before has a better name.
// `as`: the reference to the entry itself.
void for_each_name(const Entry& entry, const ReferenceName& as, const VisitName& visit);

// What a link shows of the object it leads to.
struct Description {
  std::string type;
  std::string function;  // of a traceback
  std::string file;
  int line = 0;
  std::uint64_t length = 0;
  std::uint64_t limit = 0;
};
Description describe(const Entry& entry);
std::string type_of(const Entry& entry);

// Whether it contains elements and can lose them.
bool is_mutable_container(const Entry& entry);

}  // namespace plimsoll::libtorch::holders
