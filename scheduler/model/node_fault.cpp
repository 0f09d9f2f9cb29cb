#include "scheduler/model/node_fault.h"

#include "scheduler/model/names.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::string_view prefix = "muster:";

std::string word_of_reason(std::string_view text, std::string_view allowed) {
  std::string word(text);
  for (char& c : word) {
    if (!is_word_of({&c, 1}, allowed)) c = '_';
  }
  return word;
}

std::string check_word(std::string_view check) {
  return word_of_reason(check, "._-");
}
std::string device_word(std::string_view device) {
  return word_of_reason(device, "._-:/");
}

bool is_mark_of_slurm(std::string_view text) {
  return text.size() > 3 && text.starts_with(" [") && text.ends_with("]") &&
         text.find('@') != std::string_view::npos && text.find(' ', 1) == std::string_view::npos;
}

}  // namespace

DrainReason drain_reason(FaultClass fault_class, std::string_view check, std::string_view device,
                         std::string id) {
  return {fault_class, check_word(check), device_word(device), std::move(id)};
}

std::string text_of(const DrainReason& reason) {
  return std::string(prefix) + std::string(word(reason.fault_class)) + ":" + reason.check + ":" +
         reason.device + " " + reason.id;
}

std::optional<DrainReason> parse_drain_reason(std::string_view text) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  const std::string_view class_word = take_until(text, ':');
  const std::string_view check = take_until(text, ':');
  const std::string_view device = take_until(text, ' ');
  if (text.size() < fault_id_digits) return std::nullopt;  // also when an end was missing
  const auto fault_class = from_word<FaultClass>(class_word);
  const std::string_view id = text.substr(0, fault_id_digits);
  const std::string_view rest = text.substr(fault_id_digits);
  if (!fault_class || check.empty() || !is_made_of(id, "0123456789abcdef")) return std::nullopt;
  if (check_word(check) != check || device_word(device) != device) return std::nullopt;
  if (!rest.empty() && !is_mark_of_slurm(rest)) return std::nullopt;
  return DrainReason{*fault_class, std::string(check), std::string(device), std::string(id)};
}

}  // namespace muster
