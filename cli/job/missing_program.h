// A rank that ended with 127 or 126 because its program is not there, when it is here: a virtual
// environment or a build on the submitting host that the nodes do not see. From what the ranks said
// last; pure but for the look at files of this host.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "scheduler/model/record.h"

namespace muster {

// Where a program is on this host: its path, or empty. Takes a path or a name to look for in $PATH.
using FindHere = std::function<std::string(const std::string& program)>;
std::string find_here(const std::string& program);

// "/venv/bin/python is not there on h01; it is here: put it on a shared folder or into `code`", of
// the newest attempt that ended; of a relative path in a job without `code`: how it gets there;
// empty: nothing of the kind.
std::string missing_program_text(const std::vector<Record>& records, const FindHere& find);

}  // namespace muster
