#include "cli/job/plan.h"

#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>
#include <string_view>
#include <variant>

#include "cli/job/node_table.h"
#include "cli/job/report.h"
#include "health/benchmark/gate_figures.h"
#include "health/benchmark/plan.h"
#include "health/checks/host/facts.h"
#include "launcher/controller/store/store.h"
#include "runtime/estimate/estimate.h"
#include "runtime/estimate/rank_memory.h"
#include "scheduler/apply/apply.h"
#include "scheduler/node/status.h"
#include "scheduler/state/gate_benchmark.h"
#include "scheduler/state/membership.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

bool listed(const std::vector<std::string>& names, const NodeId& node) {
  return std::ranges::find(names, node.value) != names.end();
}

std::vector<NodeId> eligible_nodes(const JobSpec& spec, const ComputeTarget& target) {
  std::vector<NodeId> nodes;
  for (const NodeAddress& node : target.nodes) {
    const auto& wanted = spec.muster.include_nodes;
    if (!wanted.empty() && !listed(wanted, node.id)) continue;
    if (!listed(spec.muster.exclude_nodes, node.id)) nodes.push_back(node.id);
  }
  return nodes;
}

std::string node_of_rank(const JobPlan& plan, const RankPlace& place) {
  const auto index = static_cast<std::size_t>(place.node_index);
  return index < plan.nodes.size() ? plan.nodes[index].value : "-";
}

bool is_counted_later(const JobSpec& spec, const std::vector<int>& processes) {
  return spec.distribution.process_per_gpu && processes.empty();
}

std::vector<RankPlace> ranks_of(const JobSpec& spec, int nodes, const std::vector<int>& processes) {
  if (is_counted_later(spec, processes)) return {};
  return rank_map(spec.distribution, nodes, processes);
}

// As many as there are, within what the job may have.
int nodes_placed(const JobSpec& spec, std::size_t eligible) {
  const auto there = static_cast<int>(std::min<std::size_t>(eligible, spec.muster.nodes_max));
  return std::max(there, spec.muster.nodes_min);
}

Document ranks_document(const JobPlan& plan) {
  if (is_counted_later(plan.spec, {})) return nullptr;
  return list_of(plan.ranks, [&](const RankPlace& place) {
    return Document{{"rank", place.rank.value},
                    {"node_rank", place.node_index},
                    {"local_rank", place.local_rank},
                    {"node", node_of_rank(plan, place)}};
  });
}

ProbePlan plan_of(const MusterSettings& settings, const ComputeTarget& target) {
  return gate_plan(target.health.value_or(HealthProfile{}),
                   {settings.health_skip, settings.health_only});
}

std::optional<std::string> why_full_adds_nothing(const MusterSettings& settings,
                                                 const ComputeTarget& target) {
  if (settings.health_start == HealthLevel::off) {
    return "the gate measures, and muster.health.start is off";
  }
  if (!plan_of(settings, target).probes.empty()) return std::nullopt;
  return "the health profile of " + target.name +
         " has no minimum that a gate measures; `muster health learn --measure` writes minimums";
}

Finding about(const JobFile& job, Severity severity, const std::string& key,
              const std::string& what) {
  return finding_about(job, severity, key, key + ": " + what);
}

UnavailableNodes by_journal(const Home& home) {
  UnavailableNodes out;
  const auto store = Store::open(home.root, Store::Mode::read_only);
  const auto records = store ? (*store)->load_live() : store.error();
  if (!records) return out;
  State state;
  for (const Record& record : *records) apply(state, record);
  Moment moment(wall_clock_now());
  for (const auto& [id, node] : state.nodes) {
    if (const auto why = refusal_of(&node, moment)) out[id] = *why;
  }
  return out;
}

std::string gib_text(std::uint64_t bytes) {
  const double gib = static_cast<double>(bytes) / (1024.0 * 1024 * 1024);
  return printed(gib < 10 ? "%.3f GiB" : "%.1f GiB", gib);
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

constexpr std::string_view trainer = "muster-train";

// One shell word, or the end of a simple command.
struct ShellWord {
  std::string text;
  bool ends_command = false;
};

bool is_operator(char c) {
  return mentions(";&|\n()<>", {&c, 1});
}

// Quotes and backslashes as POSIX has them; a line that ends within quotes ends the word.
std::vector<ShellWord> shell_words(std::string_view line) {
  std::vector<ShellWord> words;
  bool is_open = false;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const auto put = [&](char letter) {
      if (!is_open) words.emplace_back();
      is_open = true;
      words.back().text += letter;
    };
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else if (quote == '"' && c == '\\' && i + 1 < line.size()) {
        put(line[++i]);
      } else {
        put(c);
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      if (!is_open) words.emplace_back();
      is_open = true;
    } else if (c == '\\' && i + 1 < line.size()) {
      if (line[++i] != '\n') put(line[i]);
    } else if (is_operator(c)) {
      const bool redirects =
          (c == '<' || c == '>') && is_open && is_made_of(words.back().text, "0123456789");
      if (redirects) words.pop_back();  // "2>"
      is_open = false;
      words.push_back({"", true});
    } else if (c == ' ' || c == '\t') {
      is_open = false;
    } else {
      put(c);
    }
  }
  return words;
}

