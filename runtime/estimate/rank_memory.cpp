#include "runtime/estimate/rank_memory.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "runtime/communicator/mesh/peer_link.h"
#include "runtime/layer/attention.h"
#include "runtime/protocol/start_error.h"
#include "runtime/report/flops.h"
#include "runtime/train/save/background.h"
#include "runtime/train/step/options.h"
#include "runtime/zero/bucket.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

// Of a rank of muster-train on processors: buffer by buffer, as the run allocates them.

constexpr std::uint64_t f32 = sizeof(float);
constexpr std::uint64_t bf16 = 2;

// Measured: the program with its libraries after a step of the smallest model, of which the
// products of oneDNN have a part for each thread.
constexpr std::uint64_t program_bytes = 28 << 20;
constexpr std::uint64_t thread_bytes = 4 << 20;

// In which final weights are collected on rank 0.
constexpr std::uint64_t final_weights_bytes = 16 << 20;

// Pieces of the gradient are not listed: many ranks make them small and many.
constexpr std::uint64_t uncut = std::uint64_t{1} << 62;

struct OneRank {
  OneRank(const TrainOptions& of, const FlatSpace& flat_space, const RankLayout& layout)
      : options(of),
        plan(make_batch_plan(of, layout.ranks)),
        space(flat_space),
        division(make_division(space, plan.leaves, 0, layout.ranks)),
        blocks(gpt_blocks(of.shape, space)),
        buckets(make_buckets(blocks, {of.buckets.least_bytes, uncut})) {}

  const TrainOptions& options;
  BatchPlan plan;
  const FlatSpace& space;
  Division division;
  std::vector<ElementRange> blocks;
  std::vector<Bucket> buckets;  // of gradients

  std::size_t ranks() const { return division.owned.size(); }
  std::uint64_t rows() const { return plan.micro_batch * options.shape.context; }
  bool owns(const ElementRange& range) const {
    return range.lo >= division.own().lo && range.hi <= division.own().hi;
  }
  std::uint64_t elements_held(ZeroStage shared_from) const {
    return options.zero >= shared_from ? division.own().size() : space.numel;
  }
};

// As many as WholeGradients has to have at one time: those of a leaf, and of every node of the tree
// that is waiting for its sibling. A slot that a join frees is taken no sooner than by the next
// leaf.
std::uint64_t gradient_slots(const OneRank& at, std::size_t rank) {
  const LeafRange leaves = owned_leaves(at.plan.leaves, rank, at.ranks());
  std::size_t slots = 0;
  std::vector<std::size_t> free;
  TreeJoin join([&](std::size_t, std::size_t right) { free.push_back(right); });
  for (std::size_t leaf = leaves.lo; leaf < leaves.hi; ++leaf) {
    if (free.empty()) free.push_back(slots++);
    const std::size_t slot = free.back();
    free.pop_back();
    join.push({leaf, 1}, slot);
  }
  return slots;
}

// Two that take turns, each as large as the largest that it ever has.
std::uint64_t two_turns(std::vector<std::uint64_t> sizes) {
  std::ranges::sort(sizes, std::greater());
  const std::uint64_t largest = sizes.empty() ? 0 : sizes.front();
  return sizes.size() > 1 ? 2 * largest : largest;
}

std::uint64_t gradient_elements(const OneRank& at) {
  const bool streams =
      at.options.zero >= ZeroStage::gradients && at.plan.has_one_pass_per_rank(at.ranks());
  if (!streams) return gradient_slots(at, at.division.rank) * at.space.numel;
  std::uint64_t elements = at.division.own().size();
  std::vector<std::uint64_t> turns;
  for (std::size_t i = 0; i < at.buckets.size(); ++i) {
    const ElementRange& range = at.buckets[i].elements;
    if (at.owns(range)) continue;
    if (i == 0) elements += range.size();
    if (i > 0) turns.push_back(range.size());
  }
  return elements + two_turns(std::move(turns));
}

// What others send of the pieces that may be under way.
std::uint64_t received_elements(const OneRank& at) {
  std::uint64_t nodes = 0;
  for (std::size_t r = 0; r < at.ranks(); ++r) {
    if (r != at.division.rank) nodes += at.division.nodes[r].size();
  }
  const std::uint64_t piece = most_piece_bytes(at.options.buckets, at.division) / f32;
  return std::min(pieces_under_way * piece, at.division.own().size()) * nodes;
}

// Of the layers at work and of both ends of the model, where they are not the rank's own.
std::uint64_t gathered_elements(const OneRank& at) {
  if (at.options.zero != ZeroStage::weights) return 0;
  const std::span<const ElementRange> blocks = at.blocks;
  std::uint64_t elements = 0;
  for (const ElementRange& end : {blocks.front(), blocks.back()}) {
    if (!at.owns(end)) elements += end.size();
  }
  std::vector<std::uint64_t> turns;
  for (const Bucket& bucket :
       make_buckets(blocks.subspan(1, blocks.size() - 2), at.options.buckets, 1)) {
    if (!at.owns(bucket.elements)) turns.push_back(bucket.elements.size());
  }
  return elements + two_turns(std::move(turns));
}

