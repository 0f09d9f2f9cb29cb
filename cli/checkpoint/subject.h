// From what a person types to checkpoints on this machine: the directory of one, a directory that
// holds several, or a job, each but the first also with `@STEP`. Looks at the file system and the
// store; changes nothing.
#pragma once

#include <optional>
#include <string>

#include "launcher/controller/store/home.h"
#include "scheduler/model/result.h"

namespace muster {

struct CheckpointSubject {
  std::string root;                 // the directory of checkpoints
  std::optional<std::string> name;  // of the one that is meant; none: no particular one
  std::string path() const { return name ? root + "/" + *name : root; }
};

// The Error says what is there instead, or where it is.
Result<CheckpointSubject> checkpoint_subject(const Home& home, const std::string& typed);

// As above, and exactly one: of a directory or a job the newest usable one.
Result<CheckpointSubject> single_checkpoint(const Home& home, const std::string& typed);

}  // namespace muster
