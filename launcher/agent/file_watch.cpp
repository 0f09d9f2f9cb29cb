#include "launcher/agent/file_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

namespace muster {

namespace {

// A rank that prints line by line changes its file thousands of times a second; looking once a
// millisecond sends many lines in one frame.
constexpr std::chrono::milliseconds pause_between_looks{1};

}  // namespace

FileWatch::FileWatch(boost::asio::io_context& io, std::function<void()> on_change)
    : events_(io), pause_(io), on_change_(std::move(on_change)) {
  const int fd = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (fd < 0) return;
  events_.assign(fd);
  wait();
}

void FileWatch::add(const std::string& directory) {
  if (!events_.is_open() || watched_.contains(directory)) return;
  const int watch = ::inotify_add_watch(events_.native_handle(), directory.c_str(), IN_MODIFY);
  if (watch >= 0) watched_[directory] = watch;
}

void FileWatch::remove(const std::string& directory) {
  const auto found = watched_.find(directory);
  if (found == watched_.end()) return;
  ::inotify_rm_watch(events_.native_handle(), found->second);
  watched_.erase(found);
}

void FileWatch::wait() {
  events_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this](const boost::system::error_code& error) {
                       if (error) return;
                       drain();
                       on_change_();
                       pause_.expires_after(pause_between_looks);
                       pause_.async_wait([this](const boost::system::error_code& stopped) {
                         if (!stopped) wait();
                       });
                     });
}

void FileWatch::drain() {
  alignas(inotify_event) char buffer[16384];
  while (::read(events_.native_handle(), buffer, sizeof buffer) > 0) {
  }
}

}  // namespace muster
