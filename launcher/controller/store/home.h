// The state directory: where everything of one user's muster lies on the machine it is typed on.
#pragma once

#include <filesystem>
#include <string>

#include "scheduler/model/ids.h"
#include "scheduler/model/result.h"

namespace muster {

// Paths below MUSTER_HOME (default `$XDG_STATE_HOME/muster`, else `~/.local/state/muster`).
struct Home {
  std::filesystem::path root;

  static Home from_environment();
  std::filesystem::path socket() const { return root / "controller.sock"; }
  std::filesystem::path lock() const { return root / "controller.lock"; }
  std::filesystem::path log() const { return root / "controller.log"; }
  std::filesystem::path controller_id() const { return root / "controller.id"; }
  std::filesystem::path secret_key() const { return root / "secret.key"; }
  std::filesystem::path known_hosts() const { return root / "known_hosts"; }
  std::filesystem::path blobs() const { return root / "blobs"; }  // content-addressed files
  std::filesystem::path job(const JobId& id) const { return root / "jobs" / id.value; }
  std::filesystem::path attempt(const JobId& id, AttemptId attempt_id) const {
    return job(id) / ("attempt-" + std::to_string(attempt_id.value));
  }
  std::filesystem::path rank_log(const JobId& id, AttemptId attempt_id, RankId rank) const {
    return attempt(id, attempt_id) / ("rank-" + std::to_string(rank.value) + ".log");
  }
  // JSON lines written by the ranks (MUSTER_METRICS), all ranks in one file, as they arrive.
  std::filesystem::path metrics(const JobId& id, AttemptId attempt_id) const {
    return attempt(id, attempt_id) / "metrics.jsonl";
  }
  // What nodes delivered that left the attempt while it ran (launcher/staging/file_sink.h).
  std::filesystem::path settled(const JobId& id, AttemptId attempt_id) const {
    return attempt(id, attempt_id) / "settled.json";
  }
  // The trees to stage, as JSON: made at submission, read at every attempt.
  std::filesystem::path trees(const JobId& id) const { return job(id) / "trees.json"; }
  // A login that nodes need for the job's image, mode 0600: a secret, nowhere else.
  std::filesystem::path registry_login(const JobId& id) const { return job(id) / "registry.json"; }
  std::filesystem::path outputs(const JobId& id) const { return job(id) / "outputs"; }
};

// Whether the state directory may be used: nobody but its owner may have put anything there. Made
// where it is missing, with mode 0700. One of another user, or that others may write to, is
// refused. The Error says what to do.
Status own_home(const Home& home);
// The same for who only reads: nothing is made or changed.
Status check_home(const Home& home);

}  // namespace muster
