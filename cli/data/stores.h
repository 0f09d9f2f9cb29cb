// The datastores that this machine knows, those of the catalogue and of the cluster files; what the
// paths of a job's inputs and outputs mean here: datastores, storage addresses, data of the
// catalogue, outputs of other jobs; and what becomes of outputs that were collected. Only listing
// and copying ask a store.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/client/targets.h"
#include "launcher/controller/store/home.h"
#include "launcher/data/cache.h"
#include "launcher/data/datastore.h"
#include "templates/job/job_file.h"
#include "templates/resource/datastore.h"

namespace muster {

// A query, which may be a signature, or a user: not for files and command lines.
bool may_hold_secret(std::string_view address);

class KnownStores {
 public:
  // Those of the cluster files come first: a site's name is the site's.
  KnownStores(const Home& home, std::vector<DatastoreFile> of_clusters, std::string default_name);

  const std::vector<DatastoreFile>& all() const { return stores_; }
  const DatastoreFile* find(std::string_view name) const;
  const std::string& default_name() const { return default_name_; }

  // Credentials from where the store's description has them, put where nodes' data are staged from.
  Status keep_credentials(const DatastoreSpec& spec) const;

 private:
  Home home_;
  std::vector<DatastoreFile> stores_;
  std::string default_name_;
};

// What `read` makes of YAML; nothing of other text. `said` are the findings.
template <class Read>
auto read_resource(const std::string& path, std::string_view text, const ReadOptions& options,
                   std::vector<Finding>& said, Read read) {
  FindingList findings;
  const auto tree = parse_with_sets(path, text, options, findings);
  std::optional<decltype(read(Value()))> made;
  if (tree) made = read(Value(*tree, "", findings));
  said = findings.take_sorted();
  return made;
}

// A datastore of the catalogue as text was read from it.
Result<DatastoreFile> datastore_of_text(const std::string& name, std::string_view text);

struct ResolvedData {
  JobData data;  // inputs without a manifest, which is made from a list
  std::vector<Finding> findings;
};

// Outputs of jobs and local data become local paths in the job's spec; the rest is told beside it.
ResolvedData resolve_data(JobFile& job, const KnownStores& stores, const Home& home);

// Outputs that are copied to stores once they are collected, of a job that has its name. Those
// without a path go to the default datastore, if there is one.
std::vector<JobOutput> outputs_to_stores(const JobSpec& spec, const KnownStores& stores);

// Where logs and ./outputs of the job go in the default datastore, if there is one.
Status find_own_place(const JobSpec& spec, const KnownStores& stores, JobData& data);

// Lists what is there already where the job's outputs with mode rw_mount go.
Status find_content(const Home& home, const KnownStores& stores, const JobSpec& spec,
                    std::vector<JobOutput>& outputs);

// What NAME, NAME:VERSION, NAME@LABEL or a path of an input means: a place in a store, whose
// credentials are then where they are read from, or a path of this machine.
struct FoundData {
  std::string reference;
  std::optional<PlaceInStore> place{};
  std::string path{};
};
Result<FoundData> find_data(const KnownStores& stores, const Home& home, const std::string& text);

// Leads `path`, which is an empty directory or not there, and so afterwards, to the data until
// Ctrl-C or another signal that ends a process. Those of a store are mounted, read-only. `tell`
// hears what is there, and that the store does not answer. The Error: why not, or not any more.
Status mount_until_signal(const Home& home, const FoundData& data,
                          const std::filesystem::path& path, const TellData& tell);

// Lists what inputs hold and puts it into the spec: version, bytes, files. The texts of the
// manifests, in the order of the inputs.
Result<std::vector<std::string>> list_inputs(const Home& home, const KnownStores& stores,
                                             JobData& data, JobSpec& spec);

// Whether the data of these inputs, which a job that has succeeded read from their stores, are what
// they were at submission.
Status check_streamed(const Home& home, const JobId& job, std::span<const std::string> streamed);

// Collected outputs are copied to the stores that the job names, logs to the default one and, where
// `registers` says that the job has succeeded, registered as data by the names that it gives. All
// are tried; the Error is of the first that failed. Done twice, it changes nothing.
Status finish_outputs(const Home& home, const JobId& job, bool registers);

}  // namespace muster
