// What a piece of pending work is called on the wire: the message for the node, made from State,
// the job and what is known of the other nodes. Makes no decision.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/controller/agents/pool.h"
#include "launcher/controller/store/home.h"
#include "launcher/wire/agent_message.h"
#include "scheduler/attempt/rank_environment.h"
#include "scheduler/decide/decide.h"

namespace muster {

// Makes the messages of one turn; remembers what the nodes of an attempt have in common. Refers to
// all that it is given.
class WorkMessages {
 public:
  // `secret_key`: ControllerSettings::secret_key.
  WorkMessages(const State& state, Time now, AgentPool& pool, const Home& home,
               std::string secret_key = {})
      : state_(state), now_(now), pool_(pool), home_(home), secret_key_(std::move(secret_key)) {}

  // For every kind of work but staging, which needs the job's trees.
  ToAgent message(const NodeWork& work);

 private:
  struct Gang {
    GangVariables variables;
    Environment shared;
  };

  SetMembers members_message(const Job& job, const Attempt& attempt);
  StartRanks start_message(const Job& job, const Attempt& attempt, const NodeWork& work);
  const Gang& allocation_of(const Job& job, const Attempt& attempt,
                            const std::optional<Joiner>& joiner);

  const State& state_;
  Time now_;
  AgentPool& pool_;
  const Home& home_;
  std::string secret_key_;
  std::map<std::pair<JobId, std::optional<int>>, Gang> gangs_;  // of a joiner: its node's own
};

// What keeps the job away from a node that its gate was to measure, and whose agent does not know
// how: what the profile requires is unknown.
std::vector<CheckFailure> failures_unmeasured(const State& state, const Job& job,
                                              const NodeId& node);

// What the ranks of an attempt have and nobody else (runtime/protocol/environment.h). The same from
// every controller of a state directory, so that who joins late, after a restart of it, has it too.
std::string attempt_secret(const std::string& secret_key, const Job& job, AttemptId attempt);

// Which program a command cannot do without, as far as its first word tells: `python3 train.py`
// needs python3 on every node. Pure.

// The interpreters named as the first word of the command; empty for anything that the shell must
// work out first (assignments, expansions, paths, builtins, other programs).
std::vector<std::string> interpreters_of(std::string_view command);

}  // namespace muster
