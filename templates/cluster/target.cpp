#include "templates/cluster/file.h"

#include <algorithm>
#include <set>

#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"

namespace muster {
namespace {

std::string unknown_suggestion(const std::vector<ComputeTarget>& known, const std::string& name) {
  std::vector<std::string> names;
  for (const ComputeTarget& target : known) names.push_back(target.name);
  const std::string meant = did_you_mean(name, names);
  return meant.empty() ? "known are " + joined(names) : meant;
}

// The first unknown name is enough: the list is mostly one range.
void check_placement(const JobFile& job, const ComputeTarget& target, const char* key,
                     const std::vector<std::string>& names, std::vector<Finding>& out) {
  std::set<std::string> nodes;
  for (const NodeAddress& node : target.nodes) {
    nodes.insert(node.id.value);
    nodes.insert(node.host);
  }
  const auto unknown =
      std::ranges::find_if(names, [&](const std::string& name) { return !nodes.contains(name); });
  if (unknown == names.end()) return;
  out.push_back(finding_about(job, Severity::unresolved, key,
                              std::string(key) + ": the target " + quoted_text(target.name) +
                                  " has no node " + quoted_text(*unknown),
                              did_you_mean(*unknown, {nodes.begin(), nodes.end()})));
}

// A job that takes fewer nodes than it would like is held to what it needs.
void check_size(const JobFile& job, const ComputeTarget& target, std::vector<Finding>& out) {
  const auto nodes = static_cast<int>(target.nodes.size());
  const int wanted = job.spec.instance_count;
  const int least = std::min(wanted, job.spec.muster.nodes_min);
  const int most = std::max(wanted, job.spec.muster.nodes_max);
  const std::string key = least < wanted ? "muster.nodes.min" : "resources.instance_count";
  if (target.name == "local" && least > 1) {
    out.push_back(finding_about(job, Severity::error, key,
                                key + ": 'local' is one node, got " + std::to_string(least),
                                "'compute: local-cluster' is this host as several"));
    return;
  }
  const std::string has = ": the target " + quoted_text(target.name) + " has " +
                          std::to_string(nodes) + (nodes == 1 ? " node, got " : " nodes, got ");
  if (least > nodes) {
    out.push_back(finding_about(job, Severity::error, key, key + has + std::to_string(least)));
  } else if (most > nodes) {
    out.push_back(finding_about(job, Severity::note, "muster.nodes.max",
                                "muster.nodes.max" + has + std::to_string(most)));
  }
}

// Too few of them stop no job, but whoever asks for them should know.
void check_spares(const JobFile& job, const ComputeTarget& target, std::vector<Finding>& out) {
  const int spares = job.spec.muster.nodes_spares;
  const int left = static_cast<int>(target.nodes.size()) -
                   std::max(job.spec.instance_count, job.spec.muster.nodes_max);
  if (spares == 0 || spares <= left) return;
  out.push_back(finding_about(job, Severity::warning, "muster.nodes.spares",
                              "muster.nodes.spares: the target " + quoted_text(target.name) +
                                  " has " + std::to_string(std::max(0, left)) +
                                  " beside the job's own nodes, got " + std::to_string(spares)));
}

}  // namespace

ComputeTarget local_target() {
  ComputeTarget target;
  target.name = "local";
  target.nodes.emplace_back().id = NodeId{"local"};
  return target;
}

ComputeTarget local_cluster_target() {
  ComputeTarget target;
  target.name = "local-cluster";
  for (int i = 0; i < local_cluster_nodes; ++i) {
    target.nodes.emplace_back().id = NodeId{"local-" + std::to_string(i)};
  }
  return target;
}

ResolvedTarget resolve_target(const JobFile& job, const std::vector<ComputeTarget>& known,
                              const std::string& default_target) {
  ResolvedTarget out;
  const std::string fallback = default_target.empty() ? "local" : default_target;
  const std::string& name = job.spec.compute.empty() ? fallback : job.spec.compute;
  const auto target = std::ranges::find(known, name, &ComputeTarget::name);
  if (target == known.end()) {
    out.findings.push_back(finding_about(job, Severity::unresolved, "compute",
                                         "compute: there is no target " + quoted_text(name),
                                         unknown_suggestion(known, name)));
    return out;
  }
  check_size(job, *target, out.findings);
  check_placement(job, *target, "muster.placement.include", job.spec.muster.include_nodes,
                  out.findings);
  check_placement(job, *target, "muster.placement.exclude", job.spec.muster.exclude_nodes,
                  out.findings);
  check_spares(job, *target, out.findings);
  if (!has_errors(out.findings) && !has_unresolved(out.findings)) out.target = &*target;
  return out;
}

}  // namespace muster
