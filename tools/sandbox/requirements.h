// What a sandbox needs of this machine, checked before anything is made, with the cure when it is
// missing.
#pragma once

#include <filesystem>

#include "scheduler/model/result.h"

namespace muster {

// Root, namespaces, iproute2, OpenSSH. The Error does not say how to become root: the caller knows
// its command line.
Status check_requirements();

bool is_administrator();

// Programs of an administrator are found although the PATH of a user has no sbin.
void widen_path();

// Empty: not installed.
std::filesystem::path sshd_program();

}  // namespace muster
