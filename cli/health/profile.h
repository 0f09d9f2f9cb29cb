// Which profile a node is judged by: the one that is named, or the shipped one that its GPUs fit.
#pragma once

#include <string>

#include "cli/health/sources.h"
#include "cli/terminal/common_options.h"
#include "health/model/profile.h"
#include "templates/profile/reader.h"

namespace muster {

HealthProfile profile_of(const ShippedProfile& shipped);

// There is none of that name; which one was meant.
Error unknown_profile(const std::string& typed);

// NAME of a shipped profile, or a site's FILE over the shipped profile of its name. What is wrong
// with a file is printed with its place.
// `alone`: the FILE, or standard input for `-`, as it stands: for profiles that are whole already.
Result<HealthProfile> named_profile(const std::string& typed, const CommonOptions& common,
                                    bool alone = false);

// Where cloud-init keeps what the cloud says of the machine.
inline constexpr const char* cloud_metadata = "/run/cloud-init/instance-data.json";

// Reads what tells the node's kind, the driver's library only where no file does.
NodeKind kind_of(HealthSources& sources);

struct ChosenProfile {
  HealthProfile profile;  // without a name: nothing but what every node must be is judged
  std::string why_none;   // empty: one was found
};
// `before`: the one that this node had when it was last looked at, empty: none. It stays where only
// a GPU or a port that is gone speaks against it.
ChosenProfile choose_profile(const NodeKind& kind, const std::string& before);

// The one that the sources tell; where they tell none that is said, with `hint` behind it.
HealthProfile profile_by_sources(HealthSources& sources, const std::string& before,
                                 const std::string& hint, const CommonOptions& common);

// `muster health learn`: a profile of this machine's kind, from what its sources say now.

struct HealthLearnOptions {
  std::string name;      // empty: after the host
  std::string file;      // empty: stdout
  bool measure = false;  // floors too
  std::string disk;      // a directory; empty: no disk is written
  bool force = false;    // measure idle or not
  std::string root;
};

// What is left out of the profile, and so is not judged, is said.
int learn_health(const HealthSourcesOptions& where, const HealthLearnOptions& options,
                 const CommonOptions& common);

}  // namespace muster
