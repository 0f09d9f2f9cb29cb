#include "runtime/train/run_identity.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "runtime/train/start_error.h"

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

std::uint64_t choose_generation(const RunIdentity& identity, const RankVariables& variables,
                                std::uint64_t highest, const ResumeLog& log) {
  for (const GenerationLine& line : log.generations) {
    if (!variables.epoch || !line.epoch || line.run_id != identity.run_id) continue;
    if (*line.epoch < *variables.epoch) continue;
    throw StartError("epoch " + std::to_string(*line.epoch) +
                     " of this job has already written here, and this process carries epoch " +
                     std::to_string(*variables.epoch) + " (MUSTER_EPOCH): it must not write");
  }
  if (highest == ~std::uint64_t{0}) {
    throw StartError("the checkpoint directory names generation " + std::to_string(highest) +
                     ", above which there is none: remove that directory, or use another");
  }
  return std::max(variables.epoch.value_or(1), highest + 1);
}

}  // namespace muster
