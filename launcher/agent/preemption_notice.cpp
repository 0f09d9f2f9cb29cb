#include "launcher/agent/preemption_notice.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>

#include "launcher/os/fd.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::size_t text_limit = 4096;
constexpr Milliseconds longest{7LL * 24 * 3600 * 1000};  // nobody announces more than a week ahead

std::optional<int> digits(std::string_view text, std::size_t at, std::size_t count) {
  if (at + count > text.size()) return std::nullopt;
  int number = 0;
  const auto part = text.substr(at, count);
  const auto read = std::from_chars(part.data(), part.data() + part.size(), number);
  if (read.ec != std::errc() || read.ptr != part.data() + part.size() || part.front() == '-') {
    return std::nullopt;
  }
  return number;
}

// "Z" or "+02:00" behind the seconds and their fraction; UTC where it is missing.
std::optional<std::chrono::minutes> zone_at(std::string_view text, std::size_t at) {
  if (at < text.size() && text[at] == '.') {
    ++at;
    while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0) ++at;
  }
  if (at >= text.size() || (text[at] != '+' && text[at] != '-')) return std::chrono::minutes{0};
  const auto hours = digits(text, at + 1, 2);
  const auto minutes = digits(text, at + (text.substr(at + 3, 1) == ":" ? 4 : 3), 2);
  if (!hours || !minutes) return std::nullopt;
  const std::chrono::minutes ahead{*hours * 60 + *minutes};
  return text[at] == '-' ? -ahead : ahead;
}

// "2026-03-01T10:00:00" at this place of the text.
std::optional<Time> time_at(std::string_view text, std::size_t at) {
  const auto year = digits(text, at, 4), month = digits(text, at + 5, 2),
             day = digits(text, at + 8, 2), hour = digits(text, at + 11, 2),
             minute = digits(text, at + 14, 2), second = digits(text, at + 17, 2);
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  const std::string marks{text[at + 4], text[at + 7], text[at + 10], text[at + 13], text[at + 16]};
  if (marks != "--T::" && marks != "-- ::") return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year{*year},
                                         std::chrono::month{static_cast<unsigned>(*month)},
                                         std::chrono::day{static_cast<unsigned>(*day)}};
  const auto zone = zone_at(text, at + 19);
  if (!date.ok() || !zone || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  return Time{std::chrono::sys_days{date}} + std::chrono::hours{*hour} +
         std::chrono::minutes{*minute} + std::chrono::seconds{*second} - *zone;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  text = trimmed(text);
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool all = read.ec == std::errc() && read.ptr == text.data() + text.size();
  return all ? std::optional(number) : std::nullopt;
}

Milliseconds within_reason(Milliseconds left) {
  return std::clamp(left, Milliseconds{0}, longest);
}

}  // namespace

std::optional<Milliseconds> time_left(std::string_view text, Milliseconds written_ago, Time now) {
  if (const auto seconds = whole_number(text)) {
    const std::int64_t most = longest.count() / 1000;
    return within_reason(Seconds{std::clamp<std::int64_t>(*seconds, 0, most)} - written_ago);
  }
  for (std::size_t at = 0; at + 19 <= text.size(); ++at) {
    if (const auto when = time_at(text, at)) return within_reason(*when - now);
  }
  return std::nullopt;
}

void PreemptionNotice::shut_down(Milliseconds leaves_in, std::string source) {
  is_shutting_down_ = true;
  notice_ = Notice{std::move(source), boot_time() + leaves_in, ""};
}

std::optional<PreemptionNotice::Notice> PreemptionNotice::read_file() const {
  const Fd file(::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts {};
  if (!file || ::fstat(file.get(), &facts) != 0) return std::nullopt;
  std::string text(text_limit, '\0');
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  const Time now = wall_clock_now();
  const Time written{Milliseconds{facts.st_mtim.tv_sec * 1000LL + facts.st_mtim.tv_nsec / 1000000}};
  Notice notice{file_, std::nullopt, std::to_string(to_ms(written)) + " " + text};
  const auto left = time_left(text, std::max(Milliseconds{0}, now - written), now);
  if (left) notice.leaves_at = boot_time() + *left;
  return notice;
}

std::optional<NoticeSeen> PreemptionNotice::poll() {
  if (file_.empty() || is_shutting_down_) return std::nullopt;
  auto found = read_file();
  const bool is_known = found && notice_ && found->version == notice_->version;
  if (is_known || (!found && !notice_)) return std::nullopt;
  notice_ = std::move(found);
  return state();
}

std::optional<NoticeSeen> PreemptionNotice::state() const {
  if (!notice_) return file_.empty() ? std::nullopt : std::optional(NoticeSeen{{}, file_, true});
  NoticeSeen seen{{}, notice_->source};
  if (notice_->leaves_at) {
    const auto left = std::chrono::duration_cast<Milliseconds>(*notice_->leaves_at - boot_time());
    seen.leaves_in = std::max(Milliseconds{0}, left);
  }
  return seen;
}

}  // namespace muster
