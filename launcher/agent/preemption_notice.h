// Whether this host will be taken away: a file that the site's own means make and remove, and what
// the host says to all its processes when it shuts down. Owned by Agent; a local file only.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/wire/agent_report.h"
#include "runtime/protocol/boot_clock.h"

namespace muster {

// In how many milliseconds the host goes, by the text of a notice: a time of day somewhere in it
// ("2026-03-01T10:00:00Z", as clouds say it in JSON), or seconds since it was written. Absent: it
// names no time.
std::optional<Milliseconds> time_left(std::string_view text, Milliseconds written_ago, Time now);

class PreemptionNotice {
 public:
  // From the greeting; empty: none is watched.
  void watch(std::string file) { file_ = std::move(file); }
  // The host shuts down, in so long.
  void shut_down(Milliseconds leaves_in, std::string source);
  // News since the last look.
  std::optional<NoticeSeen> poll();
  // For a controller that may not know it: what holds now, or that the file says nothing.
  std::optional<NoticeSeen> state() const;

 private:
  struct Notice {
    std::string source;
    std::optional<BootTime> leaves_at;
    std::string version;  // of the file: a new one is another notice
  };
  std::optional<Notice> read_file() const;

  std::string file_;
  std::optional<Notice> notice_;
  bool is_shutting_down_ = false;
};

}  // namespace muster
