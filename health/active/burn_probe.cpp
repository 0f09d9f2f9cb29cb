#include "health/active/burn_probe.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>

#include "health/active/burn_load.h"
#include "health/active/clock_watch.h"
#include "health/active/gpu_burn.h"
#include "health/active/processor_products.h"
#include "health/active/throttle_watch.h"
#include "health/active/xid_tally.h"
#include "health/benchmark/tools/sample_line.h"
#include "health/read/files.h"
#include "health/read/kernel_log.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds between_burn_looks{1};
// The kernel keeps some MiB at most; a log that grows faster than it is read is no reason to stay.
constexpr int log_reads_most = 64;
constexpr const char* xid_device = "driver";

PerformanceSample unknown(const char* metric, const char* device, const std::string& why,
                          bool is_absent = false) {
  return {metric, device, std::nullopt, why, is_absent};
}

PerformanceSample counted(const char* metric, const char* device, double count,
                          const std::string& note) {
  PerformanceSample sample{metric, device, count, ""};
  if (count > 0) sample.note = note;
  return sample;
}

// What the kernel tells.
class KernelSigns {
 public:
  explicit KernelSigns(const std::string& root) : log_(root + "/dev/kmsg") {
    request_.root = root.empty() ? "/" : root;
    request_.sources = throttle_sources();
    for (int read = 0; read < log_reads_most; ++read) {
      xids_.skip(log_.read());
      if (!log_.may_have_more()) break;
    }
    throttles_.add(read_files(request_));
  }

  void look() {
    throttles_.add(read_files(request_));
    for (int read = 0; read < log_reads_most; ++read) {
      xids_.add(log_.read());
      if (!log_.may_have_more()) break;
    }
  }

  PerformanceSample throttling(const std::string& unloaded) const {
    const char* metric = burn_throttle_metric;
    const auto events = static_cast<double>(throttles_.events());
    if (events > 0) return counted(metric, processors_device, events, throttles_.text());
    if (!throttles_.unwatched().empty())
      return unknown(metric, processors_device, throttles_.unwatched());
    if (!throttles_.has_counters()) {
      return unknown(metric, processors_device,
                     "the kernel counts no throttling here: no thermal_throttle in /sys", true);
    }
    if (!unloaded.empty()) return unknown(metric, processors_device, unloaded);
    return counted(metric, processors_device, 0, "");
  }

  PerformanceSample xids() const {
    if (xids_.count() > 0) return counted(burn_xid_metric, xid_device, xids_.count(), xids_.text());
    if (!log_.error().empty()) {
      return unknown(burn_xid_metric, xid_device,
                     "the kernel's log cannot be read: " + log_.error());
    }
    if (xids_.lost_lines() > 0) {
      return unknown(burn_xid_metric, xid_device,
                     std::to_string(xids_.lost_lines()) +
                         " lines of the kernel's log were overwritten before they were read");
    }
    return counted(burn_xid_metric, xid_device, 0, "");
  }

 private:
  ReadRequest request_;
  ThrottleWatch throttles_;
  KernelLog log_;
  XidTally xids_;
};

PerformanceSample rate_sample(const RateWindows& rates, std::chrono::milliseconds window,
                              const std::string& unloaded) {
  const auto decline = rate_decline(rates.per_second(), window);
  if (decline && decline->windows > 0) {
    return counted(burn_rate_metric, processors_device, static_cast<double>(decline->windows),
                   decline_text(*decline, window));
  }
  if (!unloaded.empty()) return unknown(burn_rate_metric, processors_device, unloaded);
  if (!decline) return unknown(burn_rate_metric, processors_device, too_few_windows);
  return counted(burn_rate_metric, processors_device, 0, "");
}

std::string unloaded_text(const BurnLoad& load) {
  if (!load.error().empty()) return load.error();
  const std::vector<int> unreached = load.unreached();
  if (unreached.empty()) return {};
  return "no load on " + std::to_string(unreached.size()) +
         " processors that this process may not use: " + processors_text(unreached);
}

// Until the time is over. How often it looked.
std::size_t watch(const BurnLoad& load, std::chrono::milliseconds time, RateWindows& rates,
                  KernelSigns& kernel, ClockWatch* clocks) {
  const auto until = Clock::now() + time;
  auto next = Clock::now();
  std::size_t looks = 0;
  while (next < until) {
    next = std::min<Clock::time_point>(next + between_burn_looks, until);
    std::this_thread::sleep_until(next);
    rates.add(Clock::now(), load.products());
    kernel.look();
    if (clocks != nullptr) clocks->take();
    ++looks;
    // A look that took long is no reason for several at once.
    next = std::max(next, std::min<Clock::time_point>(Clock::now() - between_burn_looks, until));
  }
  return looks;
}

void print_gpus(GpuBurn& gpus, const ClockWatch& clocks, std::size_t looks) {
  const auto rates = gpus.finish();
  for (const PerformanceSample& sample : rates) print_sample(sample);
  const bool had_load = std::ranges::any_of(
      rates, [](const PerformanceSample& one) { return one.value.has_value(); });
  for (const PerformanceSample& sample :
       clock_samples(clocks.tally(), {looks, gpus.count(), had_load, clocks.error()}))
    print_sample(sample);
}

}  // namespace

void probe_burn(const BurnOptions& options) {
  const std::string root = options.root == "/" ? "" : options.root;
  // Children first: nothing may be started beside threads.
  std::optional<GpuBurn> gpus;
  std::unique_ptr<ClockWatch> clocks;
  if (options.gpus > 0) {
    gpus.emplace(options.gpus, options.time);
    clocks = std::make_unique<ClockWatch>();
  }
  KernelSigns kernel(root);
  BurnLoad load(options.processors);
  const auto window = burn_window(options.time);
  RateWindows rates(window, Clock::now());
  const std::size_t looks = watch(load, options.time, rates, kernel, clocks.get());
  load.stop();
  const std::string unloaded = unloaded_text(load);
  print_sample(kernel.throttling(unloaded));
  print_sample(rate_sample(rates, window, unloaded));
  if (gpus) print_gpus(*gpus, *clocks, looks);
  kernel.look();
  print_sample(kernel.xids());
}

}  // namespace muster
