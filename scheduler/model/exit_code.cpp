#include "scheduler/model/exit_code.h"

#include <array>
#include <utility>

namespace muster {

namespace {

constexpr auto meanings = std::to_array<std::pair<ExitCode, const char*>>({
    {ExitCode::done, "every rank ended with 0"},
    {ExitCode::failure, "the first failed rank's own code (1-125)"},
    {ExitCode::invalid_job, "invalid job file, or one that cannot run here"},
    {ExitCode::no_nodes, "not enough healthy nodes"},
    {ExitCode::launch, "could not reach the nodes, start the ranks or copy the outputs"},
    {ExitCode::gave_up, "retries exhausted, do not requeue"},
    {ExitCode::health_gate, "stopped by a health check"},
    {ExitCode::hang, "no progress in time"},
    {ExitCode::preempted_saved, "preempted, with a checkpoint at the last step"},
    {ExitCode::preempted_unsaved, "preempted, without a checkpoint at the last step"},
    {ExitCode::time_limit, "time limit reached"},
    {ExitCode::internal, "internal error"},
    {ExitCode::canceled, "cancelled by the user"},
});

}  // namespace

const char* exit_code_meaning(ExitCode code) {
  for (const auto& [known, meaning] : meanings) {
    if (known == code) return meaning;
  }
  return "unknown";
}

int exit_code_of_rank_code(int code) {
  const bool reserved = code >= 90 && code <= 99 && code != static_cast<int>(ExitCode::gave_up);
  return reserved ? static_cast<int>(ExitCode::failure) : code;
}

}  // namespace muster
