#include "health/read/kmsg.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace muster {

namespace {

// The kernel itself cuts records (with their dictionary) at 8 KiB.
constexpr std::size_t line_max_bytes = 16 * 1024;
constexpr std::size_t text_max_bytes = 8 * 1024;

std::optional<std::uint64_t> take_number(std::string_view& rest, char end) {
  std::uint64_t value = 0;
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  const std::size_t used = static_cast<std::size_t>(stop - rest.data());
  if (error != std::errc() || used == rest.size() || rest[used] != end) return std::nullopt;
  rest.remove_prefix(used + 1);
  return value;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string unescaped(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool may_be = text[at] == '\\' && at + 3 < text.size() && text[at + 1] == 'x';
    const int high = may_be ? hex_value(text[at + 2]) : -1;
    const int low = may_be ? hex_value(text[at + 3]) : -1;
    if (high < 0 || low < 0) {
      plain += text[at];
      continue;
    }
    plain += static_cast<char>(high * 16 + low);
    at += 3;
  }
  return plain;
}

// Priority word: three bits of level, above them who wrote it; 0 is the kernel.
void set_priority(KernelLine& line, std::uint64_t word) {
  line.priority = static_cast<int>(word & 7);
  line.is_from_kernel = (word >> 3) == 0;
}

struct Record {
  KernelLine line;
  bool continues = false;  // the record before
};

std::optional<Record> parse_record(std::string_view text) {
  const std::size_t semicolon = text.find(';');
  if (semicolon == std::string_view::npos) return std::nullopt;
  std::string_view head = text.substr(0, semicolon + 1);
  const auto priority = take_number(head, ',');
  const auto sequence = priority ? take_number(head, ',') : std::nullopt;
  if (!sequence) return std::nullopt;
  const auto has_flags = head.find(',') != std::string_view::npos;
  const auto usec = take_number(head, has_flags ? ',' : ';');
  if (!usec || *usec > std::uint64_t{1} << 62) return std::nullopt;
  Record record;
  set_priority(record.line, *priority);
  record.line.sequence = sequence;
  record.line.since_boot = SinceBoot(static_cast<std::int64_t>(*usec));
  record.line.text = unescaped(text.substr(semicolon + 1, text_max_bytes));
  record.continues = has_flags && head.starts_with('+');
  return record;
}

constexpr std::array<std::string_view, 8> level_words{"emerg", "alert",  "crit", "err",
                                                      "warn",  "notice", "info", "debug"};

// `kern  :err   : rest`
void take_level(std::string_view& rest, KernelLine& line) {
  const std::size_t first = rest.find(':');
  const std::size_t second = first == rest.npos ? rest.npos : rest.find(':', first + 1);
  if (second == rest.npos || second > 20) return;
  std::string_view word = rest.substr(first + 1, second - first - 1);
  word = word.substr(0, word.find(' '));
  const auto level = std::ranges::find(level_words, word);
  if (level == level_words.end()) return;
  line.priority = static_cast<int>(level - level_words.begin());
  line.is_from_kernel = rest.starts_with("kern");
  rest.remove_prefix(std::min(rest.size(), second + 2));
}

// `<4>rest`
void take_number_in_angles(std::string_view& rest, KernelLine& line) {
  if (!rest.starts_with('<')) return;
  std::string_view inside = rest.substr(1);
  const auto word = take_number(inside, '>');
  if (!word || *word > 191) return;
  set_priority(line, *word);
  rest = inside;
}

std::optional<SinceBoot> seconds_of(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  text = text.substr(0, text.find_first_not_of("0123456789."));
  double seconds = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool is_whole = error == std::errc() && stop == text.data() + text.size();
  if (!is_whole || seconds > 1e10) return std::nullopt;
  return SinceBoot(static_cast<std::int64_t>(seconds * 1e6 + 0.5));
}

// What dmesg puts into brackets before the text: seconds, a date of 24 characters, `T123` or `C0`.
bool is_stamp(std::string_view inside) {
  constexpr std::string_view digits = "0123456789";
  if (inside.empty() || digits.find(inside.back()) == digits.npos) return false;
  if (inside.find_first_not_of(" 0123456789.") == inside.npos) return true;
  if (inside.size() == 24) return inside.find(':') != inside.npos;
  while (inside.starts_with(' ')) inside.remove_prefix(1);
  return (inside.starts_with('T') || inside.starts_with('C')) && inside.size() < 9 &&
         inside.find_first_not_of(digits, 1) == inside.npos;
}

void take_brackets(std::string_view& rest, KernelLine& line) {
  while (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == rest.npos || end > 40) return;
    const std::string_view inside = rest.substr(1, end - 1);
    if (!is_stamp(inside)) return;
    const bool is_time = inside.find_first_not_of(" 0123456789.") == inside.npos;
    if (is_time && !line.since_boot) line.since_boot = seconds_of(inside);
    rest.remove_prefix(end + 1);
    while (rest.starts_with(' ')) rest.remove_prefix(1);
  }
}

}  // namespace

