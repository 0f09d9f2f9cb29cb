// What a node says when its health was asked, as its own program writes it.
#pragma once

#include <string>
#include <vector>

#include "cli/health/result.h"
#include "cli/health/run.h"
#include "health/model/check.h"
#include "scheduler/text/duration.h"

namespace muster {

inline HealthFinding a_finding(const char* check, const char* device, CheckStatus status,
                               const char* value = "", std::vector<std::string> evidence = {}) {
  HealthFinding one = make_finding(*find_check(check), device, status);
  one.value = value;
  one.evidence = std::move(evidence);
  return one;
}

inline ActiveFault a_standing_fault(const HealthFinding& of) {
  ActiveFault fault;
  fault.finding = of;
  fault.severity = of.severity;
  fault.id = "6f01ab22";
  fault.first_seen = from_ms(1'800'000'000'000);
  return fault;
}

// A look on a node.
struct Looked {
  HostHealth look;

  explicit Looked(const std::vector<HealthFinding>& findings = {}, const char* kernel = "6.1") {
    HealthProfile profile;
    profile.required = {"ib.state"};
    const CheckRules rules = rules_of(profile);
    const RunFacts run{from_ms(1'800'000'000'000), "host-name", "6f"};
    look = health_of(run, "h100", {});
    look.verdict = report_of(NodeVerdict{});
    for (const HealthFinding& one : findings) {
      look.findings.push_back(report_of(one, 0.2, run, rules, {}));
    }
    look.versions["host.versions"]["kernel"] = kernel;
  }
  Looked& drained_by(const HealthFinding& of) {
    NodeVerdict verdict;
    verdict.drains = {a_standing_fault(of)};
    look.verdict = report_of(verdict);
    return *this;
  }
  Looked& beside_ranks() {
    look.beside_ranks = true;
    look.phase = "periodic";
    return *this;
  }
  std::string text() const { return document_line(health_document(look)); }
  HostHealth of(const char* node) const {
    return read_answer(node, "cluster", text(), "2027-01-15T08:00:00.000Z");
  }
};

}  // namespace muster
