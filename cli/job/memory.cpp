#include "cli/job/memory.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <variant>

#include "cli/job/train_words.h"
#include "runtime/estimate/run_memory.h"
#include "runtime/estimate/sku_catalogue.h"
#include "scheduler/state/membership.h"
#include "scheduler/state/rank_map.h"

namespace muster {

namespace {

std::string gib_text(std::uint64_t bytes) {
  char text[40];
  const double gib = static_cast<double>(bytes) / (1024.0 * 1024 * 1024);
  std::snprintf(text, sizeof text, gib < 10 ? "%.3f GiB" : "%.1f GiB", gib);
  return text;
}

bool is_this_host(const ComputeTarget& target) {
  return std::ranges::all_of(
      target.nodes, [](const NodeAddress& node) { return node.transport == TransportKind::local; });
}

// Pretend nodes of this host share its memory.
std::optional<std::uint64_t> available_to_one(const JobSpec& spec, const ComputeTarget& target,
                                              const RankLayout& layout,
                                              std::optional<std::uint64_t> host_bytes) {
  for (const std::string& type : spec.instance_types) {
    if (const auto sku = find_sku(type)) {
      const double bytes = sku->memory_gib * 1024 * 1024 * 1024;
      return static_cast<std::uint64_t>(bytes) / layout.ranks_per_node;
    }
  }
  if (!host_bytes || !is_this_host(target)) return std::nullopt;
  return *host_bytes / layout.ranks;
}

RankLayout layout_of(const JobSpec& spec, std::size_t ranks) {
  RankLayout layout;
  layout.ranks = ranks;
  const auto nodes = static_cast<std::size_t>(std::max(1, spec.instance_count));
  layout.ranks_per_node = (ranks + nodes - 1) / nodes;
  if (!is_elastic(spec)) return layout;
  layout.ranks_per_node =
      static_cast<std::size_t>(std::max(1, spec.distribution.processes_per_node));
  const NodeRange range = node_range(spec);
  layout.ranks = range.most * layout.ranks_per_node;
  layout.least_ranks = range.least * layout.ranks_per_node;
  return layout;
}

}  // namespace

std::optional<TrainMemory> train_memory(const JobSpec& spec, const ComputeTarget& target,
                                        std::size_t ranks,
                                        std::optional<std::uint64_t> host_bytes) {
  const auto words = train_words(spec);
  if (!words || ranks == 0) return std::nullopt;
  const RankLayout layout = layout_of(spec, ranks);
  TrainMemory memory;
  memory.available = available_to_one(spec, target, layout, host_bytes);
  const auto needed = run_memory(*words, layout, memory.available);
  if (const auto* impossible = std::get_if<ImpossibleRun>(&needed)) {
    memory.trouble = impossible->why;
    memory.is_impossible = true;
    return memory;
  }
  if (const auto* trouble = std::get_if<std::string>(&needed)) {
    memory.trouble = *trouble;
    return memory;
  }
  const auto& known = std::get<RunMemory>(needed);
  memory.bytes = known.bytes;
  memory.cheapest_change = known.cheapest_change;
  memory.remarks = known.remarks;
  return memory;
}

std::vector<Finding> train_findings(const JobFile& job, const ComputeTarget& target) {
  const JobSpec& spec = job.spec;
  if (spec.distribution.process_per_gpu) return {};
  const auto ranks = rank_map(spec.distribution, std::max(1, spec.instance_count), {}).size();
  const auto memory = train_memory(spec, target, ranks, std::nullopt);
  if (!memory || !memory->is_impossible) return {};
  const std::string key = is_elastic(spec) ? "muster.nodes.max" : "command";
  return {finding_about(job, Severity::error, key,
                        key + ": muster-train cannot run so: " + memory->trouble)};
}

std::string train_memory_text(const TrainMemory& memory) {
  if (!memory.bytes) return "per rank: not known: " + memory.trouble;
  std::string text = "per rank: " + gib_text(*memory.bytes);
  if (!memory.available) return text + " (what the nodes have is not known before they are asked)";
  text += " of " + gib_text(*memory.available) + ": ";
  if (!memory.lacks()) return text + "fits";
  text += "does not fit";
  return memory.cheapest_change.empty() ? text : text + "; would with " + memory.cheapest_change;
}

Document train_memory_document(const TrainMemory& memory) {
  Document out;
  out["bytes"] = memory.bytes ? Document(*memory.bytes) : Document(nullptr);
  out["available_bytes"] = memory.available ? Document(*memory.available) : Document(nullptr);
  out["fits"] = memory.bytes && memory.available ? Document(!memory.lacks()) : Document(nullptr);
  if (!memory.trouble.empty()) out["trouble"] = memory.trouble;
  if (!memory.cheapest_change.empty()) out["cheapest_change"] = memory.cheapest_change;
  if (!memory.remarks.empty()) out["remarks"] = memory.remarks;
  return out;
}

}  // namespace muster
