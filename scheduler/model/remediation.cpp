#include "scheduler/model/remediation.h"

#include <algorithm>

#include "scheduler/text/text.h"

namespace muster {

namespace {

// A name in braces: "{gpu}" at `begin`. Other braces are the site's own.
std::optional<std::string_view> placeholder_at(std::string_view word, std::size_t begin) {
  const std::size_t end = word.find('}', begin);
  if (word[begin] != '{' || end == std::string_view::npos) return std::nullopt;
  const std::string_view name = word.substr(begin + 1, end - begin - 1);
  const bool is_name = !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
  });
  if (!is_name) return std::nullopt;
  return name;
}

bool is_plain(std::string_view value) {
  return !value.starts_with('-') && is_word_of(value, "_.:-");
}

// "0000:3b:00.0": of a GPU that fell off before the driver numbered it.
bool is_pci_address(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdefABCDEF";
  const std::size_t bus = text.find(':'), slot = text.rfind(':'), function = text.rfind('.');
  if (bus == text.npos || slot == bus || function == text.npos || function < slot) return false;
  return is_made_of(text.substr(0, bus), digits) &&
         is_made_of(text.substr(bus + 1, slot - bus - 1), digits) &&
         is_made_of(text.substr(slot + 1, function - slot - 1), digits) &&
         is_made_of(text.substr(function + 1), "01234567");
}

std::string name_of_gpu(const NodeFault& fault) {
  constexpr std::string_view kind = "gpu";
  const std::string& device = fault.device;
  if (fault.check.starts_with("gpu.") && is_pci_address(device)) return device;
  if (!device.starts_with(kind)) return "";
  const std::string number = device.substr(kind.size());
  return is_made_of(number, "0123456789") ? number : "";
}

std::string value_of(std::string_view name, const NodeId& node, const NodeFault& fault) {
  if (name == "node") return node.value;
  if (name == "gpu") return name_of_gpu(fault);
  if (name == "device") return fault.device;
  if (name == "serial") return fault.serial;
  return name == "finding" ? fault.check : "";
}

std::vector<std::string_view> placeholders_in(std::string_view word) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (const auto name = placeholder_at(word, i)) names.push_back(*name);
  }
  return names;
}

std::string filled(std::string_view word, const NodeId& node, const NodeFault& fault) {
  std::string text;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const auto name = placeholder_at(word, i);
    text += name ? value_of(*name, node, fault) : std::string(1, word[i]);
    if (name) i += name->size() + 1;
  }
  return text;
}

}  // namespace

std::optional<std::string> unknown_placeholder(std::string_view word) {
  for (const std::string_view name : placeholders_in(word)) {
    if (std::ranges::count(remedy_placeholders, name) == 0) return std::string(name);
  }
  return std::nullopt;
}

std::optional<std::string> unfit_placeholder(const std::vector<std::string>& words,
                                             const NodeId& node, const NodeFault& fault) {
  for (const std::string& word : words) {
    for (const std::string_view name : placeholders_in(word)) {
      if (!is_plain(value_of(name, node, fault))) return std::string(name);
    }
  }
  return std::nullopt;
}

std::optional<std::vector<std::string>> remedy_argv(const std::vector<std::string>& words,
                                                    const NodeId& node, const NodeFault& fault) {
  if (unfit_placeholder(words, node, fault)) return std::nullopt;
  std::vector<std::string> argv;
  for (const std::string& word : words) argv.push_back(filled(word, node, fault));
  return argv;
}

}  // namespace muster
