#include "health/active/timed_passes.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <barrier>
#include <future>
#include <system_error>
#include <thread>

#include "health/active/processor_list.h"
#include "health/read/files.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

// More than the mask of any call below holds.
constexpr int processors_max = 16'384;
constexpr std::string_view online_source = "/sys/devices/system/cpu/online";

class ProcessorMask {
 public:
  ProcessorMask() : bytes_(CPU_ALLOC_SIZE(processors_max)), mask_(CPU_ALLOC(processors_max)) {
    check(mask_ != nullptr, "no memory for a mask of processors");
    CPU_ZERO_S(bytes_, mask_);
  }
  ~ProcessorMask() { CPU_FREE(mask_); }
  ProcessorMask(const ProcessorMask&) = delete;

  bool read_own() { return ::sched_getaffinity(0, bytes_, mask_) == 0; }
  bool has(int processor) const { return CPU_ISSET_S(processor, bytes_, mask_); }
  bool use_for_this_thread(int processor) {
    CPU_SET_S(processor, bytes_, mask_);
    return ::pthread_setaffinity_np(::pthread_self(), bytes_, mask_) == 0;
  }

 private:
  std::size_t bytes_;
  cpu_set_t* mask_;
};

// What all workers agree on between two passes, while none of them works.
class PassClock {
 public:
  explicit PassClock(const PassLimits& limits) : limits_(limits) {}

  void all_done() noexcept {
    const auto now = Clock::now();
    if (is_prepared_) {
      seconds_.push_back(std::chrono::duration<double>(now - begun_).count());
    } else {
      is_prepared_ = true;
      first_ = now;
      seconds_.reserve(limits_.most);
    }
    goes_on_ = wants_another(now);
    begun_ = Clock::now();
  }
  bool goes_on() const { return goes_on_; }
  std::vector<double> take() { return std::move(seconds_); }

 private:
  bool wants_another(Clock::time_point now) const {
    if (seconds_.size() < limits_.least) return true;
    if (seconds_.size() >= limits_.most) return false;
    const std::chrono::duration<double> last(seconds_.back());
    return now - first_ + last <= limits_.time;
  }

  PassLimits limits_;
  bool is_prepared_ = false;
  bool goes_on_ = true;
  Clock::time_point first_;
  Clock::time_point begun_;
  std::vector<double> seconds_;
};

}  // namespace

std::vector<int> usable_processors() {
  ProcessorMask mask;
  std::vector<int> usable;
  if (!mask.read_own()) return {0};
  for (int processor = 0; processor < processors_max; ++processor) {
    if (mask.has(processor)) usable.push_back(processor);
  }
  return usable;
}

std::vector<int> online_processors() {
  const SourceFiles files = read_files({"/", {std::string(online_source)}});
  std::vector<int> online = read_processor_list(files.text(online_source).value_or(""));
  return online.empty() ? usable_processors() : online;
}

bool use_processor(int processor) {
  ProcessorMask mask;
  return processor >= 0 && processor < processors_max && mask.use_for_this_thread(processor);
}

Result<std::vector<double>> time_passes(const std::vector<int>& processors, const TimedWork& work,
                                        const PassLimits& limits) {
  PassClock clock(limits);
  const auto between = [&clock]() noexcept { clock.all_done(); };
  std::barrier line(static_cast<std::ptrdiff_t>(processors.size()), between);
  std::promise<bool> start;
  const std::shared_future<bool> started = start.get_future().share();
  const auto run = [&](std::size_t worker) {
    if (!started.get()) return;
    use_processor(processors[worker]);
    work.prepare(worker);
    line.arrive_and_wait();
    while (clock.goes_on()) {
      work.pass(worker);
      line.arrive_and_wait();
    }
  };
  std::vector<std::thread> threads;
  std::string why;
  try {
    for (std::size_t worker = 0; worker < processors.size(); ++worker)
      threads.emplace_back(run, worker);
  } catch (const std::system_error& error) {
    why = error.what();
  }
  start.set_value(why.empty());
  for (std::thread& thread : threads) thread.join();
  if (!why.empty()) {
    return Error{"cannot start thread " + std::to_string(threads.size() + 1) + " of " +
                 std::to_string(processors.size()) + ": " + why};
  }
  return clock.take();
}

}  // namespace muster
