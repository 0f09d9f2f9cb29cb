// The file of the job store, `$MUSTER_HOME/muster.db`: made, found, and told from one that is not
// the store of the jobs beside it. Errors name the file and the cure.
#pragma once

#include <filesystem>

#include "launcher/controller/store/sqlite.h"

namespace muster {

// For the controller alone: with its tables, of the current version, for its owner's eyes. A file
// that is not there appears with its tables, so an empty one is the work of somebody else: beside
// jobs it is refused.
Status open_store_file(Connection& connection, const std::filesystem::path& home);

// For all others. The version of the file; 0: there is none, or none with tables. `may_annotate`:
// people's notes will be written, and the file must be there.
Result<int> read_store_file(Connection& connection, const std::filesystem::path& home,
                            bool may_annotate);

}  // namespace muster
