// The mounts of a node, as the kernel lists them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

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

}  // namespace muster
