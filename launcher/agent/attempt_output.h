// The spools of one attempt, sent to the controller chunk by chunk, the ranks in turn. Owned by the
// attempt. Sends only what the line has room for; whoever sees room again calls `pump`.
#pragma once

#include <map>

#include "launcher/agent/attempt_layout.h"
#include "launcher/agent/controller_line.h"
#include "launcher/agent/spool.h"

namespace muster {

class AttemptOutput {
 public:
  AttemptOutput(AttemptKey key, std::string directory)
      : key_(std::move(key)), directory_(std::move(directory)) {}

  Result<Spool*> open(RankId rank);
  // Every spool that lies in the directory: after a restart of the agent.
  void open_existing();
  Spool* find(RankId rank);
  const std::map<RankId, Spool>& spools() const { return spools_; }

  void pump(ControllerLine& line);
  void acknowledge(RankId rank, std::int64_t offset);
  void rewind();
  bool has_sent_everything() const;

 private:
  AttemptKey key_;
  std::string directory_;
  std::map<RankId, Spool> spools_;
};

}  // namespace muster
