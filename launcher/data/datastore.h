// A datastore in rclone's words; its credentials on the machine where jobs are submitted, in
// `$MUSTER_HOME/secrets` (directory 0700, files 0600), apart from what describes it; texts without
// them; and what a job reads and writes in stores, which its directory has without credentials.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/wire/agent_message.h"
#include "scheduler/model/datastore.h"
#include "scheduler/model/result.h"

namespace muster {

// The text of a configuration with one remote, `store`. Holds the credentials.
Result<std::string> rclone_config(const DatastoreSpec& spec, const Credentials& credentials);

// "store:container/path": `path` below what the store begins with.
std::string rclone_place(const DatastoreSpec& spec, std::string_view path);

// What is the same for two descriptions of one store, whatever their names and credentials.
std::string store_identity(const DatastoreSpec& spec);

// Whether listing tells an MD5 without reading the files, by the store's configuration.
bool tells_hashes(std::string_view config);

// rclone speaks of control characters by their pictures (U+240A for a line feed), and of pictures
// by a quote before them: its names are on one line. The other way, the name that a file has.
std::string rclone_name(std::string_view path);
std::string name_of_rclone(std::string_view path);

// `a/b` of any mix of parts, without empty ones.
std::string joined_path(std::string_view first, std::string_view second = {});

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

struct PlaceInStore {
  DatastoreSpec store;
  std::string path;      // below what the store begins with
  bool is_file = false;  // one file, or all below a directory

  MUSTER_FIELDS(store, path, is_file)
};

// The directory that a manifest's paths start from: of a file the one that it is in.
std::string root_of(const PlaceInStore& place);

struct JobInput {
  std::string input;
  std::string manifest;  // SHA-256 of the list: a blob
  PlaceInStore place;
  std::string how = "stage";  // StagedData::how

  MUSTER_FIELDS(input, manifest, place, how)
};

struct JobOutput {
  std::string output;
  PlaceInStore place;
  std::string asset_name{};  // registered when it is there; empty: not
  std::string asset_version{};
  std::string uri{};  // what the asset names
  // With mode rw_mount, what was there at submission: it is brought to the nodes.
  std::int64_t content_files = 0;
  std::int64_t content_bytes = 0;

  MUSTER_FIELDS(output, place, asset_name, asset_version, uri, content_files, content_bytes)
};

// `$MUSTER_HOME/jobs/<job>/data.json`, written at submission, read when nodes are prepared and
// outputs copied.
struct JobData {
  std::vector<JobInput> inputs;
  std::vector<JobOutput> outputs;
  DataCacheSettings cache;
  std::string mount_cache{};  // StagedData::mount_cache
  // Where logs and ./outputs go, below `logs` and `outputs`; no store: nowhere.
  PlaceInStore own{};
  std::vector<std::string> named{};  // outputs, which are not among ./outputs

  bool empty() const { return inputs.empty() && outputs.empty() && own.store.name.empty(); }
  MUSTER_FIELDS(inputs, outputs, cache, mount_cache, own, named)
};

Status save_job_data(const std::filesystem::path& job_directory, const JobData& data);
// Empty where there is no file.
Result<JobData> load_job_data(const std::filesystem::path& job_directory);

// What nodes are told, with the credentials of the stores.
Result<std::vector<StagedData>> staged_data(const std::filesystem::path& home, const JobData& data);

}  // namespace muster
