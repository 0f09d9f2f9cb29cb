// What several verbs of `muster health` are asked alike.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/clock.h"

namespace muster {

// Of findings: what is shown, remembered, and written for monitors.
struct HealthKept {
  bool all = false;   // show passes as well
  std::string state;  // empty: the usual file, for this host alone
  bool forget = false;
  std::string prometheus_file;
};

// Of a host or nodes.
struct HealthAsked : HealthKept {
  std::vector<std::string> nodes;       // of the cluster; none, and no target: this host
  std::string target;                   // all nodes of this one
  std::optional<Milliseconds> timeout;  // of each node; of its probes, where it is measured
  std::string profile;                  // a name or a file; empty: by the GPUs
  bool profile_alone = false;           // not over the shipped one of its name
};

}  // namespace muster
