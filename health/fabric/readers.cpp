#include "health/fabric/readers.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "scheduler/text/number.h"

namespace muster {

namespace {

constexpr std::string_view blanks = " \t\r";
// The longest line of a healthy tool, with every counter at its largest, is near 1,500.
constexpr std::size_t tool_line_max = 4096;
// A text of rubbish would repeat itself for megabytes.
constexpr std::size_t complaints_max = 10;
constexpr std::size_t complaint_max = 160;

std::optional<std::uint64_t> take_digits(std::string_view& rest, int base) {
  std::uint64_t value = 0;
  const char* end_of_rest = rest.data() + rest.size();
  const auto [end, error] = std::from_chars(rest.data(), end_of_rest, value, base);
  if (error != std::errc()) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return value;
}

void complain(ToolReading& reading, std::string_view line) {
  if (reading.complaints.size() >= complaints_max) return;
  reading.complaints.emplace_back(line.substr(0, complaint_max));
}

bool is_warning(std::string_view line) {
  return line.starts_with("ibwarn:") || line.starts_with("ibpanic:") ||
         line.starts_with("ibdebug:") || line.find(": iberror: ") < 32;
}

void read_line(std::string_view line, ToolReading& reading,
               const std::function<bool(std::string_view)>& read) {
  const bool is_long = line.size() > tool_line_max;
  if (is_long || !read(line)) {
    complain(reading, line);
    if (is_long || !is_warning(line)) ++reading.skipped_lines;
  }
}

// "sm lid 1 sm guid 0x100001, activity count 170 priority 0 state 3 SMINFO_MASTER"
std::optional<SubnetManager> manager_of(TextCursor cursor) {
  SubnetManager manager;
  if (!cursor.take("sm lid")) return std::nullopt;
  const auto lid = cursor.take_number();
  if (!lid || !cursor.take("sm guid")) return std::nullopt;
  const auto guid = cursor.take_guid();
  if (!guid || !cursor.take(", activity count") || !cursor.take_number()) return std::nullopt;
  if (!cursor.take("priority")) return std::nullopt;
  const auto priority = cursor.take_number();
  if (!priority || !cursor.take("state") || !cursor.take_number()) return std::nullopt;
  manager.state = cursor.take_word();
  if (!manager.state.starts_with("SMINFO_") || *lid > 0xffff || *priority > 15) return std::nullopt;
  manager.lid = static_cast<int>(*lid);
  manager.guid = *guid;
  return manager;
}

PortState state_of(std::string_view word) {
  for (const PortState state :
       {PortState::down, PortState::initialize, PortState::armed, PortState::active}) {
    if (word_of(state) == word) return state;
  }
  return PortState::unknown;
}

// " 4X           2.5 Gbps Active/  LinkUp", "                Down/ Polling"
std::optional<FabricPort> port_of(std::string_view text) {
  FabricPort port;
  const std::size_t slash = text.rfind('/');
  if (slash == std::string_view::npos) return std::nullopt;
  port.physical = trimmed(text.substr(slash + 1));
  const std::string_view before = trimmed(text.substr(0, slash));
  const std::size_t blank = before.rfind(' ');
  port.state =
      state_of(blank == std::string_view::npos ? before : trimmed(before.substr(blank + 1)));
  if (port.state == PortState::unknown) return std::nullopt;
  if (port.state == PortState::down) return port;
  TextCursor cursor(before);
  port.lanes = lanes_of(cursor.take_word());
  const auto gbps = read_number(cursor.take_word());
  if (gbps && *gbps < 1e6 && cursor.take("Gbps")) port.lane_gbps = lane_gbps_signalled(*gbps);
  return port;
}

// "8    1[  " before and "2[  ] "leaf2" (…)" behind the arrow: a LID and a port.
std::optional<int> take_lid_and_port(TextCursor& cursor) {
  if (!cursor.take_number()) return std::nullopt;
  const auto port = cursor.take_port();
  return cursor.take("[") ? port : std::nullopt;
}

// What stands behind the arrow; nothing there when the other end was not reached.
bool read_peer(std::string_view text, FabricPort& port, Fabric& fabric) {
  TextCursor cursor(text);
  const auto guid = cursor.take_guid();
  if (!guid) return cursor.take("[") || cursor.take("\"");
  const auto number = take_lid_and_port(cursor);
  const auto name = quoted_text(cursor.rest(), '"');
  if (!number || !name) return false;
  port.peer = FabricEnd{*guid, *number};
  note_node(fabric, *guid, *name, FabricNodeKind::unknown);
  return true;
}

bool read_port(std::string_view line, Fabric& fabric, std::map<std::uint64_t, int>& lines) {
  constexpr std::string_view arrow_begin = "] ==(";
  constexpr std::string_view arrow_end = ")==>";
  const std::size_t begin = line.find(arrow_begin);
  if (begin == std::string_view::npos) return false;
  const std::size_t end = line.find(arrow_end, begin);
  if (end == std::string_view::npos) return false;
  TextCursor cursor(line.substr(0, begin));
  const auto guid = cursor.take_guid();
  const auto name = quoted_text(cursor.rest(), '"');
  if (!guid || !name) return false;
  TextCursor numbers(cursor.rest().substr(cursor.rest().rfind('"') + 1));
  const auto number = take_lid_and_port(numbers);
  const std::size_t inside = begin + arrow_begin.size();
  auto port = port_of(line.substr(inside, end - inside));
  if (!number || !port) return false;
  if (!read_peer(line.substr(end + arrow_end.size()), *port, fabric)) return false;
  if (port->peer == FabricEnd{*guid, *number}) return false;
  note_node(fabric, *guid, *name, FabricNodeKind::unknown);
  fabric.ports[{*guid, *number}] = *port;
  ++lines[*guid];
  return true;
}

constexpr std::uint64_t lid_most = 0xffff;

struct Declared {  // the node that the lines below it belong to
  FabricNodeKind kind = FabricNodeKind::unknown;
  std::uint64_t guid = 0;
  std::string name;
};

std::optional<FabricNodeKind> kind_of_listed(std::string_view word) {
  if (word == "CA" || word == "Ca") return FabricNodeKind::adapter;
  if (word == "SW" || word == "Switch") return FabricNodeKind::switch_node;
  if (word == "RT" || word == "Rt") return FabricNodeKind::router;
  if (word == "??") return FabricNodeKind::unknown;
  return std::nullopt;
}

// ---- the form of a line for each port

struct ListedEnd {
  FabricNodeKind kind;
  FabricEnd end;
};

std::optional<ListedEnd> take_listed_end(TextCursor& cursor) {
  const auto kind = kind_of_listed(cursor.take_word());
  const auto lid = cursor.take_number();
  const auto port = cursor.take_port();
  const auto guid = cursor.take_guid();
  if (!kind || !lid || *lid > lid_most || !port || !guid) return std::nullopt;
  return ListedEnd{*kind, {*guid, *port}};
}

// "( 'n4 mlx5_0' - 'leaf2' )"
std::optional<std::pair<std::string_view, std::string_view>> names_of(std::string_view text) {
  constexpr std::string_view between = "' - '";
  const auto names = quoted_text(text, '\'');
  if (!names) return std::nullopt;
  const std::size_t at = names->find(between);
  if (at == std::string_view::npos) return std::nullopt;
  return std::pair{trimmed(names->substr(0, at)), trimmed(names->substr(at + between.size()))};
}

bool read_linked(TextCursor& cursor, const ListedEnd& from, FabricPort port, Fabric& fabric) {
  const auto to = take_listed_end(cursor);
  const auto names = names_of(cursor.rest());
  if (!to || !names || to->end == from.end) return false;
  note_node(fabric, from.end.guid, names->first, from.kind);
  note_node(fabric, to->end.guid, names->second, to->kind);
  port.peer = to->end;
  fabric.ports[from.end] = port;
  return true;
}

bool read_listed(std::string_view line, Fabric& fabric) {
  TextCursor cursor(line);
  const auto from = take_listed_end(cursor);
  if (!from) return false;
  FabricPort port;
  port.lanes = lanes_of(cursor.take_word());
  port.lane_gbps = lane_gbps_named(cursor.take_word());
  if (cursor.take("- ")) return read_linked(cursor, *from, port, fabric);
  const auto name = quoted_text(cursor.rest(), '\'');
  if (!name) return false;
  note_node(fabric, from->end.guid, *name, from->kind);
  fabric.ports[from->end] = {};  // what it says of an open port's width means nothing
  return true;
}

// ---- the form of a topology file

// "S-0000000000200001": kind and GUID
std::optional<std::uint64_t> take_id(TextCursor& cursor, FabricNodeKind& kind) {
  if (!cursor.take("\"") || cursor.rest().size() < 2 || cursor.rest()[1] != '-') return {};
  const char letter = cursor.rest().front();
  kind = letter == 'S'   ? FabricNodeKind::switch_node
         : letter == 'H' ? FabricNodeKind::adapter
                         : FabricNodeKind::router;
  cursor.take(cursor.rest().substr(0, 2));
  const auto guid = cursor.take_hex();
  return cursor.take("\"") ? guid : std::nullopt;
}

// "[7]", and what may stand behind: "[ext 3]", "(100007)", which is the port's own GUID.
std::optional<int> take_bracket(TextCursor& cursor, std::uint64_t& port_guid) {
  if (!cursor.take("[")) return std::nullopt;
  const auto port = cursor.take_port();
  if (!port || !cursor.take("]")) return std::nullopt;
  if (cursor.take("[ext") && (!cursor.take_number() || !cursor.take("]"))) return std::nullopt;
  if (!cursor.take("(")) return port;
  const auto guid = cursor.take_hex();
  if (!guid || !cursor.take(")")) return std::nullopt;
  port_guid = *guid;
  return port;
}

bool read_declaration(std::string_view line, Declared& node, Fabric& fabric) {
  TextCursor cursor(line);
  const auto kind = kind_of_listed(cursor.take_word());
  const auto port_count = cursor.take_number();
  FabricNodeKind kind_in_id = FabricNodeKind::unknown;
  const auto guid = take_id(cursor, kind_in_id);
  const auto name = quoted_text(cursor.rest(), '"');
  node = {};
  if (!kind || !port_count || !guid || !name) return false;
  node = {*kind, *guid, std::string(*name)};
  if (*kind != FabricNodeKind::adapter) note_node(fabric, *guid, *name, *kind);
  return true;
}

// `"n3 mlx5_0" lid 7 4xSDR`
void read_speed(std::string_view comment, FabricPort& port) {
  const std::size_t begin = comment.find_last_of(" \t");
  const std::string_view word = begin == std::string_view::npos ? "" : comment.substr(begin + 1);
  const std::size_t x = word.find('x');
  if (x == std::string_view::npos) return;
  port.lanes = lanes_of(word.substr(0, x + 1));
  port.lane_gbps = lane_gbps_named(word.substr(x + 1));
}

bool read_cable(std::string_view line, const Declared& node, Fabric& fabric) {
  TextCursor cursor(line);
  FabricEnd from{node.guid, 0};
  FabricEnd to;
  FabricNodeKind kind = FabricNodeKind::unknown;
  const auto from_port = take_bracket(cursor, from.guid);
  const auto to_guid = take_id(cursor, kind);
  to.guid = to_guid.value_or(0);
  const auto to_port = take_bracket(cursor, to.guid);
  const std::string_view comment = trimmed(cursor.rest());
  const auto name = quoted_text(comment, '"');
  if (node.guid == 0 || !from_port || !to_guid || !to_port || !name) return false;
  from.port = *from_port;
  to.port = *to_port;
  if (from == to) return false;
  note_node(fabric, from.guid, node.name, node.kind);
  note_node(fabric, to.guid, *name, kind);
  FabricPort port;
  read_speed(comment, port);
  port.peer = to;
  fabric.ports[from] = port;
  return true;
}

bool is_remark(std::string_view line) {
  for (const std::string_view key :
       {"#", "vendid=", "devid=", "sysimgguid=", "switchguid=", "caguid=", "rtguid=", "Chassis"}) {
    if (line.starts_with(key)) return true;
  }
  return false;
}

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

void TextCursor::skip_blanks() {
  rest_.remove_prefix(std::min(rest_.find_first_not_of(blanks), rest_.size()));
}

bool TextCursor::take(std::string_view literal) {
  skip_blanks();
  if (!rest_.starts_with(literal)) return false;
  rest_.remove_prefix(literal.size());
  return true;
}

std::string_view TextCursor::take_word() {
  skip_blanks();
  const std::string_view word = rest_.substr(0, rest_.find_first_of(blanks));
  rest_.remove_prefix(word.size());
  return word;
}

std::optional<std::uint64_t> TextCursor::take_number() {
  skip_blanks();
  return take_digits(rest_, 10);
}

std::optional<std::uint64_t> TextCursor::take_hex() {
  skip_blanks();
  if (rest_.starts_with("0x")) rest_.remove_prefix(2);
  const auto value = take_digits(rest_, 16);
  return value == std::uint64_t{0} ? std::nullopt : value;
}

std::optional<int> TextCursor::take_port() {
  const auto number = take_number();
  if (!number || *number > 254) return std::nullopt;
  return static_cast<int>(*number);
}

std::optional<std::uint64_t> TextCursor::take_guid() {
  skip_blanks();
  return rest_.starts_with("0x") ? take_hex() : std::nullopt;
}

std::optional<std::string_view> quoted_text(std::string_view text, char quote) {
  const std::size_t begin = text.find(quote);
  const std::size_t end = text.rfind(quote);
  if (begin == std::string_view::npos || begin == end) return std::nullopt;
  return trimmed(text.substr(begin + 1, end - begin - 1));
}

std::optional<int> lanes_of(std::string_view width) {
  if (!width.ends_with('x') && !width.ends_with('X')) return std::nullopt;
  TextCursor cursor(width);
  const auto lanes = cursor.take_number();
  if (!lanes || cursor.rest().size() != 1 || *lanes < 1 || *lanes > 12) return std::nullopt;
  return static_cast<int>(*lanes);
}

ToolReading read_lines(const FileReading& said, const std::function<bool(std::string_view)>& read) {
  ToolReading reading;
  reading.error = said.error;
  if (!said.ok()) return reading;
  std::string_view rest = said.text;
  reading.is_cut = !rest.empty() && rest.back() != '\n';
  while (!rest.empty()) {
    const std::string_view line = take_until(rest, '\n');
    if (!trimmed(line).empty()) read_line(line, reading, read);
  }
  return reading;
}

std::optional<SubnetManager> read_sminfo(const FileReading& said) {
  std::optional<SubnetManager> manager;
  bool is_unanswered = false;
  read_lines(said, [&](std::string_view line) {
    TextCursor cursor(line);
    // Its errors begin with its name as it was started, perhaps with a path.
    const std::string_view name = cursor.take_word();
    if (name != "sminfo:" && !name.ends_with("/sminfo:")) return false;
    is_unanswered = is_unanswered || cursor.take("iberror: failed: query");
    if (!manager) manager = manager_of(cursor);
    return true;
  });
  if (!manager && is_unanswered) return SubnetManager{};
  return manager;
}

Fabric read_iblinkinfo(const FileReading& said) {
  Fabric fabric;
  std::map<std::uint64_t, int> lines;  // a switch has one for each port, an adapter's port one
  fabric.reading =
      read_lines(said, [&](std::string_view line) { return read_port(line, fabric, lines); });
  for (const auto& [guid, count] : lines) {
    note_node(fabric, guid, "", count > 1 ? FabricNodeKind::switch_node : FabricNodeKind::adapter);
  }
  return fabric;
}

Fabric read_ibnetdiscover(const FileReading& said) {
  Fabric fabric;
  Declared node;
  fabric.reading = read_lines(said, [&](std::string_view line) {
    if (is_remark(line)) return true;
    if (line.starts_with('[')) return read_cable(line, node, fabric);
    for (const std::string_view word : {"Switch", "Ca", "Rt"}) {
      if (line.starts_with(word)) return read_declaration(line, node, fabric);
    }
    return read_listed(line, fabric);
  });
  return fabric;
}

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