// "\x01inputs.x\x02" stands for the path of input x on the node.
std::string with_path_of_input(const JobSpec& spec, const std::string& word) {
  constexpr std::string_view begin = "\x01inputs.";
  if (!word.starts_with(begin) || !word.ends_with('\x02')) return word;
  const auto input = spec.inputs.find(word.substr(begin.size(), word.size() - begin.size() - 1));
  return input == spec.inputs.end() ? word : input->second.path;
}

bool is_program(const JobSpec& spec, const std::string& word) {
  const std::string path = with_path_of_input(spec, word);
  const std::size_t slash = path.rfind('/');
  return std::string_view(path).substr(slash == std::string::npos ? 0 : slash + 1) == trainer;
}

}  // namespace

Result<JobPlan> make_plan(const JobSpec& spec, const ComputeTarget& target,
                          const UnavailableNodes& unavailable) {
  JobPlan plan{spec, target, {}, {}, 1, {}, {}, {}, {}};
  for (const NodeId& node : eligible_nodes(spec, target)) {
    (unavailable.contains(node) ? plan.unavailable : plan.nodes).push_back(node);
  }
  plan.placed = nodes_placed(spec, plan.nodes.size());
  plan.ranks = ranks_of(spec, plan.placed, {});
  for (SnapshotRequest& request : sources_of(spec, target)) {
    auto tree = walk_source(request.source, request.honour_ignore_files);
    if (!tree) return tree.error();
    plan.trees.push_back({std::move(request), std::move(*tree)});
  }
  plan.memory = train_memory(spec, target, plan.ranks.size(), read_memory("MemTotal"));
  return plan;
}

std::vector<NodeId> first_nodes(const JobPlan& plan) {
  std::vector<NodeId> nodes = plan.nodes;
  nodes.resize(std::min(nodes.size(), static_cast<std::size_t>(plan.placed)));
  return nodes;
}

std::optional<std::size_t> rank_count(const JobSpec& spec, const std::vector<int>& processes) {
  const bool is_chosen_later = is_elastic(spec) && processes.empty();
  if (is_counted_later(spec, processes) || is_chosen_later) return std::nullopt;
  return ranks_of(spec, spec.instance_count, processes).size();
}

std::set<RankId> ranks_of_node(const JobSpec& spec, const AttemptSummary& attempt,
                               const NodeId& node) {
  std::set<RankId> ranks;
  for (const RankPlace& place : ranks_of(spec, spec.muster.nodes_max, attempt.processes)) {
    const auto index = static_cast<std::size_t>(place.node_index);
    const bool is_there = index < attempt.nodes.size() && attempt.nodes[index] == node;
    if (is_there) ranks.insert(place.rank);
  }
  return ranks;
}

Document plan_document(const JobPlan& plan, const UnavailableNodes& unavailable) {
  Document out;
  out["spec"] = spec_document(plan.spec);
  out["compute"] = plan.target.name;
  out["eligible_nodes"] = list_of(plan.nodes, [](const NodeId& node) { return node.value; });
  out["unavailable_nodes"] = list_of(plan.unavailable, [&](const NodeId& node) {
    return Document{{"node", node.value}, {"why", unavailable.at(node)}};
  });
  out["ranks"] = ranks_document(plan);
  if (!plan.needs.empty() && plan.needs[0].name == "image") out["image"] = plan.needs[0].text;
  if (plan.memory) out["memory_per_rank"] = train_memory_document(*plan.memory);
  out["staged"] = list_of(plan.trees, [](const PlannedTree& planned) {
    return Document{{"place", planned.request.place},
                    {"source", planned.request.source.string()},
                    {"files", planned.tree.files},
                    {"bytes", planned.tree.bytes},
                    {"warnings", planned.tree.warnings}};
  });
  out["data"] = list_of(plan.data.inputs, [&](const JobInput& input) {
    const InputSpec& listed = plan.spec.inputs.at(input.input);
    return Document{{"input", input.input},
                    {"source", input.place.store.name + ": " + input.place.path},
                    {"files", listed.data_files},
                    {"bytes", listed.data_bytes},
                    {"version", listed.data_version},
                    {"how", input.how}};
  });
  out["needs"] = list_of(plan.needs, [&](const JobNeed& need) {
    Document nodes = Document::object();
    for (const NodeId& node : first_nodes(plan)) {
      const auto held = plan.held.find(node);
      const bool is_known = held != plan.held.end() && held->second.contains(need.name);
      nodes[node.value] = value_or_null(is_known ? held->second.at(need.name) : "");
    }
    return Document{{"name", need.name}, {"text", need.text}, {"on_nodes", nodes}};
  });
  return out;
}

