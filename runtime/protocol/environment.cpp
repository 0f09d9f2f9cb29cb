#include "runtime/protocol/environment.h"

#include <algorithm>

#include "runtime/protocol/number_text.h"

namespace muster {
namespace {

std::string text_of(const EnvironmentLookup& lookup, const char* name) {
  const char* value = lookup(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::optional<std::uint64_t> number_of(const EnvironmentLookup& lookup, const char* name,
                                       std::string& error) {
  const std::string text = text_of(lookup, name);
  if (text.empty()) return std::nullopt;
  if (const auto number = read_whole_number(text)) return number;
  error = std::string(name) + ": expected a number from 0, got \"" + text + "\"";
  return std::nullopt;
}

// Not SLURM_NTASKS: a batch script has it too, and begins one process. What is no number is not for
// muster to judge. PMIx tells nobody how many there are, but rank 1 is not alone.
std::uint64_t launched_processes(const EnvironmentLookup& lookup) {
  std::uint64_t most = 0;
  for (const char* name : {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    most = std::max(most, read_whole_number(text_of(lookup, name)).value_or(0));
  }
  const auto rank = read_whole_number(text_of(lookup, "PMIX_RANK"));
  return rank && *rank > 0 ? std::max<std::uint64_t>(most, 2) : most;
}

}  // namespace

RankVariables read_rank_variables(const EnvironmentLookup& lookup, std::string& error) {
  RankVariables found;
  found.job = text_of(lookup, env_job);
  found.attempt = number_of(lookup, env_attempt, error);
  found.epoch = number_of(lookup, env_epoch, error);
  if (!found.epoch && found.attempt) found.epoch = *found.attempt + 1;
  found.world_size = number_of(lookup, env_world_size, error);
  found.rank = number_of(lookup, env_rank, error);
  found.launched = launched_processes(lookup);
  found.master_address = text_of(lookup, env_master_address);
  found.master_port = number_of(lookup, env_master_port, error);
  found.rendezvous_secret = text_of(lookup, env_rendezvous_secret);
  found.members_path = text_of(lookup, env_members);
  found.member_port = number_of(lookup, env_member_port, error);
  found.checkpoint_dir = text_of(lookup, env_checkpoint_dir);
  found.resume_from = text_of(lookup, env_resume_from);
  found.heartbeat_path = text_of(lookup, env_heartbeat);
  found.metrics_path = text_of(lookup, env_metrics);
  return found;
}

}  // namespace muster
