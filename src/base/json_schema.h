// The JSON Schema (draft 2020-12) of the output of base::write_json, from the same field lists.
// Structs become $defs under their C++ names; optional means nullable; enums are strings, whose
// values are listed in the field's description. Fields may be added within a major version, so
// unknown properties are allowed.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/fields.h"
#include "base/json_writer.h"

namespace plimsoll::base {

// "GroupRow" for plimsoll::report::GroupRow.
template <typename T>
std::string_view type_name() {
  constexpr std::string_view kText = __PRETTY_FUNCTION__;  // "... [with T = a::b::Name; ...]"
  constexpr std::size_t kFrom = kText.find("T = ") + 4;
  constexpr std::string_view kFull = kText.substr(kFrom, kText.find_first_of(";]", kFrom) - kFrom);
  constexpr std::size_t kColons = kFull.rfind("::");
  return kColons == std::string_view::npos ? kFull : kFull.substr(kColons + 2);
}

using SchemaDefinitions = std::map<std::string, std::function<void(JsonWriter&)>, std::less<>>;

template <typename T>
void write_schema_members(JsonWriter& json);  // of the object that the caller opened

// The JSON type name of a scalar.
template <typename T>
constexpr std::string_view scalar_schema_type() {
  if constexpr (std::is_same_v<T, bool>) return "boolean";
  if constexpr (std::is_floating_point_v<T>) return "number";
  if constexpr (std::is_integral_v<T>) return "integer";
  return "string";
}

template <typename T>
void write_schema_type(JsonWriter& json, bool is_nullable) {
  json.key("type");
  if (is_nullable) json.begin_array();
  json.string(scalar_schema_type<T>());
  if (is_nullable) {
    json.string("null");
    json.end_array();
  }
  if constexpr (std::is_unsigned_v<T> && !std::is_same_v<T, bool>) {
    json.key("minimum");
    json.number(std::uint64_t{0});
  }
}

template <typename T>
void write_schema_reference(JsonWriter& json) {
  json.key("$ref");
  json.string("#/$defs/" + std::string(type_name<T>()));
}

template <typename T>
void write_schema_reference_or_null(JsonWriter& json) {
  json.key("anyOf");
  json.begin_array();
  json.begin_object();
  write_schema_reference<T>(json);
  json.end_object();
  json.begin_object();
  json.key("type");
  json.string("null");
  json.end_object();
  json.end_array();
}

template <typename T>
void write_schema_value(JsonWriter& json) {
  if constexpr (CanBeUnknown<T>) {
    write_schema_reference_or_null<T>(json);
  } else if constexpr (HasFields<T>) {
    write_schema_reference<T>(json);
  } else if constexpr (IsVector<T>::value) {
    json.key("type");
    json.string("array");
    json.key("items");
    json.begin_object();
    write_schema_value<typename T::value_type>(json);
    json.end_object();
  } else if constexpr (IsOptional<T>::value) {
    using Inner = typename T::value_type;
    static_assert(!IsVector<Inner>::value, "a list that is not known is an empty one");
    if constexpr (HasFields<Inner>) {
      write_schema_reference_or_null<Inner>(json);
    } else {
      write_schema_type<Inner>(json, true);
    }
  } else {
    write_schema_type<T>(json, false);
  }
}

template <typename T>
void write_schema_members(JsonWriter& json) {
  json.key("type");
  json.string("object");
  json.key("properties");
  json.begin_object();
  for_each_field<T>([&]<typename Field>(const Field& field) {
    json.key(field.name);
    json.begin_object();
    json.key("description");
    json.string(field.doc);
    write_schema_value<typename Field::Value>(json);
    json.end_object();
  });
  json.end_object();
  json.key("required");
  json.begin_array();
  for_each_field<T>([&](const auto& field) { json.string(field.name); });
  json.end_array();
}

// Every struct that T's fields contain, at any depth.
template <typename T>
void collect_schema_definitions(SchemaDefinitions& definitions) {
  if constexpr (IsVector<T>::value || IsOptional<T>::value) {
    collect_schema_definitions<typename T::value_type>(definitions);
  } else if constexpr (HasFields<T>) {
    for_each_field<T>([&]<typename Field>(const Field&) {
      collect_schema_definitions<typename Field::Value>(definitions);
    });
    definitions.emplace(type_name<T>(), [](JsonWriter& json) { write_schema_members<T>(json); });
  }
}

// The complete schema document of T.
template <HasFields T>
void write_json_schema(JsonWriter& json, std::string_view title) {
  SchemaDefinitions definitions;
  collect_schema_definitions<T>(definitions);
  json.begin_object();
  json.key("$schema");
  json.string("https://json-schema.org/draft/2020-12/schema");
  json.key("title");
  json.string(title);
  write_schema_reference<T>(json);
  json.key("$defs");
  json.begin_object();
  for (const auto& [name, write] : definitions) {
    json.key(name);
    json.begin_object();
    write(json);
    json.end_object();
  }
  json.end_object();
  json.end_object();
}

}  // namespace plimsoll::base
