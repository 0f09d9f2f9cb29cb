#include "health/verdict/drain_reason.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace muster {

namespace {

constexpr std::string_view prefix = "muster:";
constexpr std::size_t id_digits = 8;

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_hex_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

std::string word_of_reason(std::string_view text, std::string_view allowed) {
  std::string word(text);
  for (char& c : word) {
    if (!is_alphanumeric(c) && allowed.find(c) == std::string_view::npos) c = '_';
  }
  return word;
}

std::string check_word(std::string_view check) {
  return word_of_reason(check, "._-");
}
std::string device_word(std::string_view device) {
  return word_of_reason(device, "._-:/");
}

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

// The text up to `end`, which is taken off with it.
std::optional<std::string_view> take_until(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at + 1);
  return taken;
}

bool is_mark_of_slurm(std::string_view text) {
  return text.size() > 3 && text.starts_with(" [") && text.ends_with("]") &&
         text.find('@') != std::string_view::npos && text.find(' ', 1) == std::string_view::npos;
}

std::optional<FaultClass> parse_class(std::string_view word) {
  const auto found = std::ranges::find(fault_class_words, word);
  if (found == fault_class_words.end()) return std::nullopt;
  return static_cast<FaultClass>(found - fault_class_words.begin());
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
  std::string id(id_digits, '0');
  for (char& digit : id) {
    digit = "0123456789abcdef"[hash & 15];
    hash >>= 4;
  }
  return id;
}

DrainReason reason_of(const HealthFinding& finding, std::string id) {
  return {finding.fault_class, check_word(finding.check), device_word(finding.device),
          std::move(id)};
}

std::string text_of(const DrainReason& reason) {
  return std::string(prefix) + std::string(word_of(reason.fault_class)) + ":" + reason.check + ":" +
         reason.device + " " + reason.id;
}

std::optional<DrainReason> parse_drain_reason(std::string_view text) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  const auto class_word = take_until(text, ':');
  const auto check = take_until(text, ':');
  const auto device = take_until(text, ' ');
  if (!class_word || !check || !device || text.size() < id_digits) return std::nullopt;
  const auto fault_class = parse_class(*class_word);
  const std::string_view id = text.substr(0, id_digits);
  const std::string_view rest = text.substr(id_digits);
  if (!fault_class || check->empty() || !std::ranges::all_of(id, is_hex_digit)) return std::nullopt;
  if (check_word(*check) != *check || device_word(*device) != *device) return std::nullopt;
  if (!rest.empty() && !is_mark_of_slurm(rest)) return std::nullopt;
  return DrainReason{*fault_class, std::string(*check), std::string(*device), std::string(id)};
}

}  // namespace muster
