#include "runtime/estimate/fit.h"

#include <algorithm>
#include <utility>

#include "runtime/protocol/start_error.h"
#include "runtime/train/step/batch_plan.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

// Per parameter; muster-train sends fp32 whatever its products read.
double bytes_per_number(RankKind kind) {
  return kind == RankKind::gpu ? 2 : 4;
}

// Gradients that are kept whole leave once.
double sent_per_parameter(ZeroStage stage, double passes, double leaving) {
  switch (stage) {
    case ZeroStage::nothing:
    case ZeroStage::moments:
      return 2;
    case ZeroStage::gradients:
      return leaving + 1;
    case ZeroStage::weights:
      return 2 * passes + leaving;
  }
  return 0;
}

constexpr std::size_t most_doublings = 12;  // of ranks

// Where they are not known, of a usual processor's core; only ratios count.
constexpr RankRates usual_rates{1e11, 0.5, 1e9};

// How far a candidate goes in each direction; one that goes no further than another in any of them
// does less.
struct Reach {
  int stage = 0;
  int recompute = 0;
  int halvings = 0;   // of the micro-batch
  int doublings = 0;  // of the ranks
};

bool does_more(const Reach& a, const Reach& b) {
  return a.stage >= b.stage && a.recompute >= b.recompute && a.halvings >= b.halvings &&
         a.doublings >= b.doublings;
}

std::uint64_t micro_batch_of(const TrainOptions& options, const RankLayout& layout) {
  return make_batch_plan(options, layout.ranks).micro_batch;
}

std::uint64_t largest_divisor(std::uint64_t number, std::uint64_t most) {
  while (number % most != 0) --most;
  return most;
}

// The batch stays as it is where it feeds the ranks; otherwise it grows.
FittingChange changed(const TrainOptions& options, const RankLayout& layout, const Reach& reach) {
  FittingChange change{"", options, layout, {}, 1};
  std::vector<std::string> what;
  if (reach.stage > 0) {
    const int stage = static_cast<int>(options.zero) + reach.stage;
    change.options.zero = static_cast<ZeroStage>(stage);
    what.push_back("--zero " + std::to_string(stage));
  }
  if (reach.recompute > 0) {
    change.options.model.recompute = true;
    what.push_back("--recompute");
  }
  if (reach.halvings > 0) {
    change.options.micro_batch =
        largest_divisor(options.batch, micro_batch_of(options, layout) >> reach.halvings);
    what.push_back("--micro-batch " + std::to_string(change.options.micro_batch));
  }
  if (reach.doublings > 0) {
    change.layout.ranks <<= reach.doublings;
    what.push_back(std::to_string(change.layout.ranks) + " ranks");
    const std::uint64_t least =
        std::max<std::uint64_t>(1, change.options.micro_batch) * change.layout.ranks;
    if (change.options.batch < least) {
      change.options.batch = least;
      what.push_back("--batch " + std::to_string(least));
    }
  }
  change.what = joined(what);
  return change;
}

double cost_of(const TrainOptions& options, const RankLayout& layout, const RankRates& rates) {
  const StepTime time = step_time(options, layout, rates);
  return time.exposed_s() * static_cast<double>(layout.ranks) / time.tokens;
}

struct Found {
  FittingChange change;
  Reach reach;
};

}  // namespace

StepTime step_time(const TrainOptions& options, const RankLayout& layout, const RankRates& rates) {
  const auto n = static_cast<double>(layout.ranks);
  const FlopsPerToken flops = flops_per_token(options.shape);
  StepTime time;
  time.tokens = static_cast<double>(options.batch) * static_cast<double>(options.shape.context);
  const BatchPlan plan = make_batch_plan(options, layout.ranks);
  const bool is_gpu = layout.kind == RankKind::gpu;
  const std::uint64_t most = plan.most_sequences(layout.ranks);
  const auto passes = static_cast<double>((most + plan.micro_batch - 1) / plan.micro_batch);
  time.flops = static_cast<double>(most * options.shape.context) *
               (options.model.recompute ? flops.recomputed : flops.megatron);
  time.bytes = static_cast<double>(parameter_count(options.shape)) * bytes_per_number(layout.kind) *
               sent_per_parameter(options.zero, passes, is_gpu ? passes : 1) * (n - 1) / n;
  if (rates.peak_flops > 0) time.compute_s = time.flops / (rates.peak_flops * rates.share_of_peak);
  if (rates.link_bytes_per_s > 0) time.communication_s = time.bytes / rates.link_bytes_per_s;
  return time;
}

bool fits(const RankMemory& memory, const MemoryLimit& limit, RankKind kind) {
  if (device_bytes(memory, kind) > limit.device) return false;
  return kind == RankKind::processor || !limit.host || memory.snapshot <= *limit.host;
}

std::vector<FittingChange> cheapest_changes(const TrainOptions& options, const RankLayout& layout,
                                            const MemoryLimit& limit, const RankRates& rates,
                                            std::size_t most) {
  RankRates known = rates;
  if (known.peak_flops <= 0) known.peak_flops = usual_rates.peak_flops;
  if (known.link_bytes_per_s <= 0) known.link_bytes_per_s = usual_rates.link_bytes_per_s;
  const double before = cost_of(options, layout, known);
  std::vector<Found> found;
  const auto consider = [&](const Reach& reach) {
    for (const Found& other : found) {
      if (does_more(reach, other.reach)) return;
    }
    FittingChange change = changed(options, layout, reach);
    try {
      change.memory = rank_memory(change.options, change.layout);
    } catch (const StartError&) {
      return;  // no run can have these options
    }
    if (!fits(change.memory, limit, layout.kind)) return;
    change.cost = cost_of(change.options, change.layout, known) / before;
    found.push_back({std::move(change), reach});
  };
  const std::uint64_t micro_batch = micro_batch_of(options, layout);
  const int stages = static_cast<int>(ZeroStage::weights) - static_cast<int>(options.zero);
  for (int doublings = 0; doublings <= static_cast<int>(most_doublings); ++doublings) {
    for (int halvings = 0; micro_batch >> halvings > 0; ++halvings) {
      for (int recompute = 0; recompute <= (options.model.recompute ? 0 : 1); ++recompute) {
        for (int stage = 0; stage <= stages; ++stage) {
          consider({stage, recompute, halvings, doublings});
        }
      }
    }
  }
  // More ranks are machines that somebody has to have: after all else.
  std::ranges::stable_sort(found, [](const Found& a, const Found& b) {
    return std::pair(a.reach.doublings, a.change.cost) <
           std::pair(b.reach.doublings, b.change.cost);
  });
  std::vector<FittingChange> changes;
  for (Found& one : found) {
    if (changes.size() < most) changes.push_back(std::move(one.change));
  }
  return changes;
}

}  // namespace muster
