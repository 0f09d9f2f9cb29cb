#include "scheduler/model/remedy_command.h"

#include <algorithm>

namespace muster {

namespace {

// A name in braces: "{gpu}" at `begin`. Other braces are the site's own.
std::optional<std::string_view> placeholder_at(std::string_view word, std::size_t begin) {
  const std::size_t end = word.find('}', begin);
  if (word[begin] != '{' || end == std::string_view::npos) return std::nullopt;
  const std::string_view name = word.substr(begin + 1, end - begin - 1);
  const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
  });
  if (!is_name) return std::nullopt;
  return name;
}

bool is_plain(std::string_view value) {
  if (value.empty() || value.front() == '-') return false;
  return std::all_of(value.begin(), value.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_.:-").find(c) != std::string_view::npos;
  });
}

std::string number_of_gpu(const std::string& device) {
  constexpr std::string_view kind = "gpu";
  if (!device.starts_with(kind)) return "";
  const std::string number = device.substr(kind.size());
  const bool is_number =
      std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? number : "";
}

std::string value_of(std::string_view name, const NodeId& node, const NodeFault& fault) {
  if (name == "node") return node.value;
  if (name == "gpu") return number_of_gpu(fault.device);
  if (name == "device") return fault.device;
  if (name == "serial") return fault.serial;
  return name == "finding" ? fault.check : "";
}

std::optional<std::string> filled(std::string_view word, const NodeId& node,
                                  const NodeFault& fault) {
  std::string text;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const auto name = placeholder_at(word, i);
    if (!name) {
      text += word[i];
      continue;
    }
    const std::string value = value_of(*name, node, fault);
    if (!is_plain(value)) return std::nullopt;
    text += value;
    i += name->size() + 1;
  }
  return text;
}

}  // namespace

std::optional<std::string> unknown_placeholder(std::string_view word) {
  for (std::size_t i = 0; i < word.size(); ++i) {
    const auto name = placeholder_at(word, i);
    if (!name) continue;
    const auto& known = remedy_placeholders;
    if (std::find(known.begin(), known.end(), *name) == known.end()) return std::string(*name);
  }
  return std::nullopt;
}

std::optional<std::vector<std::string>> remedy_argv(const std::vector<std::string>& words,
                                                    const NodeId& node, const NodeFault& fault) {
  std::vector<std::string> argv;
  for (const std::string& word : words) {
    auto text = filled(word, node, fault);
    if (!text) return std::nullopt;
    argv.push_back(std::move(*text));
  }
  return argv;
}

}  // namespace muster
