// The end of this process's lease (runtime/protocol/lease.h): from then on another attempt may run,
// and this one must not write. Its agent or the agent's keeper kills it in time; where both stand
// still, with the whole host or by themselves, the rank is the first that can know it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace muster {

// Holds the lease at `path` for this process; false, and none is held, when there is none there.
// Called before there are other threads that look.
bool hold_lease(const std::string& path);

// True once the lease that is held is over; never without one. Any thread.
bool lease_is_over();

inline constexpr const char* lease_complaint =
    "the lease of this process has expired: its agent stood still, and another attempt may run: it "
    "must not write";

// While it lives, the process ends as soon as its lease is over.
class EndWithLease {
 public:
  EndWithLease();
  ~EndWithLease();
  EndWithLease(const EndWithLease&) = delete;
  EndWithLease& operator=(const EndWithLease&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread watcher_;
};

}  // namespace muster
