// Results for machines: one JSON value, printed as JSON, YAML or tab-separated values. Key order is
// the order of insertion and part of the schema.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/terminal/common_options.h"
#include "scheduler/model/result.h"

namespace muster {

using Document = nlohmann::ordered_json;

// Whether the result should be a table for people: `print_document` is for everything else.
bool wants_table(const CommonOptions& common);

// The text of the result in the chosen form (as a table objects have headings, other values stand
// one a line). A query that finds nothing gives null and a notice; the Error: it is no query.
Result<std::string> document_text(const Document& document, const CommonOptions& common);

// As JSON on one line, without its end.
std::string document_line(const Document& document);

// Prints it on stdout; returns the exit code, 2 for a wrong query.
int print_document(const Document& document, const CommonOptions& common);

}  // namespace muster
