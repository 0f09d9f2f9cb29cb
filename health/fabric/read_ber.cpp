#include <algorithm>
#include <cctype>

#include "health/fabric/ber.h"
#include "health/fabric/text_cursor.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::size_t row_max = 240;
// A fabric of 20,000 cables where every port has several.
constexpr std::size_t warnings_max = 200'000;
constexpr std::size_t measured_max = 1'000'000;

std::string folded_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  while (true) {
    const std::size_t end = std::min(line.find(','), line.size());
    cells.push_back(trimmed(line.substr(0, end)));
    if (end == line.size()) return cells;
    line.remove_prefix(end + 1);
  }
}

std::string_view unquoted(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
    return text.substr(1, text.size() - 2);
  return text;
}

BerKind kind_of_table(std::string_view table) {
  if (mentions(table, "SYMBOL")) return BerKind::symbol;
  return mentions(table, "EFF") ? BerKind::effective : BerKind::other;
}

}  // namespace

void BerReader::feed(std::string_view bytes) {
  lines_.feed(bytes, [this](std::optional<std::string_view> line) {
    if (line) return take_line(*line);
    if (is_of_interest_) ++reading_.skipped_rows;
  });
}

void BerReader::take_line(std::string_view line) {
  if (line.starts_with("START_")) {
    const std::string_view table = line.substr(6);
    const bool is_of_trouble = table.starts_with("WARNINGS") || table.starts_with("ERRORS");
    has_warnings_ = is_of_trouble && mentions(table, "BER");
    is_of_interest_ = has_warnings_ ||
                      (!is_of_trouble && (mentions(table, "BER") || table.starts_with("PHY_DB")));
    kind_ = kind_of_table(table);
    is_in_table_ = is_header_due_ = true;
    return;
  }
  if (line.starts_with("END_")) {
    is_in_table_ = is_of_interest_ = false;
    return;
  }
  if (!is_of_interest_ || line.empty()) return;
  if (is_header_due_) return take_header(line);
  if (!take_row(line)) ++reading_.skipped_rows;
}

void BerReader::take_header(std::string_view line) {
  is_header_due_ = false;
  columns_ = {};
  const auto cells = cells_of(line);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string name = folded_name(cells[i]);
    const int column = static_cast<int>(i);
    if (name == "nodeguid") columns_.node = column;
    if (name == "portguid") columns_.port_guid = column;
    if (name == "portnumber" || name == "portnum") columns_.port = column;
    if (name == "eventname") columns_.event = column;
  }
  const bool is_known = columns_.port >= 0 && (columns_.node >= 0 || columns_.port_guid >= 0) &&
                        (!has_warnings_ || columns_.event >= 0);
  if (is_known) return;
  is_of_interest_ = false;
  if (has_warnings_) ++reading_.skipped_rows;
}

bool BerReader::take_row(std::string_view line) {
  const auto cells = cells_of(line);
  const auto cell = [&](int column) {
    const bool is_there = column >= 0 && static_cast<std::size_t>(column) < cells.size();
    return is_there ? unquoted(cells[static_cast<std::size_t>(column)]) : std::string_view();
  };
  const auto node = TextCursor(cell(columns_.node)).take_guid();
  const auto port_guid = TextCursor(cell(columns_.port_guid)).take_guid();
  const auto port = TextCursor(cell(columns_.port)).take_port();
  if (!port || (!node && !port_guid)) return false;
  if (!has_warnings_) {
    if (reading_.measured.size() >= measured_max) return false;
    if (node) reading_.measured.insert({*node, *port});
    if (port_guid) reading_.measured.insert({*port_guid, *port});
    return true;
  }
  const std::string_view event = cell(columns_.event);
  if (event.empty() || reading_.warnings.size() >= warnings_max) return false;
  reading_.warnings.push_back({node.value_or(0), port_guid.value_or(0), *port, kind_,
                               std::string(event), std::string(line.substr(0, row_max))});
  return true;
}

BerReading BerReader::done() {
  reading_.is_cut = is_in_table_ || lines_.has_rest();
  return std::move(reading_);
}

}  // namespace muster
