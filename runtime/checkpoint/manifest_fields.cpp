#include "runtime/checkpoint/manifest_fields.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/number_text.h"

namespace muster::fields {
namespace {

template <class Number>
Number parse_hex(const Json& object, const char* key) {
  const std::string digits = text(object, key);
  Number value = 0;
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value, 16);
  if (digits.size() != 2 * sizeof(Number) || parsed.ec != std::errc() || parsed.ptr != end) {
    throw FieldError(std::string(key) + ": expected " + std::to_string(2 * sizeof(Number)) +
                     " hex digits");
  }
  return value;
}

}  // namespace

void require(bool holds, const std::string& complaint) {
  if (!holds) throw FieldError(complaint);
}

void require_plain_name(const std::string& name) {
  require(!name.empty() && name.size() <= 255 && name.front() != '.' &&
              name.find('/') == std::string::npos && name.find('\0') == std::string::npos,
          "file: not a plain file name");
}

Json parse_json(std::string_view text) {
  require(!nests_too_deeply(text),
          "nested deeper than " + std::to_string(json_depth_limit) + " levels");
  return Json::parse(text);
}

const Json& member(const Json& object, const char* key) {
  if (!object.is_object()) throw FieldError(std::string(key) + ": its parent is not an object");
  const auto found = object.find(key);
  if (found == object.end()) throw FieldError(std::string(key) + ": missing");
  return *found;
}

// Numbers above 2^53 would not survive other readers of JSON, so they are written as strings.
std::uint64_t whole_number(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (value.is_string()) {
    const auto number = read_whole_number(value.get_ref<const std::string&>());
    if (number) return *number;
  }
  throw FieldError(std::string(key) + ": expected a whole number from 0");
}

std::string text(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_string()) throw FieldError(std::string(key) + ": expected a text");
  return value.get<std::string>();
}

const Json& list(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_array()) throw FieldError(std::string(key) + ": expected a list");
  return value;
}

bool truth(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (!value.is_boolean()) throw FieldError(std::string(key) + ": expected true or false");
  return value.get<bool>();
}

std::string hex64(std::uint64_t value) {
  return printed("%016llx", static_cast<unsigned long long>(value));
}

std::string hex32(std::uint32_t value) {
  return printed("%08x", value);
}

std::uint64_t read_hex64(const Json& object, const char* key) {
  return parse_hex<std::uint64_t>(object, key);
}

std::uint32_t read_hex32(const Json& object, const char* key) {
  return parse_hex<std::uint32_t>(object, key);
}

}  // namespace muster::fields
