
#include "health/fabric/readers.h"
#include "health/fabric/text_cursor.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

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

}  // namespace

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

}  // namespace muster
