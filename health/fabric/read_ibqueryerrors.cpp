#include <algorithm>
#include <limits>

#include "health/fabric/readers.h"
#include "health/fabric/text_cursor.h"

namespace muster {

namespace {

// "[SymbolErrorCounter == 42] [PortXmitData == 1440 (5.625KB)]", and thresholds with one "=".
bool read_counters(std::string_view text, std::map<std::string, std::uint64_t>& counters) {
  TextCursor cursor(text);
  while (cursor.take("[")) {
    const std::string_view name = cursor.take_word();
    if (name.empty() || !cursor.take("=")) return false;
    cursor.take("=");
    const auto value = cursor.take_number();
    const std::size_t end = cursor.rest().find(']');
    if (!value || end == std::string_view::npos) return false;
    cursor = TextCursor(cursor.rest().substr(end + 1));
    std::uint64_t& kept = counters[std::string(name)];
    kept = std::max(kept, *value);
  }
  return trimmed(cursor.rest()).empty();
}

// `Errors for 0x200002 "spine1"`, `Errors for "n2 mlx5_0"`: the name of the GUIDs that follow.
bool read_header(std::string_view line, std::string& name) {
  const auto found = quoted_text(line, '"');
  name = found.value_or("");
  return found.has_value();
}

bool read_port(TextCursor cursor, const std::string& name, FabricErrors& errors) {
  const auto guid = cursor.take_guid();
  if (!guid || !cursor.take("port")) return false;
  if (!name.empty()) errors.names[*guid] = name;
  if (cursor.take("ALL:")) return true;  // the sum, which the ports repeat
  const auto port = cursor.take_port();
  if (!port || !cursor.take(":")) return false;
  return read_counters(cursor.rest(), errors.counters[{*guid, *port}]);
}

bool read_suppressed(TextCursor cursor, FabricErrors& errors) {
  for (auto name = cursor.take_word(); !name.empty(); name = cursor.take_word()) {
    errors.suppressed.emplace(name);
  }
  return true;
}

bool read_summary(TextCursor cursor, FabricErrors& errors) {
  if (cursor.take("Thresholds:")) return read_counters(cursor.rest(), errors.thresholds);
  if (cursor.take("Suppressed:")) {
    errors.has_summary = true;  // the last line
    return read_suppressed(cursor, errors);
  }
  if (cursor.take("Summary:")) return true;
  const auto number = cursor.take_number();
  if (number && cursor.take("PMA query failures")) {
    errors.failed_queries =
        static_cast<int>(std::min<std::uint64_t>(*number, std::numeric_limits<int>::max()));
  }
  return true;
}

// "ibwarn: [12] query_cap_mask: classportinfo query failed on n17 mlx5_3, Lid 17 port 1"
void read_unanswered(std::string_view line, FabricErrors& errors) {
  constexpr std::string_view words = "query failed on ";
  const std::size_t begin = line.find(words);
  const std::size_t port_at = line.rfind(" port ");
  if (begin == std::string_view::npos || port_at == std::string_view::npos) return;
  const std::string_view name = line.substr(begin + words.size());
  const std::size_t comma = name.rfind(", ");
  TextCursor cursor(line.substr(port_at + 6));
  const auto port = cursor.take_number();
  if (comma == std::string_view::npos || !port || *port > 255) return;
  errors.unanswered.emplace(trimmed(name.substr(0, comma)), static_cast<int>(*port));
}

}  // namespace

FabricErrors read_ibqueryerrors(const FileReading& said) {
  FabricErrors errors;
  std::string name;
  errors.reading = read_lines(said, [&](std::string_view line) {
    TextCursor cursor(line);
    if (cursor.take("##")) return read_summary(cursor, errors);
    if (cursor.take("Errors for") || cursor.take("Data Counters for")) {
      return read_header(line, name);
    }
    if (cursor.take("GUID")) return read_port(cursor, name, errors);
    if (cursor.take("Link info:")) return true;
    read_unanswered(line, errors);
    return false;
  });
  return errors;
}

}  // namespace muster
