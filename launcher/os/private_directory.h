// A directory whose content can be trusted, because nobody but this user may write to it, and
// nobody but this user and root may put another one in its place. Who finds another user's
// directory under the name, or one that others may write to, finds what others put there.
// Thread-safe. Errors name the directory, its owner and mode; the cure is the caller's.
#pragma once

#include <sys/stat.h>

#include <string>

#include "launcher/os/fd.h"
#include "scheduler/model/result.h"

namespace muster {

// Made where it is missing, with its parents, each with mode 0700. One that is there gets this mode
// unless others may write to it: then it is refused, as what lies in it may be theirs.
Result<Fd> open_private_directory(const std::string& path);

// The same for who only reads: changes nothing. An absent one is an error, too.
Status check_private_directory(const std::string& path);

// Whether nobody but `trusted` and root can change where `path` leads: each directory on the way,
// and each link with the directories that it stands in and leads through, is theirs; no others
// write to the directories, but for sticky ones. Goes up to what is not there. The last one is not
// judged.
Status check_way_to(const std::string& path, uid_t trusted);

// For execveat: a file, no link, that nobody but `trusted` and root can change or replace.
Result<Fd> open_program(const std::string& path, uid_t trusted);

// "user ann (uid 1001), mode 0755": whose it is and who may do what there.
std::string owner_and_mode(const struct stat& facts);

}  // namespace muster
