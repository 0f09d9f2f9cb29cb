// Credentials of datastores on the machine where jobs are submitted, in `$MUSTER_HOME/secrets`
// (directory 0700, files 0600), apart from what describes the store; and texts without them. Any
// process of the user's.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/datastore.h"
#include "scheduler/model/result.h"

namespace muster {

// The same store has the same file, under whatever home; credentials of others never meet it.
std::filesystem::path secret_file(const std::filesystem::path& home, const DatastoreSpec& spec);

// Replaces those that are there; none removes the file.
Status save_secrets(const std::filesystem::path& home, const DatastoreSpec& spec,
                    const Credentials& credentials);
// None where there is no file. A file that others may read is refused.
Result<Credentials> load_secrets(const std::filesystem::path& home, const DatastoreSpec& spec);

// What rclone and stores say may hold signatures, keys and passwords. `secrets` are texts that must
// not be seen either.
std::string redacted(std::string_view text, const std::vector<std::string>& secrets);
// The values in the lines of a configuration that are secret.
std::vector<std::string> secrets_in_config(std::string_view config);

}  // namespace muster
