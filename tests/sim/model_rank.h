// What runs on a simulated node: rank processes, their output, and the attempt that they belong to
// as the agent there knows it. Plain data; the node moves it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/wire/agent_message.h"

namespace muster::sim {

// How an attempt of a job would go if nothing from outside disturbed it: every node agrees.
struct Program {
  Milliseconds runs_for{60'000};
  std::optional<RankId> failing;
  Milliseconds fails_after{0};
  ExitStatus failure;
  bool hangs = false;  // until the faults are over
};

struct ModelRank {
  RankId id;
  bool alive = false;
  bool stuck = false;  // killed, but the kernel does not let it go: it runs nothing any more
  std::optional<ExitStatus> exit;  // seen by the agent
  Milliseconds ended_at{0};
  bool asked_to_stop = false;
  std::int64_t written = 0;  // bytes of output, on the node's disk
  std::int64_t acked = 0;
  std::int64_t sent = 0;     // over the present connection
};

struct ModelAttempt {
  enum class Stop { idle, stopping, clean };

  bool started = false;
  std::string start_error;
  Program program;
  std::vector<ModelRank> ranks;
  std::vector<int> ports;
  std::int64_t step = 0;
  Stop stop = Stop::idle;
  int stop_round = 0;  // an older round's events are void
  bool clean_wanted = false;
  bool to_forget = false;
  std::vector<std::string> unkillable;

  bool has_alive() const {
    for (const ModelRank& rank : ranks) {
      if (rank.alive) return true;
    }
    return false;
  }
  bool has_sent_everything() const {
    for (const ModelRank& rank : ranks) {
      if (rank.sent < rank.written) return false;
    }
    return true;
  }
};

using AttemptName = std::pair<JobId, AttemptId>;

// The bytes that a rank writes: lines of one length that say whose they are.
inline constexpr std::int64_t line_bytes = 16;
std::string output_text(const AttemptName& attempt, RankId rank, std::int64_t from,
                        std::int64_t to);

}  // namespace muster::sim
