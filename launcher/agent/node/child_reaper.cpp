#include "launcher/agent/node/child_reaper.h"

#include <algorithm>
#include <utility>

namespace muster {

namespace {

// How exactly the end of a rank is known: since the last look at which it lived, however long the
// agent was held up meanwhile. A look costs about 50 us of a core, with waking up for it. One that
// comes a whole interval late says that there are not enough of them: then half as many follow.
constexpr std::chrono::milliseconds usual_look{5};
constexpr std::chrono::milliseconds rarest_look{40};

}  // namespace

ChildReaper::ChildReaper(boost::asio::io_context& io, ProcessTable& processes, Handlers handlers)
    : processes_(processes),
      handlers_(std::move(handlers)),
      timer_(io),
      interval_(usual_look),
      nobody_dead_at_(raw_time()) {}

bool ChildReaper::reap() {
  DeadChild child;
  child.earliest = nobody_dead_at_;
  bool found = false;
  while (true) {
    const RawTime now = raw_time();
    child.pid = processes_.reap(child.wait_status);
    if (child.pid <= 0) {
      nobody_dead_at_ = now;
      return found;
    }
    found = true;
    child.latest = raw_time();
    handlers_.on_dead(child);
  }
}

void ChildReaper::look() {
  if (reap()) handlers_.on_reaped();
}

void ChildReaper::look_often() {
  if (is_looking_ || !handlers_.is_wanted()) return;
  is_looking_ = true;
  // All agents of a machine look at the same moments, so that it is woken once for all of them.
  const auto now = Clock::now().time_since_epoch();
  timer_.expires_at(Clock::time_point((now / interval_ + 1) * interval_));
  timer_.async_wait([this](const boost::system::error_code& error) {
    is_looking_ = false;
    if (error) return;
    const bool is_late = Clock::now() - timer_.expiry() > usual_look;
    interval_ = is_late ? std::min(2 * interval_, rarest_look) : usual_look;
    look();
    look_often();
  });
}

}  // namespace muster
