// Agreement between ranks: every rank says what it has, and all see whether any of them failed.
//
// A failure on one rank must reach the others before the next collective, or they wait forever.
// Collective.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/checkpoint/file/checked.h"
#include "runtime/communicator/communicator.h"
#include "runtime/protocol/start_error.h"

namespace muster {

// Gathers a text from every rank, by rank; when some have a fault, all get the first one, with its
// rank.
Checked<std::vector<std::string>> gather_checked(Communicator& ranks,
                                                 const Checked<std::string>& mine);

// The text of rank 0; the argument of other ranks is ignored.
std::string from_rank_0(Communicator& ranks, const std::string& text);

// Runs a part of the start that may fail on this rank alone; all ranks go on, or all throw the
// first reason.
template <class Part>
auto on_all_ranks(Communicator& ranks, Part part) {
  std::optional<decltype(part())> result;
  Checked<std::string> vote = std::string();
  try {
    result = part();
  } catch (const StartError& error) {
    vote = CheckpointFault{error.what()};
  }
  const auto votes = gather_checked(ranks, vote);
  if (!votes) throw StartError(votes.reason());
  return std::move(*result);
}

}  // namespace muster
