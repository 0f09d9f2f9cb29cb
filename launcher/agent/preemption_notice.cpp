#include "launcher/agent/preemption_notice.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <regex>

#include "launcher/os/fd.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::size_t text_limit = 4096;
constexpr Milliseconds longest{7LL * 24 * 3600 * 1000};  // nobody announces more than a week ahead

// "2026-03-01T10:00:00", then a fraction, then "Z" or "+02:00"; UTC where that is missing.
const std::regex& time_form() {
  static const std::regex form(R"((\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.\d{0,30})?)"
                               R"((?:([+-])(\d\d):?(\d\d)|(?![+.-])))");
  return form;
}

std::optional<Time> time_of(const std::cmatch& found) {
  const auto number = [&](std::size_t part) {
    return static_cast<int>(read_integer(found.str(part)).value_or(0));
  };
  const std::chrono::year_month_day date{std::chrono::year{number(1)},
                                         std::chrono::month{static_cast<unsigned>(number(2))},
                                         std::chrono::day{static_cast<unsigned>(number(3))}};
  if (!date.ok() || number(4) > 23 || number(5) > 59 || number(6) > 60) return std::nullopt;
  const std::chrono::minutes ahead{number(8) * 60 + number(9)};
  return Time{std::chrono::sys_days{date}} + std::chrono::hours{number(4)} +
         std::chrono::minutes{number(5)} + std::chrono::seconds{number(6)} -
         (found.str(7) == "-" ? -ahead : ahead);
}

Milliseconds within_reason(Milliseconds left) {
  return std::clamp(left, Milliseconds{0}, longest);
}

}  // namespace

std::optional<Milliseconds> time_left(std::string_view text, Milliseconds written_ago, Time now) {
  if (const auto seconds = read_integer(trimmed(text))) {
    const std::int64_t most = longest.count() / 1000;
    return within_reason(Seconds{std::clamp<std::int64_t>(*seconds, 0, most)} - written_ago);
  }
  const char* const end = text.data() + text.size();
  for (std::cregex_iterator each(text.data(), end, time_form()), none; each != none; ++each) {
    if (const auto when = time_of(*each)) return within_reason(*when - now);
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
  std::string text;
  if (!read_at(file.get(), 0, text_limit, text)) text.clear();
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
