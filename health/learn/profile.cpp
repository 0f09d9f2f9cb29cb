#include "health/learn/profile.h"

#include <cmath>
#include <set>

#include "health/checks/gpu/gpu_check.h"
#include "health/checks/host/host_checks.h"
#include "health/checks/infiniband/infiniband_checks.h"
#include "health/checks/infiniband/port.h"
#include "health/model/baseline.h"
#include "health/model/check.h"
#include "health/model/majority.h"
#include "health/model/performance.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// Towards the worse, with three digits: more would pretend an accuracy that one node cannot give.
double with_margin(double measured, bool is_ceiling) {
  const double margin = learned_margin_pct / 100;
  const double bound = measured * (is_ceiling ? 1 + margin : 1 - margin);
  const int places = 2 - static_cast<int>(std::floor(std::log10(bound)));
  const double unit = std::pow(10.0, std::abs(places));
  const double scaled = places > 0 ? bound * unit : bound / unit;
  const double steps = is_ceiling ? std::ceil(scaled) : std::floor(scaled);
  return places > 0 ? steps / unit : steps * unit;
}

// Devices of one kind should all have one; where they do not, that is told as well.
Facts gpu_versions(const GpuReadings& gpus) {
  Facts facts;
  if (const auto driver = gpus.text("driver")) facts["driver"] = *driver;
  std::set<std::string> vbios;
  std::set<std::string> inforom;
  for (const std::string& device : gpus.devices()) {
    if (const auto text = gpus.text(device + ".vbios")) vbios.emplace(*text);
    if (const auto text = gpus.text(device + ".inforom_image")) inforom.emplace(*text);
  }
  if (!vbios.empty()) facts["vbios"] = joined(vbios);
  if (!inforom.empty()) facts["inforom"] = joined(inforom);
  return facts;
}

// By the board, of which a node may have several kinds.
Facts infiniband_firmware(const SourceFiles& files) {
  std::map<std::string, std::set<std::string>> by_board;
  const auto ports = find_ports(files);
  for (const InfinibandVersions& one : infiniband_versions(files, ports)) {
    const bool is_compared = !one.firmware.empty() && !is_virtual_function(files, one.device) &&
                             !is_management_device(files, one.device);
    if (is_compared) by_board[one.board.empty() ? one.type : one.board].insert(one.firmware);
  }
  Facts facts;
  for (const auto& [board, versions] : by_board) {
    facts[board.empty() ? "firmware" : board] = joined(versions);
  }
  return facts;
}

// The catalogue's severity is for a driver and a library that do not fit each other.
void soften(HealthFinding& finding) {
  if (finding.check == "gpu.versions") finding.severity = {};
}

}  // namespace

NodeReadRequest learning_request() {
  NodeReadRequest request;
  request.sources = gpu_sources();
  for (const auto& more : {infiniband_sources(), host_sources({})})
    request.sources.insert(request.sources.end(), more.begin(), more.end());
  request.gpus = GpuReadingScope{.processes = false, .inforom = false};
  return request;
}

LearnedProfile learn_profile(const NodeReadings& readings, std::string profile_name) {
  BaselineNode node{readings.files, readings.gpus ? &*readings.gpus : nullptr};
  node.profile.name = std::move(profile_name);
  for (const CheckSpec* check : every_check()) {
    if (check->learn) check->learn(node);
  }
  return {std::move(node.profile), std::move(node.left_out)};
}

void learn_floors(const std::map<std::string, double>& measured, HealthProfile& profile) {
  for (const auto& [name, value] : measured) {
    const PerformanceMetric* metric = find_performance_metric(name);
    const bool is_floor = metric != nullptr && !metric->counts_faults;
    if (!is_floor || !(value >= profile_floor_min && value <= profile_floor_max)) continue;
    profile.floors[name] = with_margin(value, metric->is_ceiling);
  }
}

NodeVersions node_versions(const SourceFiles& files, const GpuReadings* gpus) {
  NodeVersions versions;
  const auto add = [&](const char* check, Facts facts) {
    if (!facts.empty()) versions.emplace(check, std::move(facts));
  };
  add("host.versions", versions_of(files));
  add("host.net", mtus_of(files));
  add("ib.fw", infiniband_firmware(files));
  if (gpus != nullptr) add("gpu.versions", gpu_versions(*gpus));
  return versions;
}

std::map<std::string, HealthFinding> judge_majority(std::string_view check,
                                                    const std::map<std::string, Facts>& by_node) {
  std::map<std::string, std::vector<std::string>> told;  // by fact
  for (const auto& [node, facts] : by_node)
    for (const auto& [fact, value] : facts) told[fact].push_back(value);
  std::map<std::string, std::optional<std::string>> usual;
  for (const auto& [fact, values] : told) usual[fact] = said_by_most(values);
  std::map<std::string, HealthFinding> findings;
  for (const auto& [node, facts] : by_node) {
    JudgedCheck judged(*find_check(check));
    for (const auto& [fact, value] : facts) {
      const auto& majority = usual.at(fact);
      const std::string said = fact + " " + value;
      if (!majority)
        judged.unknown(said + ": no version has the majority");
      else
        judged.require(value == *majority, said, fact + " " + *majority);
    }
    if (auto finding = judged.finding()) findings.emplace(node, *std::move(finding));
  }
  return findings;
}

std::map<std::string, std::vector<HealthFinding>> judge_versions(
    const std::map<std::string, NodeVersions>& by_node) {
  std::map<std::string, std::map<std::string, Facts>> by_check;
  for (const auto& [node, versions] : by_node) {
    for (const auto& [check, facts] : versions) by_check[check].emplace(node, facts);
  }
  std::map<std::string, std::vector<HealthFinding>> findings;
  for (const auto& [check, told] : by_check) {
    if (told.size() < compared_nodes_min) continue;
    for (auto& [node, finding] : judge_majority(check, told)) {
      soften(finding);
      finding.source = "as " + std::to_string(told.size()) + " nodes report";
      findings[node].push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace muster
