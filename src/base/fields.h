// Field lists: a plain result struct names its members once, and JSON, its schema, Python dicts and
// documentation are generated from that list. A struct takes part by having
//
//   static constexpr auto fields() {
//     return base::field_list(Field{"bytes", &PeakReport::bytes, "Live bytes at the peak."}, ...);
//   }
//
// Values may be: bool, integers, double, std::string, enums with to_string, std::optional (JSON
// null when empty: unknown), std::vector, and structs with fields(). A struct with a member
// `is_known` that is no field is null when it is false; its numbers are then 0. Instead of a data
// member, a field may name a const member function that returns such a value.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/json_writer.h"

namespace plimsoll::base {

template <typename Owner, typename Member>
struct Field {
  const char* name;
  Member Owner::* member;  // of data, or a const member function
  const char* doc;

  constexpr decltype(auto) of(const Owner& owner) const {
    if constexpr (std::is_function_v<Member>) {
      return (owner.*member)();
    } else {
      return (owner.*member);
    }
  }
  using Value = std::remove_cvref_t<std::invoke_result_t<Member Owner::*, const Owner&>>;
};
template <typename Owner, typename Member>
Field(const char*, Member Owner::*, const char*) -> Field<Owner, Member>;

// The fields of a struct, in order: a function that visits them. With a std::tuple, whose
// constructors have constraints on all elements, a file that includes reports takes about twice as
// long to compile.
template <typename... Fields>
constexpr auto field_list(Fields... fields) {
  return [=](auto&& visitor) { (visitor(fields), ...); };
}

template <typename T>
concept HasFields = requires { T::fields(); };

template <typename T>
concept CanBeUnknown = HasFields<T> && requires(const T& value) {
  { value.is_known } -> std::convertible_to<bool>;
};

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

template <typename T, typename Visitor>
void for_each_field(Visitor&& visitor) {
  T::fields()(visitor);
}

template <typename T>
void write_json(JsonWriter& json, const T& value) {
  if constexpr (CanBeUnknown<T>) {
    if (!value.is_known) {
      json.null();
      return;
    }
  }
  if constexpr (HasFields<T>) {
    json.begin_object();
    for_each_field<T>([&](const auto& field) {
      json.key(field.name);
      write_json(json, field.of(value));
    });
    json.end_object();
  } else if constexpr (IsOptional<T>::value) {
    if (value.has_value()) {
      write_json(json, *value);
    } else {
      json.null();
    }
  } else if constexpr (IsVector<T>::value) {
    json.begin_array();
    for (const auto& item : value) write_json(json, item);
    json.end_array();
  } else if constexpr (std::is_same_v<T, bool>) {
    json.boolean(value);
  } else if constexpr (std::is_enum_v<T>) {
    json.string(to_string(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    json.number(static_cast<double>(value));
  } else if constexpr (std::is_signed_v<T>) {
    json.number(static_cast<std::int64_t>(value));
  } else if constexpr (std::is_unsigned_v<T>) {
    json.number(static_cast<std::uint64_t>(value));
  } else {
    json.string(std::string_view(value));
  }
}

}  // namespace plimsoll::base
