// What each rank finds to resume from, and the one that all of them take.
//
// Where nodes share no directory, a checkpoint lies on one node alone, and after a restart that may
// be any rank's. So every rank looks, all hear what each has found, and all decide alike: a
// checkpoint counts when no later generation that any rank knows of began before it; then the
// highest step wins, then the highest generation, then the lowest rank. Pure, but for find_offer.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/choose.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "scheduler/text/fields.h"

namespace muster {

struct RejectedOffer {
  CheckpointName name;
  std::string reason;
  MUSTER_FIELDS(name, reason)
};
struct ResumeOffer {
  std::vector<CheckpointName> usable;
  std::vector<GenerationFork> forks;
  std::string trouble;  // why this rank's view says nothing against what it does not show
  // Committed checkpoints that are not usable, and why.
  std::vector<RejectedOffer> rejected;
  MUSTER_FIELDS(usable, forks, trouble, rejected)
};

// What lies in directory `root` of this node and has this grade or a higher one.
ResumeOffer find_offer(const std::string& root,
                       CheckpointGrade at_least = CheckpointGrade::committed);

struct ChosenOffer {
  std::size_t rank = 0;
  CheckpointName name;
};

// `offers` by rank.
std::optional<ChosenOffer> choose_offer(std::span<const ResumeOffer> offers);

// The checkpoints that are newer than the chosen one, a sentence each with the reason.
std::vector<std::string> passed_over(std::span<const ResumeOffer> offers,
                                     const CheckpointName& chosen);

// Why none could be chosen although something is there, or empty: there is nothing anywhere.
std::string complaint_of(std::span<const ResumeOffer> offers);

}  // namespace muster
