#include "health/benchmark/tools/sample_line.h"

#include <algorithm>
#include <limits>

#include "health/benchmark/tools/sample_line.h"

namespace muster {

void print_sample(const PerformanceSample& sample) {
  if (sample.is_absent) return print_probe_absent(sample.metric, sample.device, sample.error);
  if (!sample.value) return print_probe_error(sample.metric, sample.device, sample.error);
  const PerformanceMetric* metric = find_performance_metric(sample.metric);
  if (metric == nullptr || !metric->counts_faults)
    return print_probe_value(sample.metric, sample.device, *sample.value);
  constexpr double most = std::numeric_limits<int>::max();
  print_probe_faults(sample.metric, sample.device, static_cast<int>(std::min(*sample.value, most)),
                     sample.is_slight, sample.note);
}

}  // namespace muster
