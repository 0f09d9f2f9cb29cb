// Agreement between ranks: every rank says what it has, and all see whether any of them failed.
//
// A failure on one rank must reach the others before the next collective, or they wait forever.
// Collective.
#pragma once

#include <string>
#include <vector>

#include "runtime/checkpoint/checked.h"
#include "runtime/communicator/communicator.h"

namespace muster {

// Gathers a text from every rank, by rank; when some have a fault, all get the first one, with its
// rank.
Checked<std::vector<std::string>> gather_checked(Communicator& ranks,
                                                 const Checked<std::string>& mine);

// The text of rank 0; the argument of other ranks is ignored.
std::string from_rank_0(Communicator& ranks, const std::string& text);

}  // namespace muster
