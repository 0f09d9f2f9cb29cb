// Results for machines: one JSON value, printed as JSON, YAML or tab-separated values. Key order is
// the order of insertion and part of the schema.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cli/terminal/common_options.h"
#include "scheduler/model/result.h"
#include "scheduler/text/clock.h"

namespace muster {

using Document = nlohmann::ordered_json;

// Null for what is not there.
Document value_or_null(const std::string& text);
Document value_or_null(const std::optional<Time>& time);  // RFC 3339, UTC
// An empty one makes null, an id its value.
template <class T, class Made = Document>
Made value_or_null(const std::optional<T>& value) {
  if (!value) return nullptr;
  if constexpr (requires { value->value; }) {
    return value->value;
  } else {
    return *value;
  }
}
// What `one` makes of each.
template <class Items, class One, class Made = Document>
Made list_of(const Items& items, One one) {
  Made list = Made::array();
  for (const auto& item : items) list.push_back(one(item));
  return list;
}

// Whether the result should be a table for people: `print_document` is for everything else.
bool wants_table(const CommonOptions& common);

// The text of the result in the chosen form (as a table objects have headings, other values stand
// one a line). A query that finds nothing gives null and a notice; the Error: it is no query.
Result<std::string> document_text(const Document& document, const CommonOptions& common);

// As JSON on one line, without its end.
std::string document_line(const Document& document);

// Prints it on stdout; returns the exit code, 2 for a wrong query.
int print_document(const Document& document, const CommonOptions& common);
// As above where machines read; else the text for people, or where that is empty the notice `none`.
int print_result(const Document& document, const std::string& text, const CommonOptions& common,
                 const std::string& none = "");

}  // namespace muster
