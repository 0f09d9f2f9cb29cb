#include "templates/job/expression.h"

#include "scheduler/text/text.h"

namespace muster {

Expressions find_expressions(std::string_view text) {
  Expressions out;
  std::size_t at = 0;
  while ((at = text.find("${{", at)) != std::string_view::npos) {
    const std::size_t close = text.find("}}", at + 3);
    if (close == std::string_view::npos) {
      out.unclosed = true;
      return out;
    }
    out.found.push_back({at, close + 2, std::string(trimmed(text.substr(at + 3, close - at - 3)))});
    at = close + 2;
  }
  return out;
}

std::string expand(std::string_view text,
                   const std::function<std::optional<std::string>(const std::string&)>& value_of) {
  std::string out;
  std::size_t copied = 0;
  for (const Expression& expression : find_expressions(text).found) {
    const auto value = value_of(expression.name);
    if (!value) continue;
    out += text.substr(copied, expression.begin - copied);
    out += *value;
    copied = expression.end;
    if (out.size() > max_expanded_text) return out;
  }
  out += text.substr(copied);
  return out;
}

namespace {

// The name between the brace at `at` and the next one, when it is one of an expression.
std::string name_in_brace(std::string_view text, std::size_t at) {
  const bool single = at == 0 || (text[at - 1] != '{' && text[at - 1] != '$');
  const std::size_t close = text.find_first_of("{}\n \t", at + 1);
  if (!single || close == text.npos || text[close] != '}' || text.substr(close, 2) == "}}") {
    return "";
  }
  const std::string_view name = text.substr(at + 1, close - at - 1);
  for (const std::string_view group : {"inputs.", "outputs.", "search_space."}) {
    if (name.starts_with(group) && name.size() > group.size()) return std::string(name);
  }
  return "";
}

}  // namespace

std::string with_whole_braces(std::string_view text, std::vector<std::string>& names) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string name = text[at] == '{' ? name_in_brace(text, at) : "";
    if (name.empty()) {
      out += text[at];
      continue;
    }
    out += "${{" + name + "}}";
    names.push_back(name);
    at += name.size() + 1;
  }
  return out;
}

std::vector<std::string> optional_groups(std::string_view text) {
  std::vector<std::string> out;
  std::size_t at = 0;
  while ((at = text.find("$[[", at)) != std::string_view::npos) {
    const std::size_t close = text.find("]]", at + 3);
    if (close == std::string_view::npos) return out;
    out.emplace_back(text.substr(at + 3, close - at - 3));
    at = close + 2;
  }
  return out;
}

}  // namespace muster
