// The tables of the store and how an older file becomes a current one.
#pragma once

#include "launcher/controller/sqlite.h"

namespace muster {

inline constexpr int store_version = 1;

// Creates or migrates; refuses a file of a newer version, naming both.
Status prepare_schema(Connection& connection);
// For readers: the same refusal, nothing written. False: the file has no tables yet.
Result<bool> has_readable_schema(Connection& connection);

}  // namespace muster
