// Any struct with `fields` to JSON and back, by walking its fields. Heavy (nlohmann): included by
// the codecs' sources only. Reading throws `nlohmann::json::exception` or std::runtime_error on a
// wrong type; the codecs turn that into an Error. Absent fields keep their defaults.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

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

template <>
struct EnumWords<Doing> {
  static constexpr auto words =
      std::to_array<std::string_view>({"moving", "working", "quiet", "stuck", "stopped"});
};

template <class T>
struct is_chrono : std::false_type {};
template <class R, class P>
struct is_chrono<std::chrono::duration<R, P>> : std::true_type {};

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

inline void write_json(Json& out, const std::string& value) { out = value; }
inline void read_json(const Json& in, std::string& value) { value = in.get<std::string>(); }
inline void write_json(Json& out, const Time& value) { out = to_ms(value); }
inline void read_json(const Json& in, Time& value) { value = from_ms(whole<std::int64_t>(in)); }

template <class Tag>
void write_json(Json& out, const StringId<Tag>& id) { out = id.value; }
template <class Tag>
void read_json(const Json& in, StringId<Tag>& id) { id.value = in.get<std::string>(); }
template <class Tag>
void write_json(Json& out, const NumberId<Tag>& id) { out = id.value; }
template <class Tag>
void read_json(const Json& in, NumberId<Tag>& id) { id.value = whole<std::int64_t>(in); }

template <class T>
  requires std::is_arithmetic_v<T>
void write_json(Json& out, const T& value) { out = value; }
template <class T>
  requires std::is_arithmetic_v<T>
void read_json(const Json& in, T& value) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) value = whole<T>(in);
  else value = in.get<T>();
}

template <class T>
  requires std::is_enum_v<T>
void write_json(Json& out, const T& value) { out = word(value); }
template <class T>
  requires std::is_enum_v<T>
void read_json(const Json& in, T& value) {
  const auto found = from_word<T>(in.get<std::string>());
  if (!found) throw std::runtime_error("unknown word '" + in.get<std::string>() + "'");
  value = *found;
}

template <class R, class P>
void write_json(Json& out, const std::chrono::duration<R, P>& value) { out = value.count(); }
template <class R, class P>
void read_json(const Json& in, std::chrono::duration<R, P>& value) {
  R count{};
  read_json(in, count);
  value = std::chrono::duration<R, P>{count};
}

template <HasFields T>
void write_json(Json& out, const T& value);
template <HasFields T>
void read_json(const Json& in, T& value);

template <class T>
void write_json(Json& out, const std::vector<T>& values);
template <class T>
void read_json(const Json& in, std::vector<T>& values);
template <class Less>
void write_json(Json& out, const std::set<std::string, Less>& values);
template <class Less>
void read_json(const Json& in, std::set<std::string, Less>& values);
template <class T>
void write_json(Json& out, const std::map<std::string, T>& values);
template <class T>
void read_json(const Json& in, std::map<std::string, T>& values);

template <class T>
void write_json(Json& out, const std::optional<T>& value) {
  if (value) write_json(out, *value);
}
template <class T>
void read_json(const Json& in, std::optional<T>& value) {
  if (in.is_null()) {
    value.reset();
    return;
  }
  value.emplace();
  read_json(in, *value);
}

template <class T>
void write_json(Json& out, const std::vector<T>& values) {
  out = Json::array();
  for (const T& value : values) write_json(out.emplace_back(), value);
}
template <class T>
void read_json(const Json& in, std::vector<T>& values) {
  values.clear();
  for (const Json& item : in.get_ref<const Json::array_t&>())
    read_json(item, values.emplace_back());
}

template <class Less>
void write_json(Json& out, const std::set<std::string, Less>& values) {
  out = Json::array();
  for (const std::string& value : values) out.push_back(value);
}
template <class Less>
void read_json(const Json& in, std::set<std::string, Less>& values) {
  values.clear();
  for (const Json& item : in.get_ref<const Json::array_t&>())
    values.insert(item.get<std::string>());
}

template <class T>
void write_json(Json& out, const std::map<std::string, T>& values) {
  out = Json::object();
  for (const auto& [key, value] : values) write_json(out[key], value);
}
template <class T>
void read_json(const Json& in, std::map<std::string, T>& values) {
  values.clear();
  for (const auto& [key, item] : in.get_ref<const Json::object_t&>()) read_json(item, values[key]);
}

template <HasFields T>
void write_json(Json& out, const T& value) {
  out = Json::object();
  T::fields(value, [&out](const char* name, const auto& field) {
    Json item;
    write_json(item, field);
    if (!item.is_null()) out[name] = std::move(item);
  });
}
template <HasFields T>
void read_json(const Json& in, T& value) {
  const auto& object = in.get_ref<const Json::object_t&>();
  T::fields(value, [&object](const char* name, auto& field) {
    const auto found = object.find(name);
    if (found != object.end()) read_json(found->second, field);
  });
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
