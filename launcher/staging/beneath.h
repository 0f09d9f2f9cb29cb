// Opening things below a directory by a path that nobody vouches for: each component is opened on
// its own and never followed if it is a link. Failures leave errno, a link in the way gives ELOOP
// or ENOTDIR. Any thread.
#pragma once

#include <dirent.h>
#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/os/fd.h"

namespace muster {

// Why `path` may not name something below a directory, empty when it may: it must be relative and
// its components neither empty nor `.` nor `..`.
std::string unsafe_path_reason(std::string_view path);

// "a/b/c" is ("a/b", "c"), "c" is ("", "c").
std::pair<std::string_view, std::string_view> split_last_component(std::string_view path);

// All names in it but `.` and `..`, sorted; errno: 0, or why there are no more.
std::vector<std::string> names_in(DIR* directory);

// The directory `path` below `root`, "" for itself; `create` makes missing ones.
Fd open_directory_beneath(const Fd& root, std::string_view path, bool create);

// The file `path` below `root`; O_NOFOLLOW and O_CLOEXEC are added.
Fd open_file_beneath(const Fd& root, std::string_view path, int flags, mode_t mode = 0);

}  // namespace muster
