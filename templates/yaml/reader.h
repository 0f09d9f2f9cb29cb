// YAML text in, YamlNode tree out. The only file that sees the YAML library, and the guard against
// hostile input: size, depth, number of nodes and expanded bytes are limited before anything is
// built, and every failure of the library becomes a finding.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "templates/yaml/finding.h"
#include "templates/yaml/node.h"

namespace muster {

// A job file is a few kilobytes; a megabyte still parses within a second in a debug build.
constexpr std::size_t max_file_bytes = std::size_t{1} << 20;
// The deepest legal file (a component inside a pipeline step) needs about ten levels.
constexpr int max_depth = 64;
// After aliases are copied in.
constexpr int max_nodes = 50000;
constexpr std::size_t max_expanded_bytes = std::size_t{8} << 20;

// nullopt after an error, which is then in `findings`. An empty document is a null node, which
// stands at no line of the source.
std::optional<YamlNode> read_yaml(const std::shared_ptr<const Source>& source,
                                  FindingList& findings);

// Checks on the bytes of a YAML text before any parser sees them: size, UTF-8, control characters,
// runaway nesting of brackets. And what the parser lets pass: quotes that are never closed.

// False after a finding that makes parsing pointless.
bool check_yaml_text(const std::shared_ptr<const Source>& source, FindingList& findings);

// A value in quotes: from the opening one to behind the closing one, or to the end of the text.
struct QuotedText {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool closed = false;
};

// Of the value that begins at `at`, perhaps with a tag or an anchor; nothing when it has no quotes.
std::optional<QuotedText> quoted_text_at(std::string_view text, std::size_t at);

// The key that a line of `text` below the first one begins with, as after a forgotten quote.
std::string key_within(std::string_view text);

// Line and column of a byte of the source.
Place place_of(const std::shared_ptr<const Source>& source, std::size_t offset);

// The text without a byte order mark.
std::string_view without_byte_order_mark(std::string_view text);

}  // namespace muster
