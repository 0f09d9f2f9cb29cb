#include <algorithm>

#include "health/fabric/forwarding_tables.h"
#include "health/fabric/text_cursor.h"

namespace muster {

namespace {

constexpr std::uint64_t unicast_lid_most = 0xbfff;  // of one receiver; above are groups
// 3,000 switches with 40,000 addresses each; rubbish would ask for more.
constexpr std::size_t places_most = 128u << 20;

class TablesReader {
 public:
  bool read(std::string_view line) {
    TextCursor cursor(line);
    if (cursor.take("Unicast lids [0x")) return begin(cursor);
    if (cursor.take("Lid ") || cursor.take("Port ")) return is_open_;  // headings
    if (cursor.take("0x")) return add(cursor);
    return end(cursor);
  }

  ForwardingTables take(ToolReading reading) {
    drop();
    reading.skipped_lines += dropped_;
    if (dropped_ > 0) reading.complaints.push_back("a table without its end");
    return {std::move(tables_), std::move(reading)};
  }

 private:
  // "0-0xe] of switch DR path slid 0; dlid 0; 0,1,3 guid 0x0000000000200003 (leaf4):"
  bool begin(TextCursor& cursor) {
    drop();
    const std::string_view rest = cursor.rest();
    const std::size_t at = rest.find(" guid 0x");
    if (at == rest.npos || !rest.ends_with("):")) return false;
    TextCursor tail(rest.substr(at));
    if (!tail.take("guid")) return false;
    const auto guid = tail.take_guid();
    if (!guid || tables_.contains(*guid)) return false;
    guid_ = *guid;
    is_open_ = true;
    return true;
  }

  // "0001 003", and behind a colon whose address it is.
  bool add(TextCursor& cursor) {
    const auto lid = cursor.take_hex();
    const auto port = cursor.take_number();
    const std::string_view rest = trimmed(cursor.rest());
    const bool is_entry = lid && *lid <= unicast_lid_most && port && *port <= no_out_port;
    if (!is_open_ || !is_entry || (!rest.empty() && rest.front() != ':')) return false;
    const auto place = static_cast<std::size_t>(*lid);
    if (place >= table_.size()) {
      if (places_ + place >= places_most) return false;
      table_.resize(place + 1, no_out_port);
    }
    if (table_[place] != no_out_port) return false;  // it comes twice
    table_[place] = static_cast<std::uint8_t>(*port);
    ++entries_;
    return true;
  }

  // "14 valid lids dumped"
  bool end(TextCursor& cursor) {
    const auto count = cursor.take_number();
    cursor.take("valid ");
    if (!is_open_ || !count || !cursor.take("lids dumped") || *count != entries_) return false;
    places_ += table_.size();
    tables_.emplace(guid_, std::move(table_));
    close();
    return true;
  }

  void drop() {
    if (is_open_) ++dropped_;
    close();
  }
  void close() {
    is_open_ = false;
    table_.clear();
    entries_ = 0;
  }

  std::map<std::uint64_t, std::vector<std::uint8_t>> tables_;
  std::size_t places_ = 0;  // of all tables that are kept
  int dropped_ = 0;
  bool is_open_ = false;
  std::uint64_t guid_ = 0;
  std::vector<std::uint8_t> table_;
  std::uint64_t entries_ = 0;
};

}  // namespace

ForwardingTables read_dump_fts(const FileReading& said) {
  TablesReader reader;
  ToolReading reading = read_lines(said, [&](std::string_view line) { return reader.read(line); });
  return reader.take(std::move(reading));
}

}  // namespace muster
