// From what a person types to checkpoints on this machine: the directory of one, a directory that
// holds several, or a job, each but the first also with `@STEP`. Looks at the file system and the
// store; changes nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/terminal/document.h"
#include "cli/terminal/table.h"
#include "launcher/agent/foreign_checkpoints/search.h"
#include "launcher/controller/store/home.h"
#include "scheduler/explain/summary.h"
#include "scheduler/model/result.h"

namespace muster {

struct CheckpointSubject {
  std::string root;                 // the directory of checkpoints
  std::optional<std::string> name;  // of the one that is meant; none: no particular one
  std::string path() const { return name ? root + "/" + *name : root; }
};

// Ends the verb where there is none, and says what is there instead, or where it is.
CheckpointSubject checkpoint_subject(const Home& home, const std::string& typed);

// As above, and exactly one: of a directory or a job the newest usable one.
CheckpointSubject single_checkpoint(const Home& home, const std::string& typed);

// Of the newest checkpoint on record; empty: none. A step that a person went back to is known
// before its directory is.
std::string last_checkpoint_directory(const JobSummary& job);

// Whether a resume can take a checkpoint of that step, or nobody here can tell; the Error says
// which steps there are.
Status check_usable_step(const std::string& root, std::uint64_t step);

// ---- checkpoints in a format that is not muster-train's

// Where a job saves, as far as this machine sees it, and what it is asked to look for.
struct ForeignSubject {
  std::vector<std::string> roots;
  LookSettings settings = {};
  std::string kind = {};  // of the newest
};

// Nothing: it is no job, or has checkpoints of muster-train's or none at all, or none of its places
// is on this machine.
std::optional<ForeignSubject> foreign_subject(const Home& home, const std::string& typed);

// The document is an array, the latest first; absent things are null:
//   name path kind    texts; kind as checkpoint.format calls it
//   step              number
//   state             COMPLETE, INCOMPLETE, or UNKNOWN: what is there does not tell
//   usable newest     whether MUSTER_RESUME_FROM may name it, whether the next one would
//   reason            one sentence: why it is not usable
//   bytes created_at  of its files, the latest of them
Document foreign_document(const std::vector<ForeignCheckpoint>& found);
Table foreign_table(const std::vector<ForeignCheckpoint>& found);

}  // namespace muster
