// What a node says when its health was asked, as its own program writes it.
#pragma once

#include <string>
#include <vector>

#include "cli/health/host.h"
#include "cli/health/result.h"
#include "health/model/check.h"
#include "scheduler/text/duration.h"

namespace muster {

// A look on a node.
struct Looked {
  HealthLook look;

  explicit Looked(const std::vector<HealthFinding>& findings = {}, const char* kernel = "6.1") {
    HealthProfile profile;
    profile.required = {"ib.state"};
    const CheckRules rules = rules_of(profile);
    look.run = {from_ms(1'800'000'000'000), "host-name", "6f", {}, utc_text};
    look.profile = "h100";
    look.phase = "on-demand";
    for (const HealthFinding& one : findings) {
      look.reports.push_back(report_of(one, 0.2, look.run, rules, {}));
    }
    look.versions["host.versions"]["kernel"] = kernel;
  }
  Looked& drained_by(const HealthFinding& of) {
    StandingFault fault;
    fault.finding = of;
    fault.severity = of.severity;
    fault.id = "6f01ab22";
    look.verdict.drains.push_back(fault);
    return *this;
  }
  Looked& beside_ranks() {
    look.beside_ranks = true;
    look.phase = "periodic";
    return *this;
  }
  std::string text() const { return document_line(health_document(look)); }
  NodeAnswer of(const char* node) const {
    return read_answer(node, "cluster", text(), "2027-01-15T08:00:00.000Z");
  }
};

}  // namespace muster
