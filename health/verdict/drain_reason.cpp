#include "health/verdict/drain_reason.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace muster {

namespace {

// FNV-1a; the fields are kept apart, or ("a", "bc") and ("ab", "c") would be one.
std::uint64_t hash_of_words(const std::array<std::string_view, 4>& words) {
  std::uint64_t hash = 14695981039346656037ull;
  const auto add = [&](char c) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ull;
  };
  for (const std::string_view word : words) {
    for (const char c : word) add(c);
    add('\0');
  }
  return hash ^ (hash >> 32);
}

}  // namespace

std::string cause_code(const HealthFinding& finding) {
  if (finding.check != "gpu.xid" && finding.check != "gpu.sxid") return {};
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto begin = std::ranges::find_if(finding.value, is_digit);
  return {begin, std::find_if_not(begin, finding.value.end(), is_digit)};
}

std::string finding_id(const HealthFinding& finding) {
  const std::string code = cause_code(finding);
  std::uint64_t hash = hash_of_words({finding.check, finding.device, finding.serial, code});
  std::string id(fault_id_digits, '0');
  for (char& digit : id) {
    digit = "0123456789abcdef"[hash & 15];
    hash >>= 4;
  }
  return id;
}

DrainReason reason_of(const HealthFinding& finding, std::string id) {
  return drain_reason(finding.fault_class, finding.check, finding.device, std::move(id));
}

}  // namespace muster