// The bf16 copies that matrix products read: of all blocks, or of both ends and one layer at a
// time.
std::uint64_t rounded_elements(const OneRank& at) {
  if (at.options.model.precision == Precision::fp32) return 0;
  if (at.options.zero != ZeroStage::weights) return at.space.numel;
  const std::vector<ElementRange>& blocks = at.blocks;
  std::uint64_t layer = 0;
  for (std::size_t i = 1; i + 1 < blocks.size(); ++i) layer = std::max(layer, blocks[i].size());
  return blocks.front().size() + blocks.back().size() + layer;
}

// The buffers of Gpt (model/gpt.cpp).
std::uint64_t activation_bytes(const OneRank& at) {
  const GptShape& shape = at.options.shape;
  const bool rounds = at.options.model.precision == Precision::bf16;
  const std::uint64_t operand = rounds ? bf16 : f32;
  const std::uint64_t m = at.rows(), c = shape.width;
  const std::uint64_t layers = at.options.model.recompute ? 1 : shape.layers;
  const std::uint64_t layer = (8 * m * c + 4 * m + m * shape.heads) * f32 + 7 * m * c * operand;
  const std::uint64_t inputs = (shape.layers + 1) * m * c * f32;
  const std::uint64_t ends = (2 * m + m * shape.vocabulary) * f32 + m * c * operand + m * f32;
  const std::uint64_t backward = 10 * m * c * f32;
  const std::uint64_t rounded = rounds ? (8 * m * c + m * shape.vocabulary) * bf16 : 0;
  const std::uint64_t scratch =
      attention_scratch_of_thread({at.plan.micro_batch, shape.context, shape.heads, c}) *
      static_cast<std::uint64_t>(at.options.threads) * f32;
  return layers * layer + inputs + ends + backward + rounded + scratch;
}

std::uint64_t sample_bytes(const OneRank& at) {
  const LeafRange leaves = owned_leaves(at.plan.leaves, at.division.rank, at.ranks());
  const std::uint64_t windows = at.plan.sequences(leaves).size();
  return 2 * windows * (at.options.shape.context + 1) * sizeof(std::uint32_t);
}

RankMemory memory_of(const OneRank& at, const RankLayout& layout) {
  RankMemory memory;
  memory.weights = at.elements_held(ZeroStage::weights) * f32 + rounded_elements(at) * bf16;
  memory.gradients = gradient_elements(at) * f32;
  memory.optimizer = 2 * at.elements_held(ZeroStage::moments) * f32;
  memory.activations = activation_bytes(at);
  memory.buffers = (received_elements(at) + gathered_elements(at)) * f32 + sample_bytes(at);
  memory.buffers += (std::min(layout.ranks_per_node, layout.ranks) - 1) * 2 * ring_bytes;
  if (at.options.zero == ZeroStage::weights && at.division.rank == 0 && at.ranks() > 1) {
    memory.buffers += std::min(final_weights_bytes, at.space.numel * f32);
  }
  const std::uint64_t saved = at.division.own().size() * flat_planes * f32;
  const bool saves =
      at.options.save_mode == SaveMode::background ||
      (at.options.save_mode == SaveMode::automatic && saved >= background_save_bytes);
  memory.snapshot = saves ? saved : 0;
  memory.program = program_bytes + thread_bytes * static_cast<std::uint64_t>(at.options.threads);
  return memory;
}

// The first rank holds the embeddings, the last one the head of an untied model; those between are
// alike but for the nodes of the tree that they hold.
RankMemory processor_rank_memory(const TrainOptions& options, const RankLayout& layout) {
  const FlatSpace space = gpt_flat_space(options.shape);
  RankMemory most;
  OneRank at(options, space, layout);
  std::size_t most_slots = 0;
  for (std::size_t rank = 0; rank < layout.ranks; ++rank) {
    if (gradient_slots(at, rank) > gradient_slots(at, most_slots)) most_slots = rank;
  }
  for (const std::size_t rank : {std::size_t{0}, layout.ranks / 2, layout.ranks - 1, most_slots}) {
    at.division.rank = rank;
    const RankMemory memory = memory_of(at, layout);
    const auto bytes = [&](const RankMemory& of) { return device_bytes(of, layout.kind); };
    if (bytes(memory) > bytes(most)) most = memory;
  }
  return most;
}

// Of a GPU: work space of the matrix library for two streams, of a communicator in the middle of
// what NCCL takes, the driver's context. Then a twentieth for what does not fit seamlessly.
constexpr double work_space_bytes = 2 * 32.0 * 1024 * 1024;
constexpr double communicator_bytes = 0.9e9;
constexpr double context_bytes = 0.5e9;
constexpr double slack = 0.05;

