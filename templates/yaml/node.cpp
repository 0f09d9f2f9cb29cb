#include "templates/yaml/node.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "scheduler/text/number.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/yaml/value.h"

namespace muster {
namespace {

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

// What ends a line for readers of YAML 1.1 only: U+0085, U+2028 and U+2029.
struct LineEnd {
  std::string_view bytes;
  std::string_view code;
};
constexpr LineEnd other_line_ends[] = {
    {"\xC2\x85", "\\u0085"}, {"\xE2\x80\xA8", "\\u2028"}, {"\xE2\x80\xA9", "\\u2029"}};

bool has_other_line_ends(std::string_view text) {
  return std::any_of(std::begin(other_line_ends), std::end(other_line_ends),
                     [&](const LineEnd& end) { return text.find(end.bytes) != text.npos; });
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char byte : text) {
    if (byte == '"' || byte == '\\') out += '\\';
    if (byte == '\n') {
      out += "\\n";
    } else if (byte == '\t') {
      out += "\\t";
    } else if (is_control(byte)) {
      out += printed("\\u%04x", static_cast<unsigned char>(byte));
    } else {
      out += byte;
    }
  }
  for (const LineEnd& end : other_line_ends) out = replaced(std::move(out), end.bytes, end.code);
  return out + '"';
}

bool is_plain(std::string_view text) {
  return is_word_of(text, "_-./") && text.front() != '-' && text.front() != '.';
}

// In any version of YAML a number or a date that is plain begins with a digit.
bool means_something_else(std::string_view text) {
  const bool has_digit_first = text.front() >= '0' && text.front() <= '9';
  return has_digit_first || boolean_word(text) || text == "null" || text == "Null" ||
         text == "NULL";
}

std::string scalar_text(const YamlNode& node) {
  if (!is_plain(node.text)) return in_quotes(node.text);
  return node.quoted && means_something_else(node.text) ? in_quotes(node.text) : node.text;
}

// Text of several lines, as people write it; only where nothing is lost by it.
bool fits_block(const YamlNode& node) {
  const std::string& text = node.text;
  if (text.find('\n') == std::string::npos || text.front() == ' ' || text.front() == '\n') {
    return false;
  }
  const bool odd = std::any_of(text.begin(), text.end(),
                               [](char c) { return is_control(c) && c != '\n' && c != '\t'; });
  const bool many_ends = text.size() > 1 && text.ends_with("\n\n");
  return !odd && !many_ends && text != "\n" && !has_other_line_ends(text);
}

std::string block(const std::string& text, const std::string& indent) {
  std::string out = text.ends_with('\n') ? "|\n" : "|-\n";
  for (std::string_view rest = text; !rest.empty(); out += '\n') {
    const std::string_view line = take_until(rest, '\n');
    if (!line.empty()) out.append(indent).append(line);
  }
  return out;
}

bool is_empty(const YamlNode& node) {
  return node.items.empty() && node.entries.empty();
}

std::string empty_text(const YamlNode& node) {
  return node.kind == YamlNode::Kind::list ? "[]\n" : "{}\n";
}

std::string write(const YamlNode& node, const std::string& indent);

std::string write_below(const YamlNode& node, const std::string& indent) {
  if (node.kind == YamlNode::Kind::null) return "\n";
  if (node.kind == YamlNode::Kind::scalar) {
    return ' ' + (fits_block(node) ? block(node.text, indent + "  ") : scalar_text(node) + '\n');
  }
  if (is_empty(node)) return ' ' + empty_text(node);
  return '\n' + write(node, indent + "  ");
}

std::string write(const YamlNode& node, const std::string& indent) {
  std::string out;
  for (const YamlNode& item : node.items) out += indent + '-' + write_below(item, indent);
  for (const Entry& entry : node.entries) {
    const YamlNode key = scalar_node(entry.key, {}, true);
    const bool schema = entry.key == "$schema";
    out +=
        indent + (schema ? entry.key : scalar_text(key)) + ':' + write_below(entry.value, indent);
  }
  return out;
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

YamlNode* YamlNode::find(std::string_view key) {
  return const_cast<YamlNode*>(std::as_const(*this).find(key));
}

const YamlNode* YamlNode::find_path(std::string_view path) const {
  if (path.empty()) return this;
  for (const Entry& entry : entries) {
    if (path == entry.key) return &entry.value;
    const bool below = path.size() > entry.key.size() && path.starts_with(entry.key) &&
                       path[entry.key.size()] == '.';
    if (!below) continue;
    if (const YamlNode* found = entry.value.find_path(path.substr(entry.key.size() + 1)))
      return found;
  }
  return nullptr;
}

YamlNode scalar_node(std::string text, Place place, bool quoted) {
  return {YamlNode::Kind::scalar, std::move(place), std::move(text), quoted, {}, {}};
}

std::string describe(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::scalar) return quoted_text(node.text);
  if (node.kind == YamlNode::Kind::null) return "nothing";
  return node.kind == YamlNode::Kind::list ? "a list" : "a map";
}

std::string write_yaml(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::null) return "";
  if (node.kind == YamlNode::Kind::scalar) return scalar_text(node) + '\n';
  return is_empty(node) ? empty_text(node) : write(node, "");
}

std::string write_json(const YamlNode& node) {
  std::string out;
  const auto separator = [&] { return out.size() > 1 ? ", " : ""; };
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "null";
    case YamlNode::Kind::scalar: {
      const bool bare = !node.quoted && (node.text == "true" || node.text == "false" ||
                                         (whole_number(node.text) && is_plain(node.text)));
      return bare ? node.text : in_quotes(node.text);
    }
    case YamlNode::Kind::list:
      out = "[";
      for (const YamlNode& item : node.items) out += separator() + write_json(item);
      return out + ']';
    case YamlNode::Kind::map:
      out = "{";
      for (const Entry& entry : node.entries) {
        out += separator() + in_quotes(entry.key) + ": " + write_json(entry.value);
      }
      return out + '}';
  }
  return out;
}

}  // namespace muster
