// From what a person types to checkpoints on this machine: the directory of one, a directory that
// holds several, or a job, each but the first also with `@STEP`. Looks at the file system and the
// store; changes nothing.
#pragma once

#include <optional>
#include <string>

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

}  // namespace muster
