#include "cli/document.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "cli/terminal.h"

namespace muster {

namespace {

constexpr int usage_error = 2;

std::string json_text(const Document& value, int indent) {
  return value.dump(indent, ' ', false, Document::error_handler_t::replace);
}

// Plain in YAML only when nobody could read it as anything but text.
bool is_plain(const std::string& text) {
  if (text.empty()) return false;
  const std::string_view letters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
  if (text.find_first_not_of(letters) != text.npos) return false;
  const bool letter_first =
      (text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z');
  if (!letter_first) return false;
  for (const char* word : {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}) {
    if (text.size() == std::string_view(word).size()) {
      std::string lower;
      for (const char c : text) lower += static_cast<char>(c | 0x20);
      if (lower == word) return false;
    }
  }
  return true;
}

std::string yaml_scalar(const Document& value) {
  if (value.is_string() && is_plain(value.get_ref<const std::string&>())) {
    return value.get<std::string>();
  }
  return json_text(value, -1);  // JSON is YAML
}

bool is_block(const Document& value) {
  return value.is_structured() && !value.empty();
}

void append_yaml(const Document& value, const std::string& indent, std::string& out);

// After `key:` or `-`: a scalar on the same line, a block on the next ones.
void append_yaml_value(const Document& value, const std::string& indent, std::string& out) {
  if (is_block(value)) {
    out += "\n";
    append_yaml(value, indent, out);
  } else {
    out += " " + yaml_scalar(value) + "\n";
  }
}

void append_yaml(const Document& value, const std::string& indent, std::string& out) {
  if (!is_block(value)) {
    out += indent + yaml_scalar(value) + "\n";
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      out += indent + yaml_scalar(Document(key)) + ":";
      append_yaml_value(item, indent + "  ", out);
    }
  } else {
    for (const Document& item : value) {
      out += indent + "-";
      append_yaml_value(item, indent + "  ", out);
    }
  }
}

std::string tsv_cell(const Document& value) {
  std::string text = value.is_string() ? value.get<std::string>() : json_text(value, -1);
  for (char& c : text) {
    if (c == '\t' || c == '\n' || c == '\r') c = ' ';
  }
  return value.is_null() ? "" : text;
}

std::string tsv_line(const Document& value) {
  if (!value.is_structured()) return tsv_cell(value) + "\n";
  std::string line;
  const char* gap = "";
  for (const Document& item : value) {
    line += gap + tsv_cell(item);
    gap = "\t";
  }
  return line + "\n";
}

std::string tsv_text(const Document& value) {
  if (!value.is_array()) return tsv_line(value);
  std::string out;
  for (const Document& item : value) out += tsv_line(item);
  return out;
}

// `a.b[0].c` and `a.b.0.c` as its steps.
Result<std::vector<std::string>> query_steps(const std::string& query) {
  std::vector<std::string> steps{""};
  for (const char c : query) {
    if (c == '.' || c == '[') {
      if (!steps.back().empty()) steps.emplace_back();
    } else if (c != ']') {
      steps.back() += c;
    }
  }
  if (steps.back().empty()) steps.pop_back();
  for (const std::string& step : steps) {
    if (step.find_first_of("*?|@&(){}`'\", :=<>!") != step.npos) {
      return Error{"--query '" + query + "' is more than a path; write a path such as " +
                   "attempts.0.cause, and use jq for the rest"};
    }
  }
  return steps;
}

Result<Document> queried(const Document& document, const std::string& query) {
  const auto steps = query_steps(query);
  if (!steps) return steps.error();
  const Document* at = &document;
  for (const std::string& step : *steps) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
    const bool is_index = error == std::errc() && end == step.data() + step.size();
    if (at->is_object() && at->contains(step)) {
      at = &(*at)[step];
    } else if (at->is_array() && is_index && index < at->size()) {
      at = &(*at)[index];
    } else {
      return Error{"--query '" + query + "': there is no '" + step + "' in the result"};
    }
  }
  return *at;
}

}  // namespace

bool wants_table(const CommonOptions& common) {
  return common.output == OutputFormat::table && common.query.empty();
}

Result<std::string> document_text(const Document& document, const CommonOptions& common) {
  auto part = common.query.empty() ? Result<Document>(document) : queried(document, common.query);
  if (!part) return part.error();
  switch (common.output) {
    case OutputFormat::json:
      return json_text(*part, 2) + "\n";
    case OutputFormat::none:
      return std::string();
    case OutputFormat::yaml: {
      std::string out;
      append_yaml(*part, "", out);
      return out;
    }
    case OutputFormat::table:
    case OutputFormat::tsv:
      break;
  }
  return tsv_text(*part);
}

int print_document(const Document& document, const CommonOptions& common) {
  const auto text = document_text(document, common);
  if (!text) {
    complain(text.error().message, common);
    return usage_error;
  }
  write_all(Stream::out, *text);
  return 0;
}

}  // namespace muster
