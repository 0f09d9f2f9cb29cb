// Images as directories, for runtimes that keep none: rootfs/, and config.json as umoci leaves it.
// Jobs share them. What is in them is the image's maker's: no link in it is followed.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

std::string images_in(const std::string& home);
// In `images`, by name_on_node.
std::string unpacked_image(const std::string& images, const std::string& name);

// The variables of an unpacked image; none where it has no such file.
Result<std::map<std::string, std::string>> variables_of_image(const std::string& unpacked);

// Directories, and files where the second is true, below `root`: made where they are missing.
Status make_mount_points(const std::string& root,
                         const std::vector<std::pair<std::string, bool>>& points);

}  // namespace muster
