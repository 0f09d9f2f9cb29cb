// Mounts: that those of the profile are there and answer, and that none turned read-only by itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "health/model/finding.h"
#include "health/model/profile.h"
#include "health/model/source_files.h"

namespace muster {

struct Mount {
  std::string point;           // "/data"
  std::string type;            // "ext4"
  std::string source;          // "/dev/sda1"
  std::string options;         // of the mount: "rw,relatime"
  std::string system_options;  // of the file system: "rw,errors=remount-ro"
};

// /proc/self/mountinfo; lines that are no mounts are left out.
std::vector<Mount> parse_mountinfo(std::string_view text);

// A file system of a local device that is read-only, though it was mounted for writing: the kernel
// does that when it no longer trusts the device. One finding for the node.
std::vector<HealthFinding> judge_read_only(const SourceFiles& files, const HealthProfile& profile);
// One finding for each mount of the profile.
std::vector<HealthFinding> judge_mounts(const SourceFiles& files, const HealthProfile& profile);
std::vector<HealthFinding> judge_mount_stall(const SourceFiles& files,
                                             const HealthProfile& profile);

}  // namespace muster