std::uint64_t whole(double bytes) {
  return static_cast<std::uint64_t>(std::max(0.0, bytes));
}

struct GpuNumbers {
  double p, block, n, tokens, c, l, heads, v;
  double gradient_bytes;  // of one
};

// Sums of more than one gradient, and shares of sums, are fp32.
GpuNumbers numbers_of(const TrainOptions& options, std::size_t ranks) {
  const GptShape& shape = options.shape;
  const auto c = static_cast<double>(shape.width);
  const BatchPlan plan = make_batch_plan(options, ranks);
  const bool accumulates = plan.micro_batches() > ranks || options.zero >= ZeroStage::gradients;
  return {static_cast<double>(parameter_count(shape)),
          12 * c * c + 13 * c,
          static_cast<double>(ranks),
          static_cast<double>(plan.micro_batch * shape.context),
          c,
          static_cast<double>(shape.layers),
          static_cast<double>(shape.heads),
          static_cast<double>(shape.vocabulary),
          accumulates ? 4.0 : 2.0};
}

double gpu_activations(const GpuNumbers& at, bool recomputes) {
  const double layer = 32 * at.c + 4 * (at.heads + 4);  // of a token
  const double kept = recomputes ? 2 * at.c * at.l + layer : layer * at.l;
  return at.tokens * (kept + 2 * at.v + 10 * at.c);
}

RankMemory gpu_rank_memory(const TrainOptions& options, const RankLayout& layout) {
  const GpuNumbers at = numbers_of(options, layout.ranks);
  const auto share = [&](ZeroStage from) { return options.zero >= from ? at.n : 1.0; };
  RankMemory memory;
  memory.weights = whole(2 * at.p / share(ZeroStage::weights));
  memory.gradients = whole(at.gradient_bytes * at.p / share(ZeroStage::gradients));
  memory.optimizer = whole(12 * at.p / share(ZeroStage::moments));
  memory.activations = whole(gpu_activations(at, options.model.recompute));
  double buffers = layout.ranks > 1 ? communicator_bytes : 0;
  if (options.zero >= ZeroStage::gradients) buffers += 2 * 2 * at.block;  // gradients of two blocks
  if (options.zero == ZeroStage::weights) buffers += 2 * 2 * at.block;    // weights of two blocks
  memory.buffers = whole(buffers);
  const double so_far = static_cast<double>(memory.without_snapshot());
  memory.program = whole(work_space_bytes + context_bytes + slack * so_far);
  memory.snapshot = whole(12 * at.p / at.n);
  return memory;
}

// Of text; tokens bring their own, which lies with them on the nodes.
constexpr std::size_t usual_vocabulary = 256;

// Of the rank that takes most, with whatever number of ranks there are meanwhile.
std::uint64_t most_bytes(const TrainOptions& options, const RankLayout& layout) {
  if (!layout.least_ranks) return device_bytes(rank_memory(options, layout), layout.kind);
  std::uint64_t most = 0;
  RankLayout now = layout;
  for (now.ranks = *layout.least_ranks;; now.ranks = std::min(2 * now.ranks, layout.ranks)) {
    most = std::max(most, device_bytes(rank_memory(options, now), layout.kind));
    if (now.ranks >= layout.ranks) break;
  }
  if (layout.ranks == 1) return most;
  // Who joins gets the state of the others beside its own.
  RankMemory joining = rank_memory(options, layout);
  joining.gradients = joining.activations = joining.buffers = 0;
  joining.weights *= 2;
  joining.optimizer *= 2;
  return std::max(most, device_bytes(joining, layout.kind));
}

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

RankMemory rank_memory(const TrainOptions& options, const RankLayout& layout) {
  const std::string fault = gpt_shape_fault(options.shape);
  if (!fault.empty()) throw StartError(fault);
  return layout.kind == RankKind::gpu ? gpu_rank_memory(options, layout)
                                      : processor_rank_memory(options, layout);
}

std::variant<RunMemory, ImpossibleRun, std::string> run_memory(
    const std::vector<std::string>& words, const RankLayout& layout,
    std::optional<std::uint64_t> limit_bytes) {
  auto parsed = read_train_options(words);
  if (const auto* fault = std::get_if<std::string>(&parsed)) return *fault;
  auto& options = std::get<TrainOptions>(parsed);
  if (options.shape.vocabulary == 0) options.shape.vocabulary = usual_vocabulary;
  if (layout.least_ranks) options = elastic_options(options);
  RunMemory memory;
  try {
    memory.remarks = sharing_remarks(options, layout.ranks);
    memory.bytes = most_bytes(options, layout);
  } catch (const StartError& error) {
    return ImpossibleRun{error.what()};
  }
  if (!limit_bytes || layout.least_ranks || memory.bytes <= *limit_bytes) return memory;
  const auto changes = cheapest_changes(options, layout, {*limit_bytes, {}}, {}, 1);
  if (!changes.empty()) memory.cheapest_change = changes.front().what;
  return memory;
}

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
