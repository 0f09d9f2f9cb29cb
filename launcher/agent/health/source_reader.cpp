#include "launcher/agent/health/source_reader.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

namespace muster {

namespace {

// For a helper.
constexpr std::chrono::milliseconds shortest_wait{1};
constexpr std::chrono::seconds longest_wait{1};
// A driver that hangs does so for a part of the gate's time only.
constexpr NodeReaderLimits reader_limits{std::chrono::milliseconds(2000),
                                         std::chrono::milliseconds(5000),
                                         std::chrono::milliseconds(8000)};

}  // namespace

SourceReader::SourceReader(boost::asio::io_context& io, std::vector<std::string> helper,
                           std::function<void()> on_wake)
    : helper_(std::move(helper)), on_wake_(std::move(on_wake)), timer_(io) {}

void SourceReader::open() {
  if (reader_ || is_released_) return;
  NodeReader::Options options;
  options.helper = helper_;
  options.limits = reader_limits;
  options.wants_events = true;
  options.wait = [this](pid_t pid, int* status, int) { return wait(pid, status); };
  reader_ = std::make_unique<NodeReader>(std::move(options));
}

void SourceReader::release() {
  is_released_ = true;
  if (reader_) reader_->pause();
}

bool SourceReader::acquire() {
  if (!std::exchange(is_released_, false)) return false;
  if (reader_) reader_->resume();
  return true;
}

pid_t SourceReader::wait(pid_t pid, int* status) {
  const auto found = dead_.find(pid);
  if (found == dead_.end()) return ::waitpid(pid, status, WNOHANG);
  if (status != nullptr) *status = found->second;
  dead_.erase(found);
  return pid;
}

bool SourceReader::reaped(pid_t pid, int wait_status) {
  if (!reader_ || reader_->helper() != pid) return false;
  dead_[pid] = wait_status;
  reader_->advance();  // before the number is somebody else's
  return true;
}

// The agent looks for dead ranks 200 times a second, and each time one timer more is moved past.
void SourceReader::wake_after(Milliseconds pause, Milliseconds most) {
  helper_says_.reset();
  if (pause > most) {
    timer_.cancel();
    return;
  }
  timer_.expires_after(pause);
  wait_for_timer();
}

void SourceReader::wait_for_timer() {
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) wake();
  });
}

// Its own descriptor of the helper's socket: the reader closes the other one when it likes.
void SourceReader::wake_when_read() {
  const SteadyTime now = SteadyTime::clock::now();
  timer_.expires_at(std::max(reader_->wake_at().value_or(now + longest_wait), now + shortest_wait));
  wait_for_timer();
  helper_says_.reset();
  const int own =
      reader_->descriptor() < 0 ? -1 : ::fcntl(reader_->descriptor(), F_DUPFD_CLOEXEC, 0);
  if (own < 0) return;
  helper_says_ =
      std::make_unique<boost::asio::posix::stream_descriptor>(timer_.get_executor(), own);
  helper_says_->async_wait(boost::asio::posix::stream_descriptor::wait_read,
                           [this](const boost::system::error_code& error) {
                             if (!error) wake();
                           });
}

void SourceReader::wake() {
  if (reader_) reader_->advance();
  on_wake_();
}

}  // namespace muster