void KmsgParser::take_line(std::string_view line, std::vector<KernelLine>& records) {
  if (line.starts_with(' ')) {
    constexpr std::string_view key = " DEVICE=";
    if (line.starts_with(key) && !records.empty()) {
      records.back().device = unescaped(line.substr(key.size(), 128));
    }
    return;
  }
  if (line.empty()) return;
  auto record = parse_record(line);
  if (!record) {
    ++malformed_;
  } else if (record->continues && !records.empty()) {
    KernelLine& begun = records.back();
    begun.sequence = record->line.sequence;
    ++begun.continued;
    begun.text +=
        record->line.text.substr(0, text_max_bytes - std::min(text_max_bytes, begun.text.size()));
  } else {
    records.push_back(std::move(record->line));
  }
}

std::vector<KernelLine> KmsgParser::feed(std::string_view bytes) {
  std::vector<KernelLine> records;
  for (std::size_t end = bytes.find('\n'); end != bytes.npos; end = bytes.find('\n')) {
    const std::string_view piece = bytes.substr(0, end);
    if (skipping_ || unfinished_.size() + piece.size() > line_max_bytes) {
      ++malformed_;
    } else if (unfinished_.empty()) {
      take_line(piece, records);
    } else {
      take_line(unfinished_.append(piece), records);
    }
    unfinished_.clear();
    skipping_ = false;
    bytes.remove_prefix(end + 1);
  }
  skipping_ = skipping_ || unfinished_.size() + bytes.size() > line_max_bytes;
  if (skipping_) unfinished_.clear();
  if (!skipping_) unfinished_.append(bytes);
  return records;
}

KernelLine parse_plain_line(std::string_view rest) {
  KernelLine line;
  rest = rest.substr(0, text_max_bytes);
  while (rest.ends_with('\n') || rest.ends_with('\r')) rest.remove_suffix(1);
  take_number_in_angles(rest, line);
  take_level(rest, line);
  take_brackets(rest, line);
  // `Jun 11 09:44:44 n17 kernel: …`, and journalctl's `[   12.345678] n17 kernel: …`
  constexpr std::string_view mark = " kernel: ";
  const std::size_t at = rest.substr(0, 120).find(mark);
  if (at != rest.npos) {
    rest.remove_prefix(at + mark.size());
    take_brackets(rest, line);
  }
  line.text = rest;
  return line;
}

namespace {

std::string escaped(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '\\') {
      out += c;
    } else {
      out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return out;
}

}  // namespace

std::string kmsg_text(const KernelLine& line) {
  if (!line.sequence || !line.since_boot) return {};
  constexpr int by_a_program = 8;
  const int word = line.priority.value_or(0) + (line.is_from_kernel ? 0 : by_a_program);
  const std::uint64_t joined = std::min(line.continued, *line.sequence);
  std::string text;
  for (std::uint64_t record = 0; record <= joined; ++record) {
    text += std::to_string(word) + "," + std::to_string(*line.sequence - joined + record) + "," +
            std::to_string(line.since_boot->count()) + (record == 0 ? ",-;" : ",+;") +
            (record == 0 ? escaped(line.text) : "") + "\n";
  }
  if (!line.device.empty()) text += " DEVICE=" + escaped(line.device) + "\n";
  return text;
}

std::string printable(std::string_view text, std::size_t limit) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = byte >= 0x20 && byte < 0x7f;
    if (shown.size() + (is_plain ? 1 : 4) > limit) break;
    if (is_plain) {
      shown += c;
    } else {
      shown += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return shown;
}

}  // namespace muster
