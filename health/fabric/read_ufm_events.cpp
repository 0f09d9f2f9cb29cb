#include <algorithm>
#include <charconv>

#include "health/fabric/text_cursor.h"
#include "health/fabric/ufm_events.h"

namespace muster {

namespace {

constexpr std::size_t kept_line_max = 300;
constexpr std::size_t cables_max = 100'000;
constexpr std::size_t times_max = 100;

// So many digits and no more.
std::optional<int> take_exact_digits(std::string_view& text, std::size_t count) {
  if (text.size() < count) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + count, value);
  const bool is_whole = error == std::errc() && end == text.data() + count && text.front() != '-';
  if (!is_whole) return std::nullopt;
  text.remove_prefix(count);
  return value;
}

bool take_char(std::string_view& text, char wanted) {
  if (!text.starts_with(wanted)) return false;
  text.remove_prefix(1);
  return true;
}

// "2023-12-20 07:46:24.442", with or without what is behind the point.
std::optional<UfmTime> take_time(std::string_view& text) {
  using namespace std::chrono;
  const auto y = take_exact_digits(text, 4);
  if (!y || !take_char(text, '-')) return std::nullopt;
  const auto mo = take_exact_digits(text, 2);
  if (!mo || !take_char(text, '-')) return std::nullopt;
  const auto d = take_exact_digits(text, 2);
  if (!d || !take_char(text, ' ')) return std::nullopt;
  const auto h = take_exact_digits(text, 2);
  if (!h || !take_char(text, ':')) return std::nullopt;
  const auto mi = take_exact_digits(text, 2);
  if (!mi || !take_char(text, ':')) return std::nullopt;
  const auto s = take_exact_digits(text, 2);
  const year_month_day day{year(*y), month(static_cast<unsigned>(*mo)),
                           std::chrono::day(static_cast<unsigned>(*d))};
  if (!s || !day.ok() || *h > 23 || *mi > 59 || *s > 60) return std::nullopt;
  const std::size_t blank = std::min(text.find(' '), text.size());
  const std::string_view fraction = text.substr(0, blank);
  const bool is_fraction =
      fraction.empty() ||
      (fraction.front() == '.' && fraction.find_first_not_of("0123456789", 1) == fraction.npos);
  if (!is_fraction) return std::nullopt;
  text.remove_prefix(blank);
  return UfmTime(local_days(day).time_since_epoch() + hours(*h) + minutes(*mi) + seconds(*s));
}

// "[12] "
bool take_number_in_brackets(std::string_view& text) {
  TextCursor cursor(text);
  if (!cursor.take("[") || !cursor.take_number() || !cursor.take("]")) return false;
  text = cursor.rest();
  return true;
}

// Behind "[329] ": "WARNING [Fabric_Notification] Link [DESCRIPTION]: MESSAGE"; a description may
// have brackets of its own. Nothing: it is no event.
std::optional<std::string_view> message_of(std::string_view text) {
  TextCursor cursor(text);
  if (cursor.take_word().empty() || !cursor.take("[")) return std::nullopt;
  const std::size_t end = cursor.rest().find("]: ");
  if (end == std::string_view::npos) return std::nullopt;
  return trimmed(cursor.rest().substr(end + 3));
}

struct NamedEnd {
  FabricEnd end;
  std::string_view name;
  FabricNodeKind kind = FabricNodeKind::unknown;
};

FabricNodeKind kind_of_named(std::string_view word) {
  if (word == "Switch") return FabricNodeKind::switch_node;
  return word == "Computer" || word == "Host" ? FabricNodeKind::adapter : FabricNodeKind::unknown;
}

// "(Switch:leaf1:1/17/1)9c0591030090e000:33". A name may hold anything but the bracket that ends
// it.
std::optional<NamedEnd> take_named_end(std::string_view& text) {
  if (!take_char(text, '(')) return std::nullopt;
  const std::size_t close = text.find(')');
  if (close == text.npos) return std::nullopt;
  const std::string_view words = text.substr(0, close);
  text.remove_prefix(close + 1);
  const std::size_t guid_end = text.find(':');
  if (guid_end == text.npos || guid_end > 18) return std::nullopt;
  TextCursor cursor(text.substr(0, guid_end));
  const auto guid = cursor.take_hex();
  if (!guid || !cursor.rest().empty()) return std::nullopt;
  TextCursor behind(text.substr(guid_end + 1));
  const auto port = behind.take_port();
  if (!port) return std::nullopt;
  text = behind.rest();
  NamedEnd named{{*guid, *port}, {}, FabricNodeKind::unknown};
  const std::size_t colon = words.find(':');
  if (colon == words.npos) return named;
  named.kind = kind_of_named(trimmed(words.substr(0, colon)));
  const std::string_view rest = words.substr(colon + 1);
  named.name = trimmed(rest.substr(0, rest.find(':')));
  return named;
}

}  // namespace

void UfmEventReader::feed(std::string_view bytes) {
  lines_.feed(bytes, [this](std::optional<std::string_view> line) {
    if (line) return take_line(*line);
    ++events_.skipped_lines;
  });
}

void UfmEventReader::take_line(std::string_view line) {
  if (line.empty()) return;
  std::string_view rest = line;
  const auto at = take_time(rest);
  const bool is_numbered = at && take_number_in_brackets(rest) && take_number_in_brackets(rest);
  const auto message = is_numbered ? message_of(rest) : std::nullopt;
  if (!message) {
    ++events_.skipped_lines;
    return;
  }
  ++events_.events;
  events_.first = events_.first ? std::min(*events_.first, *at) : at;
  events_.last = events_.last ? std::max(*events_.last, *at) : at;
  constexpr std::string_view down = "Link went down:";
  if (message->starts_with(down)) take_link_down(message->substr(down.size()), *at, line);
}

void UfmEventReader::take_link_down(std::string_view message, UfmTime at, std::string_view line) {
  message = trimmed(message);
  const auto one = take_named_end(message);
  message = trimmed(message);
  const bool has_dash = one && take_char(message, '-');
  message = trimmed(message);
  const auto other = has_dash ? take_named_end(message) : std::nullopt;
  if (!other) {
    --events_.events;
    ++events_.skipped_lines;
    return;
  }
  const FabricLink link = link_of(one->end, other->end);
  const bool is_known = events_.cables.contains(link);
  if (!is_known && events_.cables.size() >= cables_max) {
    events_.is_full = true;
    return;
  }
  for (const NamedEnd& end : {*one, *other})
    note_node(events_.named, end.end.guid, end.name, end.kind);
  CableFlaps& cable = events_.cables[link];
  cable.down.push_back(at);
  if (cable.down.size() > times_max) cable.down.pop_front();
  cable.line = line.substr(0, kept_line_max);
}

// A line that its writer has not ended yet is none.
UfmEvents UfmEventReader::done() {
  if (events_.events == 0 && events_.error.empty())
    events_.error = "this is no log of UFM's events";
  return std::move(events_);
}

}  // namespace muster
