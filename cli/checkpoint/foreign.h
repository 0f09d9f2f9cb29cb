// Checkpoints in a format that is not muster-train's, for people and machines.
//
// The document is an array, the latest first; absent things are null:
//   name path kind    texts; kind as checkpoint.format calls it
//   step              number
//   state             COMPLETE, INCOMPLETE, or UNKNOWN: what is there does not tell
//   usable newest     whether MUSTER_RESUME_FROM may name it, whether the next one would
//   reason            one sentence: why it is not usable
//   bytes created_at  of its files, the latest of them
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/document.h"
#include "cli/terminal/table.h"
#include "launcher/agent/foreign_checkpoints/search.h"
#include "launcher/controller/store/home.h"

namespace muster {

// Where a job saves, as far as this machine sees it, and what it is asked to look for.
struct ForeignSubject {
  std::vector<std::string> roots;
  LookSettings settings = {};
  std::string kind = {};  // of the newest
};

// Nothing: it is no job, or has checkpoints of muster-train's or none at all, or none of its places
// is on this machine.
std::optional<ForeignSubject> foreign_subject(const Home& home, const std::string& typed);

Document foreign_document(const std::vector<ForeignCheckpoint>& found);
Table foreign_table(const std::vector<ForeignCheckpoint>& found);

}  // namespace muster
