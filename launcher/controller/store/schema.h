// The tables of the store and how an older file becomes a current one.
#pragma once

#include "launcher/controller/store/sqlite.h"

namespace muster {

inline constexpr int store_version = 14;

// Creates or migrates, all steps in one transaction; refuses a file of a newer version, naming
// both.
Status prepare_schema(Connection& connection);
// The version of the file, 0: it has no tables yet. The same refusal, nothing written.
Result<int> schema_version(Connection& connection);

}  // namespace muster
