#include "python/holders/script_edges.h"

#include <ATen/core/ivalue.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/jit/api/object.h>

#include <cstring>

namespace plimsoll::libtorch::holders {
namespace {

constexpr int kMaxNested = 8;

void visit_value(const c10::IValue& value, const ScriptPlace& place, const VisitScript& visit,
                 int nested);

void visit_object(const c10::ivalue::Object& object, const std::string& path,
                  const VisitScript& visit, int nested) {
  const auto type = object.type();
  for (std::size_t i = 0; type != nullptr && i < object.slots().size(); ++i) {
    const std::string& name = type->getAttributeName(i);
    visit_value(object.slots()[i], {path.empty() ? name : path + "." + name, false}, visit,
                nested + 1);
  }
}

void visit_value(const c10::IValue& value, const ScriptPlace& place, const VisitScript& visit,
                 int nested) {
  if (nested > kMaxNested) return;
  const ScriptPlace inner{place.attribute, true};
  if (value.isTensor()) {
    const c10::TensorImpl* tensor = value.unsafeToTensorImpl();
    if (tensor != nullptr && tensor != c10::UndefinedTensorImpl::singleton()) visit(*tensor, place);
  } else if (value.isList()) {
    for (const c10::IValue& each : value.toListRef()) visit_value(each, inner, visit, nested + 1);
  } else if (value.isTuple()) {
    for (const c10::IValue& each : value.toTupleRef().elements()) {
      visit_value(each, inner, visit, nested + 1);
    }
  } else if (value.isGenericDict()) {
    for (const auto& item : value.toGenericDict()) {
      visit_value(item.value(), inner, visit, nested + 1);
    }
  } else if (value.isObject()) {
    visit_object(value.toObjectRef(), place.attribute, visit, nested);
  }
}

}  // namespace

bool is_script_type(PyTypeObject* type) {
  return std::strcmp(type->tp_name, "torch._C.ScriptModule") == 0 ||
         std::strcmp(type->tp_name, "torch._C.ScriptObject") == 0;
}

void for_each_script_tensor(PyObject* object, const VisitScript& visit) {
  const auto* instance = reinterpret_cast<pybind11::detail::instance*>(object);
  if (!instance->simple_layout || instance->simple_value_holder[0] == nullptr) return;
  const auto& script = *static_cast<const torch::jit::Object*>(instance->simple_value_holder[0]);
  const auto value = script._ivalue();
  if (value) visit_object(*value, "", visit, 0);
}

}  // namespace plimsoll::libtorch::holders
