#include "cli/terminal/document.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/query/query.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/number.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// Characters that JSON leaves as they are and a terminal may obey, U+007F … U+009F, are escaped
// too; they can only stand in strings.
std::string json_text(const Document& value, int indent) {
  std::string text = value.dump(indent, ' ', false, Document::error_handler_t::replace);
  for (std::size_t at = 0; (at = text.find_first_of("\x7F\xC2", at)) != text.npos; ++at) {
    const std::size_t length = text[at] == '\xC2' ? 2 : 1;
    const auto last = static_cast<unsigned char>(text[at + length - 1]);
    if (length == 2 && last >= 0xA0) continue;
    text.replace(at, length, printed("\\u00%02x", last));
  }
  return text;
}

// Plain in YAML only when nobody could read it as anything but text.
bool is_plain(const std::string& text) {
  if (!is_word_of(text, "_./+-")) return false;
  const char first = lower_case(text).front();
  const auto words = words_in("true false yes no on off null y n");
  return first >= 'a' && first <= 'z' && std::ranges::count(words, lower_case(text)) == 0;
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
  return value.is_null() ? "" : one_line(text);
}

std::string tsv_line(const Document& value) {
  if (!value.is_structured()) return tsv_cell(value) + "\n";
  std::string line;
  for (const Document& item : value) {
    line += (&item == &value.front() ? "" : "\t") + tsv_cell(item);
  }
  return line + "\n";
}

std::string tsv_text(const Document& value) {
  if (!value.is_array()) return tsv_line(value);
  std::string out;
  for (const Document& item : value) out += tsv_line(item);
  return out;
}

std::string heading_of(std::string key) {
  for (char& c : key) c = c == '_' ? ' ' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  return key;
}

std::vector<std::string> keys_of(const Document& rows) {
  std::vector<std::string> keys;
  for (const Document& row : rows) {
    for (const auto& [key, value] : row.items()) {
      if (std::ranges::count(keys, key) == 0) keys.push_back(key);
    }
  }
  return keys;
}

// Objects have headings: their keys. Other results are lines of values.
std::string table_text(const Document& value) {
  const Document rows = value.is_object() ? Document::array({value}) : value;
  const bool are_objects =
      rows.is_array() && !rows.empty() &&
      std::all_of(rows.begin(), rows.end(), [](const Document& row) { return row.is_object(); });
  if (!are_objects) return tsv_text(value);
  const std::vector<std::string> keys = keys_of(rows);
  if (keys.empty()) return "";
  std::vector<std::string> headings;
  for (const std::string& key : keys) headings.push_back(heading_of(key));
  Table table(headings);
  for (const Document& row : rows) {
    std::vector<std::string> cells;
    for (const std::string& key : keys) {
      cells.push_back(row.contains(key) ? tsv_cell(row[key]) : "");
    }
    table.add(std::move(cells));
  }
  return table.text(is_terminal(Stream::out) ? terminal_width(Stream::out) : 0, false);
}

std::string text_in_form(const Document& document, OutputFormat form) {
  if (form == OutputFormat::json) return json_text(document, 2) + "\n";
  if (form == OutputFormat::none) return "";
  if (form == OutputFormat::table) return table_text(document);
  if (form != OutputFormat::yaml) return tsv_text(document);
  std::string out;
  append_yaml(document, "", out);
  return out;
}

// A query that finds nothing is mostly a key spelled wrong.
std::string nothing_found(const Document& document, const std::string& query) {
  const bool is_list = document.is_array() && !document.empty();
  const Document& sample = is_list ? document.front() : document;
  const std::string keys =
      sample.is_object() ? joined(keys_of(Document::array({sample}))) : std::string();
  return "--query " + quoted_text(query) + " gives nothing" +
         (keys.empty() ? ""
                       : std::string("; the ") +
                             (document.is_array() ? "items have " : "result has ") + keys);
}

}  // namespace

Document value_or_null(const std::string& text) {
  return text.empty() ? Document(nullptr) : Document(text);
}

Document value_or_null(const std::optional<Time>& time) {
  return time ? Document(utc_text(*time)) : Document(nullptr);
}

bool wants_table(const CommonOptions& common) {
  return common.output == OutputFormat::table && common.query.empty();
}

Result<std::string> document_text(const Document& document, const CommonOptions& common) {
  if (common.query.empty()) return text_in_form(document, common.output);
  const auto query = parse_query(common.query);
  if (!query) return Error{"--query " + quoted_text(common.query) + ": " + query.error().message};
  const Document part = (*query)(document);
  if (part.is_null()) notice(nothing_found(document, common.query), common);
  return text_in_form(part, common.output);
}

std::string document_line(const Document& document) {
  return json_text(document, -1);
}

int print_document(const Document& document, const CommonOptions& common) {
  const auto text = document_text(document, common);
  if (!text) return print_error(text.error().message, usage_error, common);
  write_all(Stream::out, *text);
  return 0;
}

int print_result(const Document& document, const std::string& text, const CommonOptions& common,
                 const std::string& none) {
  if (!wants_table(common)) return print_document(document, common);
  if (text.empty() && !none.empty()) notice(none, common);
  write_all(Stream::out, text);
  return 0;
}

}  // namespace muster
