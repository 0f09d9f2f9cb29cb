#include "cli/data/resolve.h"

#include <unistd.h>

#include <array>
#include <filesystem>

#include "cli/data/catalogue.h"
#include "cli/terminal/files.h"
#include "launcher/data/secrets.h"
#include "launcher/data/store_config.h"
#include "launcher/staging/beneath.h"
#include "launcher/staging/content_hash.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/resource/data_asset.h"
#include "templates/yaml/path_form.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view datastores = "datastores/";
constexpr int most_hops = 2;  // data of the catalogue, then what its path names

// Why an input cannot be had; empty: it can.
using Why = std::string;

// The text between `begin` and the end of that part, which is taken off with what is before it.
std::string part_after(std::string_view& text, std::string_view begin) {
  const std::size_t at = text.find(begin);
  if (at == text.npos) return {};
  text.remove_prefix(at + begin.size());
  return std::string(take_until(text, '/'));
}

class Resolver {
 public:
  Resolver(const KnownStores& stores, const Home& home)
      : stores_(stores), home_(home), assets_(home, Catalogue::Kind::data) {}

  // Either the input is local afterwards, or `place` is where its data are.
  Why resolve(InputSpec& input, std::optional<PlaceInStore>& place, int hops = 0) {
    switch (input.path_kind) {
      case PathKind::datastore:
      case PathKind::http:
        return in_store(input, place);
      case PathKind::asset:
        return of_catalogue(input, place, hops);
      case PathKind::job_output:
        return of_job(input);
      default:
        return {};
    }
  }

  // A path of a datastore: `azureml://…/datastores/D/paths/P` or an address.
  Why find_place(std::string_view path, PlaceInStore& place) const {
    if (may_hold_secret(path)) {
      return "an address with a query, a signature or a user is not taken, as job files are kept; "
             "create a datastore with 'sas_token' and name it: `muster datastore create -f FILE`";
    }
    if (!path.starts_with("azureml://")) {
      const auto addressed = stores_.at_address(path);
      if (!addressed) return "the address " + quoted_text(path) + " is of no known kind";
      place = addressed->place;
      return {};
    }
    const std::string name = part_after(path, datastores);
    const DatastoreFile* known = stores_.find(name);
    if (known == nullptr) {
      const std::string near = did_you_mean(name, stores_.names());
      return "there is no datastore " + quoted_text(name) +
             (near.empty() ? "; `muster datastore create -f FILE` makes one" : "; " + near);
    }
    if (!path.empty() && take_until(path, '/') != "paths") {
      return "expected azureml://datastores/" + name + "/paths/PATH";
    }
    place = {known->spec, std::string(path)};
    return {};
  }

 private:
  Why in_store(InputSpec& input, std::optional<PlaceInStore>& place) const {
    PlaceInStore found;
    if (Why why = find_place(input.path, found); !why.empty()) return why;
    if (const std::string joined = joined_path(found.path, "");
        !joined.empty() && !unsafe_path_reason(joined).empty()) {
      return "the path " + quoted_text(found.path) + " " + unsafe_path_reason(joined).substr(3);
    }
    const bool is_file = input.type == DataType::uri_file;
    if (found.is_file && !is_file) {
      return "behind a web address is one file: write 'type: uri_file'";
    }
    found.is_file = is_file;
    if (found.store.type != DatastoreType::local) {
      place = std::move(found);
      return {};
    }
    input.path = joined_path(found.store.path, found.path).insert(0, "/");
    input.path_kind = PathKind::local;
    input.in_place = true;
    return {};
  }

  Why of_catalogue(InputSpec& input, std::optional<PlaceInStore>& place, int hops) {
    if (hops >= most_hops) return "data of the catalogue name other data of the catalogue";
    std::string_view rest = input.path;
    std::string name = part_after(rest, "/data/");
    std::string version;
    if (name.empty()) {
      std::tie(name, version) = split_reference(std::string_view(input.path).substr(8));
    } else {
      version = part_after(rest, "versions/");
    }
    const auto entry = assets_.find(name, version);
    if (!entry) return entry.error().message + "; `muster data create -f FILE` adds it";
    FindingList findings;
    const auto tree = parse_with_sets(name, entry->text, {}, findings);
    if (!tree) return "data " + quoted_text(name) + " cannot be read";
    const DataAsset asset = read_data_asset(Value(*tree, "", findings), {});
    if (input.type == DataType::uri_folder) input.type = asset.type;
    input.path = asset.path;
    input.path_kind = asset.path_kind;
    if (asset.path_kind == PathKind::local && real_files().kind_of(asset.path) == OnDisk::missing) {
      return "data " + quoted_text(name) + ": " + asset.path + " is not there";
    }
    return resolve(input, place, hops + 1);
  }

  // azureml://jobs/J/outputs/O/paths/P and runs:/J/P.
  Why of_job(InputSpec& input) const {
    std::string_view rest = input.path;
    const bool is_run = rest.starts_with("runs:/");
    const std::string job = part_after(rest, is_run ? "runs:/" : "jobs/");
    const std::string output = is_run ? "" : part_after(rest, "outputs/");
    if (!is_run && rest.starts_with("paths/")) rest.remove_prefix(6);
    const std::string inside = joined_path(output, rest);
    for (const std::string& part : {job, inside}) {
      if (!unsafe_path_reason(part).empty()) return "expected azureml://jobs/JOB/outputs/OUTPUT";
    }
    const fs::path path = home_.outputs(JobId{job}) / inside;
    const OnDisk found = real_files().kind_of(path.string());
    if (found == OnDisk::missing) {
      return "job " + quoted_text(job) + " has no output " + quoted_text(inside) +
             " on this machine";
    }
    input.path = path.string();
    input.path_kind = PathKind::local;
    return {};
  }

