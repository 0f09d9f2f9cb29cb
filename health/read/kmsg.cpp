#include "health/read/kmsg.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <iterator>

#include "health/model/source_files.h"
#include "health/read/files.h"

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

std::string unescaped(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool has_room = text.substr(at).starts_with("\\x") && at + 4 <= text.size();
    const auto byte =
        has_room ? whole_number<std::uint8_t>(text.substr(at + 2, 2), 16) : std::nullopt;
    plain += byte ? static_cast<char>(*byte) : text[at];
    if (byte) at += 3;
  }
  return plain;
}

struct KmsgRecord {
  KernelLine line;
  bool continues = false;  // the record before
};

std::optional<KmsgRecord> parse_record(std::string_view text) {
  const std::size_t semicolon = text.find(';');
  if (semicolon == std::string_view::npos) return std::nullopt;
  std::string_view head = text.substr(0, semicolon + 1);
  const auto priority = take_number(head, ',');
  const auto sequence = priority ? take_number(head, ',') : std::nullopt;
  if (!sequence) return std::nullopt;
  const auto has_flags = head.find(',') != std::string_view::npos;
  const auto usec = take_number(head, has_flags ? ',' : ';');
  if (!usec || *usec > std::uint64_t{1} << 62) return std::nullopt;
  KmsgRecord record;
  // Three bits of level, above them who wrote it; 0 is the kernel.
  record.line.priority = static_cast<int>(*priority & 7);
  record.line.is_from_kernel = (*priority >> 3) == 0;
  record.line.sequence = sequence;
  record.line.since_boot = SinceBoot(static_cast<std::int64_t>(*usec));
  record.line.text = unescaped(text.substr(semicolon + 1, text_max_bytes));
  record.continues = has_flags && head.starts_with('+');
  return record;
}

constexpr std::size_t bytes_at_once = 1u << 20;
// The kernel refuses to give a record into less room than it needs: 8 KiB.
constexpr std::size_t record_bytes_max = 16u << 10;
// A log that is overwritten faster than it is read must not hold its reader for ever.
constexpr int overtaken_max = 64;

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
  if (!record) return;
  if (record->continues && !records.empty()) {
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
    if (!skipping_ && unfinished_.size() + piece.size() <= line_max_bytes)
      take_line(unfinished_.empty() ? piece : unfinished_.append(piece), records);
    unfinished_.clear();
    skipping_ = false;
    bytes.remove_prefix(end + 1);
  }
  skipping_ = skipping_ || unfinished_.size() + bytes.size() > line_max_bytes;
  if (skipping_) unfinished_.clear();
  if (!skipping_) unfinished_.append(bytes);
  return records;
}

namespace {

// \xNN in the place of what is not printable, or is one of `also`.
std::string escaped(std::string_view text, std::string_view also, std::size_t limit) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = byte >= 0x20 && byte < 0x7f && also.find(c) == also.npos;
    if (shown.size() + (is_plain ? 1 : 4) > limit) break;
    if (is_plain) {
      shown += c;
    } else {
      shown += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return shown;
}

}  // namespace

std::string kmsg_text(const KernelLine& line) {
  if (!line.sequence || !line.since_boot) return {};
  constexpr int by_a_program = 8;
  const int word = line.priority.value_or(0) + (line.is_from_kernel ? 0 : by_a_program);
  const auto kmsg_escaped = [](const std::string& one) { return escaped(one, "\\", one.npos); };
  const std::uint64_t joined = std::min(line.continued, *line.sequence);
  std::string text;
  for (std::uint64_t record = 0; record <= joined; ++record) {
    text += std::to_string(word) + "," + std::to_string(*line.sequence - joined + record) + "," +
            std::to_string(line.since_boot->count()) + (record == 0 ? ",-;" : ",+;") +
            (record == 0 ? kmsg_escaped(line.text) : "") + "\n";
  }
  if (!line.device.empty()) text += " DEVICE=" + kmsg_escaped(line.device) + "\n";
  return text;
}

std::string printable(std::string_view text, std::size_t limit) {
  return escaped(text, "", limit);
}

KernelLog::KernelLog(const std::string& path)
    : file_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)) {
  struct stat kind {};
  if (file_ < 0 || ::fstat(file_, &kind) != 0) fail(errno);
  is_regular_ = S_ISREG(kind.st_mode);
  if (S_ISFIFO(kind.st_mode)) own_writer_ = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (S_ISDIR(kind.st_mode)) fail(EISDIR);
}

KernelLog::~KernelLog() {
  close();
}

void KernelLog::close() {
  if (file_ >= 0) ::close(file_);
  if (own_writer_ >= 0) ::close(own_writer_);
  file_ = own_writer_ = -1;
}

void KernelLog::fail(int error_number) {
  error_ = failed_reading(error_number).error;
  close();
}

std::vector<KernelLine> KernelLog::read() {
  std::vector<KernelLine> lines;
  std::array<char, record_bytes_max> part{};
  std::size_t taken = 0;
  int overtaken = 0;
  may_have_more_ = false;
  while (file_ >= 0) {
    may_have_more_ = taken >= bytes_at_once || overtaken >= overtaken_max;
    if (may_have_more_) break;
    const ssize_t size = ::read(file_, part.data(), part.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EPIPE) {
      ++overtaken;
      continue;
    }
    if (size < 0 && errno != EAGAIN) fail(errno);
    if (size <= 0) break;
    taken += static_cast<std::size_t>(size);
    auto more = parser_.feed({part.data(), static_cast<std::size_t>(size)});
    lines.insert(lines.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
  }
  return lines;
}

}  // namespace muster
