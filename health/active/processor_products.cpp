#include "health/active/processor_products.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "health/active/fixed_product.h"
#include "health/active/matrix_kernel.h"
#include "health/active/product_sum.h"
#include "health/active/timed_passes.h"

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view device_prefix = "cpu";
// Even when the time is over: of one product nothing is learned about another.
constexpr int rounds_least = 2;
constexpr std::size_t named_in_full = 4;
constexpr std::size_t ranges_shown = 8;

// What one processor computed, by how often; nothing: it was not reached.
using OwnSums = std::map<std::uint64_t, int>;

OwnSums sums_on(int processor, Clock::time_point until) {
  OwnSums sums;
  if (!use_processor(processor)) return sums;
  std::vector<FixedProduct> products;
  products.reserve(matrix_kernels().size());
  for (const MatrixKernel& kernel : matrix_kernels()) products.emplace_back(kernel);
  for (int round = 0; round < rounds_least || Clock::now() < until; ++round) {
    for (FixedProduct& product : products) ++sums[product.sum()];
  }
  return sums;
}

// "cpu3" as people write it.
std::string shown(const std::string& device) {
  if (!device.starts_with(device_prefix)) return device;
  return "cpu " + device.substr(device_prefix.size());
}

// The worst first: the most wrong products.
std::string wrong_text(std::vector<PerformanceSample> wrong) {
  std::ranges::stable_sort(wrong, std::greater{}, [](const auto& one) { return *one.value; });
  std::string text;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    if (i == named_in_full) text += "; and " + std::to_string(wrong.size() - i) + " more:";
    if (i < named_in_full) {
      const std::string who = wrong[i].device.empty() ? "" : shown(wrong[i].device) + ": ";
      text += (text.empty() ? "" : "; ") + who + wrong[i].note;
    } else {
      text += " " + shown(wrong[i].device);
    }
  }
  return text;
}

std::string why_unclear(const std::vector<PerformanceSample>& judged,
                        const ProcessorProducts& computed) {
  if (!computed.unreached.empty()) {
    return "not computed on " + std::to_string(computed.unreached.size()) +
           " processors that this process may not use: " + processors_text(computed.unreached);
  }
  for (const PerformanceSample& one : judged) {
    if (!one.value) return shown(one.device) + ": " + one.error;
  }
  return judged.empty() ? "no processor computed anything" : "";
}

}  // namespace

Result<ProcessorProducts> compute_products(const ProcessorProductsOptions& options) {
  const auto until = Clock::now() + options.time;
  std::vector<OwnSums> sums(options.processors.size());
  std::vector<std::thread> threads;
  std::string why;
  try {
    for (std::size_t i = 0; i < sums.size(); ++i)
      threads.emplace_back([&, i] { sums[i] = sums_on(options.processors[i], until); });
  } catch (const std::system_error& error) {
    why = error.what();
  }
  for (std::thread& thread : threads) thread.join();
  if (!why.empty()) {
    return Error{"cannot start thread " + std::to_string(threads.size() + 1) + " of " +
                 std::to_string(sums.size()) + ": " + why};
  }
  ProcessorProducts computed;
  computed.bits.push_back({"", right_product_sum(FixedProduct::size)});
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const int processor = options.processors[i];
    if (sums[i].empty()) computed.unreached.push_back(processor);
    for (const auto& [bits, times] : sums[i]) {
      computed.bits.push_back(
          {std::string(device_prefix) + std::to_string(processor), bits, times});
    }
  }
  return computed;
}

PerformanceSample judge_processor_products(const ProcessorProducts& computed) {
  const std::vector<PerformanceSample> judged = judge_product_bits(computed.bits);
  PerformanceSample sample{processor_corruption_metric, processors_device, std::nullopt, ""};
  std::vector<PerformanceSample> wrong;
  double count = 0;
  for (const PerformanceSample& one : judged) {
    if (one.value.value_or(0) <= 0) continue;
    count += *one.value;
    wrong.push_back(one);
  }
  if (count > 0) {
    sample.value = count;
    sample.note = wrong_text(std::move(wrong));
    return sample;
  }
  sample.error = why_unclear(judged, computed);
  if (sample.error.empty()) sample.value = 0;
  return sample;
}

std::string processors_text(const std::vector<int>& processors) {
  std::string text;
  std::size_t ranges = 0;
  for (std::size_t at = 0; at < processors.size();) {
    std::size_t end = at + 1;
    while (end < processors.size() && processors[end] == processors[end - 1] + 1) ++end;
    if (++ranges > ranges_shown) return text + ", ...";
    text += (text.empty() ? "" : ", ") + std::to_string(processors[at]);
    if (end - at > 1) text += "-" + std::to_string(processors[end - 1]);
    at = end;
  }
  return text;
}

}  // namespace muster
