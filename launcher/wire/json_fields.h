// Any struct with `fields` to JSON and back, by walking its fields. Heavy (nlohmann): included by
// the codecs' sources only. Reading throws `nlohmann::json::exception` or std::runtime_error on a
// wrong type; the codecs turn that into an Error. Absent fields keep their defaults.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "launcher/wire/agent_message.h"
#include "scheduler/model/names.h"
#include "scheduler/model/result.h"

namespace muster {

using Json = nlohmann::json;

template <>
struct EnumWords<TreeEntry::Kind> {
  static constexpr auto words = std::to_array<std::string_view>({"directory", "file", "link"});
};

template <class T>
concept HasFields = requires(T& t) { T::fields(t, [](const char*, auto&) {}); };

// Never a rounded or a cut number: what does not fit is a wrong type.
template <class T>
T whole(const Json& in) {
  if (in.is_number_unsigned()) {
    const auto value = in.get<std::uint64_t>();
    if (std::in_range<T>(value)) return static_cast<T>(value);
  } else if (in.is_number_integer()) {
    const auto value = in.get<std::int64_t>();
    if (std::in_range<T>(value)) return static_cast<T>(value);
  }
  throw std::runtime_error("expected a whole number that fits its field");
}

// Of whatever fields are made of. An absent optional is left out.
template <class T>
void write_json(Json& out, const T& value) {
  if constexpr (HasFields<T>) {
    out = Json::object();
    T::fields(value, [&out](const char* name, const auto& field) {
      Json item;
      write_json(item, field);
      if (!item.is_null()) out[name] = std::move(item);
    });
  } else if constexpr (std::is_enum_v<T>) {
    out = word(value);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    out = value;
  } else if constexpr (std::is_same_v<T, Time>) {
    out = to_ms(value);
  } else if constexpr (requires { value.has_value(); }) {
    if (value) write_json(out, *value);
  } else if constexpr (requires { value.value; }) {  // an id
    out = value.value;
  } else if constexpr (requires { value.count(); }) {  // a duration
    out = value.count();
  } else if constexpr (requires { typename T::mapped_type; }) {
    out = Json::object();
    for (const auto& [key, item] : value) write_json(out[key], item);
  } else {
    out = Json::array();
    for (const auto& item : value) write_json(out.emplace_back(), item);
  }
}

template <class T>
void read_json(const Json& in, T& value) {
  if constexpr (HasFields<T>) {
    const auto& object = in.get_ref<const Json::object_t&>();
    T::fields(value, [&object](const char* name, auto& field) {
      const auto found = object.find(name);
      if (found != object.end()) read_json(found->second, field);
    });
  } else if constexpr (std::is_enum_v<T>) {
    const auto found = from_word<T>(in.get<std::string>());
    if (!found) throw std::runtime_error("unknown word '" + in.get<std::string>() + "'");
    value = *found;
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    value = whole<T>(in);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    value = in.get<T>();
  } else if constexpr (std::is_same_v<T, Time>) {
    value = from_ms(whole<std::int64_t>(in));
  } else if constexpr (requires { value.has_value(); }) {
    value.reset();
    if (!in.is_null()) read_json(in, value.emplace());
  } else if constexpr (requires { value.value; }) {
    read_json(in, value.value);
  } else if constexpr (requires { value.count(); }) {
    typename T::rep count{};
    read_json(in, count);
    value = T{count};
  } else if constexpr (requires { typename T::mapped_type; }) {
    value.clear();
    for (const auto& [key, item] : in.get_ref<const Json::object_t&>()) read_json(item, value[key]);
  } else {
    value.clear();
    for (const Json& item : in.get_ref<const Json::array_t&>()) {
      typename T::value_type one{};
      read_json(item, one);
      value.insert(value.end(), std::move(one));
    }
  }
}

// What a reader would drop: the path of the first field of `given` that is absent from the same
// value written anew by this build, as `spec.muster.x`; nulls do not count. Pure.
std::optional<std::string> unknown_field(const Json& given, const Json& known);

// The alternative of a variant whose `kind` is given, read from `in`; false: no such kind.
template <class Variant, std::size_t I = 0>
bool read_kind(const Json& in, std::string_view kind, Variant& out) {
  if constexpr (I == std::variant_size_v<Variant>) {
    return false;
  } else {
    using Alternative = std::variant_alternative_t<I, Variant>;
    if (kind != Alternative::kind) return read_kind<Variant, I + 1>(in, kind, out);
    Alternative value;
    read_json(in, value);
    out = std::move(value);
    return true;
  }
}

// What a program keeps for itself from one run to the next: a struct with `fields` as one JSON
// object that says of which version it is. Unknown fields are passed over, absent ones keep their
// defaults; reading never throws. Heavy, as json_fields.h is: for codecs' sources only.

template <HasFields T>
std::string versioned_json(const T& value, int version) {
  Json out;
  write_json(out, value);
  out["version"] = version;
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

template <HasFields T>
Result<T> read_versioned_json(std::string_view text, int version) {
  try {
    const Json in = Json::parse(text);
    const auto& object = in.get_ref<const Json::object_t&>();
    const auto found = object.find("version");
    if (found == object.end() || whole<int>(found->second) != version) {
      return Error{"it is of another version of muster"};
    }
    T value;
    read_json(in, value);
    return value;
  } catch (const std::exception& wrong) {
    return Error{std::string("it is broken: ") + wrong.what()};
  }
}

}  // namespace muster
