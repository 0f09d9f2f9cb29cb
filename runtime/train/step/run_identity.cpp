#include "runtime/train/step/run_identity.h"

#include <unistd.h>

#include <cstdio>

#ifndef MUSTER_VERSION
#define MUSTER_VERSION "unknown"
#endif

namespace muster {
namespace {

std::string hex(std::uint64_t value) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value));
  return digits;
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

RunIdentity make_run_identity(const TrainOptions& options, const RankVariables& variables) {
  std::string config;
  for (const auto& [name, value] : result_options(options)) config += name + "=" + value + "\n";
  const std::string name = variables.job.empty() ? config : variables.job;
  RunIdentity identity;
  identity.config_hash = fnv1a64(config);
  identity.code_hash = fnv1a64("muster-train " MUSTER_VERSION);
  identity.run_id = hex(fnv1a64(name)) + hex(fnv1a64(name, fnv1a64("muster run")));
  return identity;
}

}  // namespace muster
