#include "cli/health/cluster/health_nodes_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/health/cluster/compare.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/table.h"

namespace muster {

namespace {

constexpr NodeFitness good_first[] = {NodeFitness::ok, NodeFitness::drained, NodeFitness::unclear,
                                      NodeFitness::unreachable};
// A line of names is read up to here; the table has all of them.
constexpr std::size_t names_most = 16;

std::vector<std::string> names_of(const std::vector<NodeAnswer>& answers, NodeFitness fitness) {
  std::vector<std::string> names;
  for (const NodeAnswer& answer : answers) {
    if (answer.fitness == fitness) names.push_back(answer.node);
  }
  return names;
}

std::string first_names(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < names_most; ++i) {
    text += (i > 0 ? ", " : "") + names[i];
  }
  if (names.size() > names_most) text += ", " + std::to_string(names.size() - names_most) + " more";
  return text;
}

std::string looked_text(const NodeAnswer& answer) {
  if (answer.fitness == NodeFitness::unreachable) return {};
  return answer.beside_ranks ? "beside ranks" : answer.phase;
}

std::vector<std::string> row_of(const NodeAnswer& answer) {
  const FindingCounts counts = counts_of(answer.reports);
  const bool answers = answer.fitness != NodeFitness::unreachable;
  const auto number = [&](std::size_t count) { return answers ? std::to_string(count) : ""; };
  return {answer.node,         word(answer.fitness), answer.profile,         looked_text(answer),
          number(counts.pass), number(counts.fail),  number(counts.unknown), one_line(answer.why)};
}

// In the order of the nodes.
std::vector<FindingReport> shown_of(const std::vector<NodeAnswer>& answers) {
  std::vector<FindingReport> shown;
  for (const NodeAnswer& answer : answers) {
    if (answer.fitness == NodeFitness::unreachable) continue;  // the first table says all of it
    shown.insert(shown.end(), answer.reports.begin(), answer.reports.end());
  }
  return shown;
}

bool is_beside_ranks(const NodeAnswer& answer) {
  return answer.beside_ranks;
}

Document document_of(const NodeAnswer& answer) {
  Document out;
  out["node"] = answer.node;
  out["target"] = answer.target;
  out["state"] = word(answer.fitness);
  out["why"] = answer.why.empty() ? Document(nullptr) : Document(answer.why);
  if (answer.text.empty()) return out;
  const Document said = Document::parse(answer.text);
  for (const auto& [key, value] : said.items()) {
    if (!out.contains(key) && key != "findings" && key != "counts") out[key] = value;
  }
  const FindingCounts counts = counts_of(answer.reports);
  out["counts"] =
      Document{{"pass", counts.pass}, {"fail", counts.fail}, {"unknown", counts.unknown}};
  out["findings"] = Document::array();
  for (const FindingReport& report : answer.reports) {
    out["findings"].push_back(report_document(report));
  }
  return out;
}

}  // namespace

void sort_worst_first(std::vector<NodeAnswer>& answers) {
  std::ranges::stable_sort(answers, [](const NodeAnswer& a, const NodeAnswer& b) {
    if (a.fitness != b.fitness) return a.fitness < b.fitness;
    return natural_less(a.node, b.node);
  });
}

HealthExit health_exit(const std::vector<NodeAnswer>& answers) {
  const auto has = [&](NodeFitness fitness) {
    return std::ranges::any_of(answers, [=](const auto& one) { return one.fitness == fitness; });
  };
  if (has(NodeFitness::drained)) return HealthExit::drained;
  const bool is_open = has(NodeFitness::unclear) || has(NodeFitness::unreachable);
  return is_open || answers.empty() ? HealthExit::unclear : HealthExit::healthy;
}

std::vector<FindingReport> reports_of(const std::vector<NodeAnswer>& answers) {
  std::vector<FindingReport> reports;
  for (const NodeAnswer& answer : answers) {
    reports.insert(reports.end(), answer.reports.begin(), answer.reports.end());
  }
  return reports;
}

std::string nodes_summary(const std::vector<NodeAnswer>& answers) {
  std::string text;
  for (const NodeFitness fitness : good_first) {
    const std::vector<std::string> names = names_of(answers, fitness);
    if (names.empty() && fitness != NodeFitness::ok) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(names.size()) + " " + word(fitness);
    if (!names.empty()) text += " (" + first_names(names) + ")";
  }
  return text;
}

std::string nodes_text(const std::vector<NodeAnswer>& answers, const HealthTextForm& form) {
  Table table({"HOST", "STATE", "PROFILE", "LOOKED AT", "PASS", "FAIL", "UNKNOWN", "WHY"});
  for (const NodeAnswer& answer : answers) table.add(row_of(answer));
  std::string text = table.text(form.width, form.color);
  HealthTextForm findings = form;
  findings.hosts = true;
  const std::string found = findings_text(shown_of(answers), findings);
  if (!found.empty()) text += "\n" + found;
  const std::string figures = printable(figures_table(answers, form));
  if (!figures.empty()) text += "\n" + figures;
  text += "\n";
  if (std::ranges::any_of(answers, is_beside_ranks)) {
    text += "during a job: checks that would disturb its ranks were skipped\n";
  }
  return text + printable(nodes_summary(answers)) + "\n";
}

Document nodes_document(const std::vector<NodeAnswer>& answers) {
  Document out;
  out["nodes"] = Document::array();
  for (const NodeAnswer& answer : answers) out["nodes"].push_back(document_of(answer));
  out["summary"] = Document::object();
  for (const NodeFitness fitness : good_first) {
    out["summary"][word(fitness)] = names_of(answers, fitness);
  }
  Document figures = figures_document(answers);
  if (!figures.empty()) out["figures"] = std::move(figures);
  return out;
}

}  // namespace muster
