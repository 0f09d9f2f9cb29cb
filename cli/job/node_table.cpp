#include "cli/job/node_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/client/start.h"
#include "scheduler/model/names.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

// A look at nodes must not hang because the controller does.
constexpr Milliseconds answer_patience{2000};
// The controller's word in `remedy`.
constexpr std::string_view rebooting = "is rebooting";

std::string connect_time(const NodeLine& node) {
  if (node.profile.empty()) return "";
  Milliseconds total{0};
  for (const auto& [phase, time] : node.profile) total += time;
  return elapsed_text(total);
}

// How a link of a node that muster reboots broke tells nobody anything.
std::string link_text(const NodeLine& node) {
  if (node.remedy == rebooting && node.link != "up") return "down: rebooting";
  constexpr std::string_view down = "down: ";
  const bool is_down = node.link.starts_with(down);
  if (node.silent) {
    return silence_text(node) + (is_down ? " (" + node.link.substr(down.size()) + ")" : "");
  }
  return node.through ? node.link + " through " + node.through->value : node.link;
}

std::string job_text(const NodeLine& node) {
  return node.spare ? node.owner + " (spare)" : node.owner;
}

// What muster does about it now, or could not do: then a person has to.
std::string remedy_note(const NodeLine& node) {
  if (!node.remedy.empty()) return node.remedy + " since " + local_text(*node.remedy_since);
  if (node.remedies.empty() || node.remedies.back().failure.empty()) return node.not_remedied;
  const RemedyTry& latest = node.remedies.back();
  if (latest.at < *node.unfit_since) return node.not_remedied;
  const char* what = latest.step == RemedyStep::reset ? "reset" : "reboot";
  return std::string(what) + " by muster failed: " + latest.failure +
         (node.not_remedied.empty() ? "" : "; " + node.not_remedied);
}

std::string unfit_text(const NodeLine& node) {
  const std::string note = remedy_note(node);
  return node.unfit_reason + " since " + local_text(*node.unfit_since) + ": " + node.unfit->what +
         (note.empty() ? "" : "; " + note) + (node.next_look.empty() ? "" : "; " + node.next_look);
}

Document ms_or_null(const std::optional<Milliseconds>& time) {
  return time ? Document(time->count()) : Document(nullptr);
}

Document remedy_document(const NodeLine& node) {
  if (node.remedy.empty()) return nullptr;
  return {{"what", node.remedy}, {"since", utc_text(*node.remedy_since)}};
}

Document try_document(const RemedyTry& one) {
  return {{"at", utc_text(one.at)},
          {"fault", one.fault},
          {"step", word(one.step)},
          {"failure", value_or_null(one.failure)}};
}

Document fault_document(const NodeFault& fault) {
  return {{"id", fault.id},
          {"check", fault.check},
          {"device", fault.device},
          {"serial", fault.serial},
          {"class", word(fault.fault_class)},
          {"remedy", word(fault.remedy)},
          {"stops_job", fault.stops_job},
          {"enforced", fault.enforced},
          {"since", utc_text(fault.since)},
          {"what", fault.what},
          {"evidence", fault.evidence}};
}

Document unfit_document(const NodeLine& node) {
  if (!node.unfit) return nullptr;
  Document out = fault_document(*node.unfit);
  out["reason"] = node.unfit_reason;
  out["drained_since"] = utc_text(*node.unfit_since);
  out["next_look"] = node.next_look;
  return out;
}

// Why it gets no new job, or what speaks against it.
std::string active_text(const NodeLine& node) {
  if (node.drained) return node.drain_reason.empty() ? "yes" : node.drain_reason;
  if (node.unfit) return unfit_text(node);
  if (!node.remedy.empty()) return remedy_note(node);
  if (!node.leaves.empty()) return node.leaves;
  if (!node.set_aside.empty()) {
    return "cordoned by muster until " + local_text(*node.set_aside_until) + ": " + node.set_aside;
  }
  if (!node.faults.empty()) return "no; " + node.faults.front().what;
  if (node.evidence.empty()) return "";
  const NodeEvidence& latest = node.evidence.back();
  const std::string jobs = node.evidence.size() == 1 ? " job, " : " jobs, ";
  return "no; broke " + std::to_string(node.evidence.size()) + jobs + latest.job.value + " at " +
         local_text(latest.at);
}