  const KnownStores& stores_;
  const Home& home_;
  Catalogue assets_;
};

// `azureml://datastores/D/paths/…`, with the name of the default datastore filled in.
std::string output_path_of(const JobSpec& spec, const std::string& name, const OutputSpec& output,
                           const KnownStores& stores) {
  if (!output.path.empty()) {
    return replaced(output.path, "${{default_datastore}}", stores.default_name());
  }
  if (stores.default_name().empty() || output.mode == OutputMode::direct) return {};
  return "azureml://datastores/" + stores.default_name() + "/paths/azureml/" + spec.name + "/" +
         name + "/";
}

bool is_in_store(const std::string& path) {
  const auto form = path_form(path);
  return form && (form->kind == PathKind::datastore || form->kind == PathKind::http);
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this machine";
}

}  // namespace

ResolvedData resolve_data(JobFile& job, const KnownStores& stores, const Home& home) {
  ResolvedData resolved;
  Resolver resolver(stores, home);
  const auto refuse = [&](const std::string& key, const std::string& why) {
    resolved.findings.push_back(finding_about(job, Severity::unresolved, key, key + ": " + why));
  };
  for (auto& [name, input] : job.spec.inputs) {
    if (input.is_literal || input.mode == InputMode::direct) continue;
    std::optional<PlaceInStore> place;
    InputSpec found = input;
    if (const Why why = resolver.resolve(found, place); !why.empty()) {
      refuse("inputs." + name, why);
    } else if (place) {  // its path stays as its author wrote it
      input.type = found.type;
      const bool is_staged = place->is_file || input.mode == InputMode::download;
      const auto asked = job.spec.muster.other.find("data." + name);
      const bool is_asked = asked != job.spec.muster.other.end();
      resolved.data.inputs.push_back({name, "", std::move(*place),
                                      is_staged  ? "stage"
                                      : is_asked ? asked->second
                                                 : "auto"});
    } else {
      input = std::move(found);
    }
  }
  for (const auto& [path, mode] : job.spec.muster.other) {
    const std::string_view name = std::string_view(path).substr(path.find('.') + 1);
    if (path.starts_with("data.") && !job.spec.inputs.contains(std::string(name))) {
      refuse("muster." + path, "the job has no such input");
    }
  }
  const auto& variables = job.spec.environment_variables;
  if (const auto size = variables.find("DATASET_MOUNT_CACHE_SIZE"); size != variables.end()) {
    resolved.data.mount_cache = size->second;
  }
  for (const auto& [name, output] : job.spec.outputs) {
    const std::string path = output_path_of(job.spec, name, output, stores);
    if (output.mode == OutputMode::direct || path.empty() || !is_in_store(path)) continue;
    PlaceInStore place;
    Why why = resolver.find_place(path, place);
    const bool is_web = place.store.remote == "http";
    if (why.empty() && (is_web || place.store.type == DatastoreType::azure_file)) {
      why = "nothing can be written there: " + quoted_text(path);
    }
    if (!why.empty()) refuse("outputs." + name, why);
  }
  return resolved;
}

std::vector<JobOutput> outputs_to_stores(const JobSpec& spec, const KnownStores& stores) {
  std::vector<JobOutput> all;
  const Home nowhere;
  for (const auto& [name, output] : spec.outputs) {
    if (output.mode == OutputMode::direct) continue;
    JobOutput one{name,
                  {},
                  output.asset_name,
                  output.asset_version,
                  output_path_of(spec, name, output, stores)};
    const bool goes = is_in_store(one.uri);
    if (goes && !Resolver(stores, nowhere).find_place(one.uri, one.place).empty()) continue;
    one.place.is_file = output.type == DataType::uri_file;
    if (!goes) one.uri.clear();
    if (goes || !one.asset_name.empty()) all.push_back(std::move(one));
  }
  return all;
}

Result<std::vector<std::string>> list_inputs(const Home& home, const KnownStores& stores,
                                             JobData& data, JobSpec& spec) {
  std::vector<std::string> texts;
  for (JobInput& input : data.inputs) {
    if (auto kept = stores.keep_credentials(input.place.store); !kept) return kept.error();
    const auto credentials = load_secrets(home.root, input.place.store);
    if (!credentials) return credentials.error();
    auto manifest = list_place(input.place, *credentials, host_name());
    if (!manifest) return Error{"inputs." + input.input + ": " + manifest.error().message};
    texts.push_back(data_manifest_text(*manifest));
    input.manifest = content_hash_of(texts.back());
    InputSpec& listed = spec.inputs[input.input];
    listed.data_version = input.manifest;
    listed.data_bytes = manifest->bytes();
    listed.data_files = static_cast<std::int64_t>(manifest->files.size());
    if (input.place.is_file) listed.data_file = manifest->files[0].path;
  }
  return texts;
}

}  // namespace muster