std::vector<Finding> resume_findings(const JobFile& job, const ComputeTarget& target) {
  const std::string& path = job.spec.muster.resume_path;
  std::error_code failed;
  if (path.empty() || !seen_by_nodes(path, target)) return {};
  if (std::filesystem::exists(path, failed)) return {};
  return {about(job, Severity::error, "muster.resume.from", path + " does not exist")};
}

std::vector<Finding> gate_findings(const JobFile& job, const ComputeTarget& target) {
  const MusterSettings& settings = job.spec.muster;
  const bool at_start = settings.health_start == HealthLevel::full;
  if (!at_start && failure_level(settings) != HealthLevel::full) return {};
  if (const auto why = why_full_adds_nothing(settings, target)) {
    const char* key = at_start ? "muster.health.start" : "muster.health.failure";
    return {about(job, Severity::warning, key, "full adds nothing to quick: " + *why)};
  }
  if (!at_start) return {};
  return {about(job, Severity::note, "muster.health.start",
                "before ranks start each node is measured, unless it was in the last " +
                    std::to_string(figures_keep.count()) +
                    " h: " + cost_text(plan_of(settings, target)))};
}

std::string measured_after_failure(const JobSpec& spec, const ComputeTarget& target) {
  const MusterSettings& settings = spec.muster;
  const bool is_wanted = failure_level(settings) == HealthLevel::full;
  if (!is_wanted || why_full_adds_nothing(settings, target)) return {};
  return "after an attempt that failed its nodes are measured before the next: " +
         cost_text(plan_of(settings, target));
}

UnavailableNodes unavailable_nodes(const Home& home) {
  const auto nodes = ask_running_for_nodes(home);
  if (!nodes) return by_journal(home);
  UnavailableNodes out;
  for (const NodeLine& node : *nodes) {
    if (const std::string why = why_unavailable(node); !why.empty()) out[NodeId{node.node}] = why;
  }
  return out;
}

std::string why_unavailable(const NodeLine& node) {
  const auto because = [](const std::string& why) { return why.empty() ? "" : ": " + why; };
  if (node.drained) return node.node + " is drained" + because(node.drain_reason);
  if (node.unfit) {
    return node.node + " is drained by a health check" + because(node.unfit_reason);
  }
  if (!node.remedy.empty()) return node.node + " " + node.remedy;
  if (!node.leaves.empty()) return node.leaves;
  if (!node.set_aside.empty()) return node.node + " is cordoned" + because(node.set_aside);
  if (node.link.starts_with("down")) return node.node + " is " + node.link;
  return "";
}

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
  if (!memory.available)
    return text + " (what the nodes have is not known before they are queried)";
  text += " of " + gib_text(*memory.available) + ": ";
  if (!memory.lacks()) return text + "fits";
  text += "does not fit";
  return memory.cheapest_change.empty() ? text : text + "; would with " + memory.cheapest_change;
}

Document train_memory_document(const TrainMemory& memory) {
  Document out;
  out["bytes"] = value_or_null(memory.bytes);
  out["available_bytes"] = value_or_null(memory.available);
  out["fits"] = memory.bytes && memory.available ? Document(!memory.lacks()) : Document(nullptr);
  if (!memory.trouble.empty()) out["trouble"] = memory.trouble;
  if (!memory.cheapest_change.empty()) out["cheapest_change"] = memory.cheapest_change;
  if (!memory.remarks.empty()) out["remarks"] = memory.remarks;
  return out;
}

std::optional<std::vector<std::string>> train_words(const JobSpec& spec) {
  const std::vector<ShellWord> words = shell_words(spec.command);
  auto at = std::ranges::find_if(words, [&](const ShellWord& word) {
    return !word.ends_command && is_program(spec, word.text);
  });
  if (at == words.end()) return std::nullopt;
  std::vector<std::string> options;
  for (++at; at != words.end() && !at->ends_command; ++at) options.push_back(at->text);
  if (!options.empty() && !options.front().starts_with('-')) return std::nullopt;
  return options;
}

}  // namespace muster
