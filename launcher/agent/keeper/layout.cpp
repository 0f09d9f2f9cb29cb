#include "launcher/agent/keeper/layout.h"

#include "runtime/protocol/keyed_hash.h"

namespace muster {

std::string token_of(const RunDirectory& run, const AttemptKey& key) {
  return run.controller + "." + run.node.value + "." + key.job.value + "." +
         std::to_string(key.attempt.value);
}

bool is_token_of_run(const RunDirectory& run, const std::string& token) {
  const std::size_t attempt_dot = token.rfind('.');
  if (attempt_dot == std::string::npos || attempt_dot == 0) return false;
  const std::size_t job_dot = token.rfind('.', attempt_dot - 1);
  return job_dot != std::string::npos &&
         token.compare(0, job_dot, run.controller + "." + run.node.value) == 0;
}

AttemptLayout layout_of(const RunDirectory& run, const AttemptKey& key) {
  const std::string number = std::to_string(key.attempt.value);
  // Short, as sockets live below; not to be guessed, as others may make names in /tmp first.
  const std::string unique =
      hex_text(keyed_hash(run.secret, run.path + "\n" + token_of(run, key))).substr(0, 16);
  AttemptLayout layout;
  layout.job = run.home + "/jobs/" + run.controller + "/" + run.node.value + "/" + key.job.value;
  layout.code = layout.job + "/code-" + number;
  layout.inputs = layout.job + "/inputs";
  layout.outputs = layout.job + "/outputs";
  layout.logs = layout.job + "/logs";
  layout.checkpoints = layout.job + "/ckpt";
  layout.spool = spools_root(run) + "/" + key.job.value + "/" + number;
  layout.mpi_scratch = "/tmp/muster-mpi." + unique;
  layout.mpi_shared_memory = "/dev/shm/muster-mpi." + unique;
  layout.ray_scratch = "/tmp/muster-ray." + unique;
  return layout;
}

}  // namespace muster
