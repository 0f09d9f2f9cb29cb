// A user's login at a registry, as the files of docker and podman have it: the one entry that an
// image needs, for a node that pulls it. A secret: never in words of a program, a variable, a log
// or the journal.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/result.h"
#include "scheduler/text/clock.h"

namespace muster {

// The files in which logins are, in the order in which they are looked at: $REGISTRY_AUTH_FILE
// alone where it is set, else podman's, then docker's.
std::vector<std::string> login_files();

// Asks `docker-credential-<helper> get` about a server; the answer is its JSON.
using AskHelper =
    std::function<Result<std::string>(const std::string& helper, const std::string& server)>;

// {"auths": {"<registry>": {"auth": "…"}}} for this whole name; empty: the text has none. An Error:
// a helper was to be asked, and failed. Pure but for the helper.
Result<std::string> login_in(std::string_view text, const std::string& name, const AskHelper& ask);

// Of the user's own files, which each helper has so long for. Empty: there is none.
Result<std::string> login_for(const std::string& name, Milliseconds limit);

}  // namespace muster
