// Typed access to the members of a JSON object, for the readers of manifests, logs and
// indices of datasets.
//
// Each function throws FieldError, which names the key and what was expected; the one parse
// function of a file catches it. For .cpp files only, which include <nlohmann/json.hpp>
// themselves.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace muster::fields {

using Json = nlohmann::ordered_json;

struct FieldError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void require(bool holds, const std::string& complaint);
// That of a file which leads nowhere but into the directory of what names it.
void require_plain_name(const std::string& name);

// Throws Json::exception too, when it is no JSON.
Json parse_json(std::string_view text);
const Json& member(const Json& object, const char* key);
std::uint64_t whole_number(const Json& object, const char* key);
std::string text(const Json& object, const char* key);
const Json& list(const Json& object, const char* key);
bool truth(const Json& object, const char* key);

// u64 and float bits as hex texts of exactly 16 and 8 digits.
std::string hex64(std::uint64_t value);
std::string hex32(std::uint32_t value);
std::uint64_t read_hex64(const Json& object, const char* key);
std::uint32_t read_hex32(const Json& object, const char* key);

}  // namespace muster::fields