Document set_aside_document(const NodeLine& node) {
  if (node.set_aside.empty()) return nullptr;
  return {{"reason", node.set_aside},
          {"since", utc_text(*node.set_aside_since)},
          {"until", utc_text(*node.set_aside_until)}};
}

Document evidence_document(const NodeEvidence& piece) {
  return {{"job", piece.job.value}, {"at", utc_text(piece.at)}, {"what", piece.what}};
}

Document node_line_document(const NodeLine& node) {
  Document one;
  one["name"] = node.node;
  one["link"] = node.link;
  one["silent_ms"] = ms_or_null(node.silent);
  one["lost_at_ms"] = ms_or_null(node.lost_at);
  one["through"] = value_or_null(node.through);
  one["host_name"] = node.host_name;
  one["gpus"] = value_or_null(node.gpus);
  one["job"] = value_or_null(node.owner);
  one["spare"] = node.spare;
  one["drained"] = node.drained;
  one["drain_reason"] = node.drain_reason;
  one["leaves"] = value_or_null(node.leaves);
  one["set_aside"] = set_aside_document(node);
  one["suspicion"] = static_cast<double>(node.suspicion) / 1000;
  one["evidence"] = list_of(node.evidence, evidence_document);
  one["unfit"] = unfit_document(node);
  one["faults"] = list_of(node.faults, fault_document);
  one["remedy"] = remedy_document(node);
  one["remedies"] = list_of(node.remedies, try_document);
  one["not_remedied"] = value_or_null(node.not_remedied);
  one["connect_ms"] = Document::object();
  for (const auto& [phase, time] : node.profile) one["connect_ms"][phase] = time.count();
  return one;
}

}  // namespace

std::string silence_text(const NodeLine& node) {
  const auto seconds = [](Milliseconds time) { return std::to_string(time / Seconds{1}) + " s"; };
  return "no word for " + seconds(*node.silent) +
         (node.lost_at ? "; declared lost at " + seconds(*node.lost_at) : "");
}

bool is_worth_showing(const NodeLine& node) {
  return node.link != "not connected" || node.drained || !node.owner.empty() ||
         !node.leaves.empty() || !node.evidence.empty() || !node.faults.empty() || node.unfit ||
         !node.remedy.empty();
}

void sort_by_name(std::vector<NodeLine>& nodes) {
  std::ranges::stable_sort(nodes, natural_less, &NodeLine::node);
}

std::optional<std::vector<NodeLine>> ask_running_for_nodes(const Home& home) {
  auto client = ControllerClient::connect(home);
  if (!client || !*client) return std::nullopt;
  auto answer = ask(**client, AskNodes{}, answer_patience);
  auto* nodes = answer ? std::get_if<NodesAnswer>(&*answer) : nullptr;
  return nodes ? std::optional(std::move(nodes->nodes)) : std::nullopt;
}

std::vector<NodeLine> nodes_if_running(const Home& home) {
  auto nodes = ask_running_for_nodes(home).value_or(std::vector<NodeLine>{});
  std::erase_if(nodes, [](const NodeLine& node) { return !is_worth_showing(node); });
  sort_by_name(nodes);
  return nodes;
}

// GPUs are a column where any node has one.
Table table_of_nodes(const std::vector<NodeLine>& nodes) {
  const auto has_gpus = [](const NodeLine& node) { return node.gpus.value_or(0) > 0; };
  const bool with_gpus = std::ranges::any_of(nodes, has_gpus);
  std::vector<std::string> header{"NODE", "LINK", "HOST", "JOB", "CONNECTED IN", "DRAINED"};
  if (with_gpus) header.insert(header.begin() + 3, "GPUS");
  Table table(header);
  for (const NodeLine& node : nodes) {
    std::vector<std::string> cells{node.node,      link_text(node),    node.host_name,
                                   job_text(node), connect_time(node), active_text(node)};
    const std::string gpus = node.gpus ? std::to_string(*node.gpus) : "";
    if (with_gpus) cells.insert(cells.begin() + 3, gpus);
    table.add(cells);
  }
  return table;
}

Document nodes_document(const std::vector<NodeLine>& nodes) {
  return list_of(nodes, node_line_document);
}

}  // namespace muster
