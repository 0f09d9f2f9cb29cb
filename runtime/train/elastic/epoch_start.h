// What the members of an elastic run tell each other as an epoch begins, and whose state counts.
//
// A state that was trained in an earlier epoch comes before one that was read from a checkpoint:
// who joins never brings back what the others have left behind. Of equal kind, the one with the
// most steps; a checkpoint counts only when it is on the lineage of all forks that any member knows
// of (checkpoint/choose.h). All decide alike. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/checkpoint/manifest.h"
#include "scheduler/text/fields.h"

namespace muster {

struct MemberNews {
  std::uint64_t step = 0;
  bool has_trained = false;            // in an epoch before, or has the state of one that has
  std::uint64_t from_generation = 0;   // of the checkpoint that was read; 0: none was
  std::uint64_t known_generation = 0;  // the highest that it knows of
  bool owes_save = false;              // one was due in the epoch before, or was given up
  std::string host;
  std::string previous;                    // directory name of the checkpoint before this state
  std::vector<GenerationFork> lineage;     // of this state
  std::vector<GenerationFork> forks = {};  // known from its directory
  MUSTER_FIELDS(step, has_trained, from_generation, known_generation, owes_save, host, previous,
                lineage, forks)
};

// By place. Never empty.
struct EpochStart {
  std::vector<MemberNews> members;

  // The place of the first one whose state counts.
  std::size_t source() const;
  // Some have another state.
  bool differs() const;
  std::uint64_t known_generation() const;
  bool owes_save() const;
  std::vector<std::string> hosts() const;  // each once
};

}  // namespace muster
