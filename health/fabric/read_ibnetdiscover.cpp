#include "health/fabric/readers.h"
#include "health/fabric/text_cursor.h"

namespace muster {

namespace {

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

}  // namespace

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

}  // namespace muster
