// What a look at a fabric found, for people, programs and monitors. Pure.
//
// The result for machines:
//   ts host profile looks took_ms                 host: where the tools ran
//   state: healthy|unclear|drained
//   hosts: {HOST: verdict}                        those that there is something to say of; "": what
//                                                 is no host's
//   counts: {pass, fail, unknown, first_readings}
//   findings: [one as a line of the form jsonl]
#pragma once

#include <string>
#include <vector>

#include "cli/health/cluster/health_fabric_look.h"

namespace muster {

std::string fabric_text(const FabricResult& result, const HealthTextForm& form);
Document fabric_document(const FabricResult& result);
// For forms that have no place for a host: the device says it too, "n17 mlx5_3:1".
std::vector<FindingReport> reports_with_hosts(const FabricResult& result);

}  // namespace muster
