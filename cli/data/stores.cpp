#include "cli/data/stores.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "cli/data/catalogue.h"
#include "cli/terminal/files.h"
#include "launcher/data/rclone.h"
#include "launcher/os/fd.h"
#include "launcher/staging/beneath.h"
#include "launcher/staging/content_hash.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/yaml/path_form.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t credentials_limit_bytes = 65536;
// An agent looks at each when outputs are collected, in a tenth of a second for so many.
constexpr std::size_t content_limit_files = 100'000;
constexpr int most_hops = 2;  // data of the catalogue, then what its path names

// Why a path cannot be had; empty: it can.
using Why = std::string;

// "%20" of an address.
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (; !text.empty(); text.remove_prefix(1)) {
    unsigned char byte = 0;
    const char* end = text.data() + std::min<std::size_t>(text.size(), 3);
    const bool is_coded = text[0] == '%' && text.size() > 2 &&
                          std::from_chars(text.data() + 1, end, byte, 16).ptr == end;
    out += is_coded ? static_cast<char>(byte) : text[0];
    if (is_coded) text.remove_prefix(2);
  }
  return out;
}

// A name for a store that has none.
std::string name_from(std::string_view address) {
  std::string name;
  for (const char c : address) name += is_word_of(std::string_view(&c, 1), "_.-") ? c : '-';
  while (!name.empty() && (name[0] == '.' || name[0] == '-')) name.erase(0, 1);
  return name.empty() ? "store" : name.substr(0, 200);
}

// "ACCOUNT.blob.ENDPOINT" or "ACCOUNT.dfs.ENDPOINT".
bool read_host(std::string_view host, DatastoreSpec& spec) {
  spec.account = take_until(host, '.');
  const std::string_view kind = take_until(host, '.');
  spec.endpoint = host;
  return (kind == "blob" || kind == "dfs") && is_word_of(spec.account, "-") &&
         is_word_of(host, "-.:");
}

std::optional<PlaceInStore> in_azure(std::string_view text,
                                     const std::vector<DatastoreFile>& known) {
  const std::size_t mark = text.find("://");
  if (mark == text.npos) return std::nullopt;
  const std::string scheme = lower_case(text.substr(0, mark));
  const bool is_web = scheme == "https" || scheme == "http";
  if (!is_web && scheme != "wasbs" && scheme != "wasb" && scheme != "abfss" && scheme != "abfs") {
    return std::nullopt;
  }
  text.remove_prefix(mark + 3);
  std::string_view host = take_until(text, '/');
  DatastoreSpec spec;
  if (!is_web) spec.container = take_until(host, '@');
  if (!read_host(host, spec)) return std::nullopt;
  if (is_web) spec.container = take_until(text, '/');
  if (!is_word_of(spec.container, "-._$")) return std::nullopt;
  spec.name = name_from(spec.account + "-" + spec.container);
  const auto found = std::ranges::find_if(known, [&](const DatastoreFile& file) {
    const bool is_blob = file.spec.type == DatastoreType::azure_blob ||
                         file.spec.type == DatastoreType::azure_data_lake_gen2;
    return is_blob && file.spec.account == spec.account && file.spec.container == spec.container &&
           file.spec.endpoint == spec.endpoint;
  });
  return PlaceInStore{found != known.end() ? found->spec : spec, percent_decoded(text)};
}

std::optional<PlaceInStore> in_bucket(std::string_view address,
                                      const std::vector<DatastoreFile>& known) {
  const bool is_s3 = address.starts_with("s3://");
  if (!is_s3 && !address.starts_with("gs://")) return std::nullopt;
  const std::string path = joined_path(percent_decoded(address.substr(5)));
  const std::string remote = is_s3 ? "s3" : "google cloud storage";
  for (const DatastoreFile& file : known) {
    const std::string begin = joined_path(file.spec.path);
    const bool is_same = file.spec.type == DatastoreType::rclone && file.spec.remote == remote;
    if (!is_same || !(path + "/").starts_with(begin.empty() ? "" : begin + "/")) continue;
    return PlaceInStore{file.spec, path.substr(std::min(path.size(), begin.size()))};
  }
  std::string_view rest = path;
  DatastoreSpec spec{name_from(take_until(rest, '/')), DatastoreType::rclone};
  spec.remote = remote;
  if (is_s3) spec.options = {{"provider", "AWS"}, {"env_auth", "false"}};
  if (!is_s3) spec.options = {{"anonymous", "true"}};
  return PlaceInStore{spec, path};
}

std::optional<PlaceInStore> on_web(std::string_view address) {
  if (!address.starts_with("https://") && !address.starts_with("http://")) return std::nullopt;
  const std::size_t slash = address.rfind('/');
  const std::size_t host = address.find("://") + 3;
  if (slash < host || slash + 1 == address.size()) return std::nullopt;
  DatastoreSpec spec{name_from(address.substr(host, address.find('/', host) - host)),
                     DatastoreType::rclone};
  spec.remote = "http";
  spec.options = {{"url", std::string(address.substr(0, slash + 1))}};
  return PlaceInStore{spec, percent_decoded(address.substr(slash + 1)), true};
}

// wasbs://, abfss://, https:// of Azure's blobs, s3://, gs://, other https:// (one file): a store
// that is known, or one without credentials. Nothing: it is none of these.
std::optional<PlaceInStore> at_address(std::string_view address,
                                       const std::vector<DatastoreFile>& known) {
  if (auto place = in_azure(address, known)) return place;
  if (auto place = in_bucket(address, known)) return place;
  return on_web(address);
}

// The text between `begin` and the end of that part, which is taken off with what is before it.
std::string part_after(std::string_view& text, std::string_view begin) {
  const std::size_t at = text.find(begin);
  if (at == text.npos) return {};
  text.remove_prefix(at + begin.size());
  return std::string(take_until(text, '/'));
}

// A path of a datastore: `azureml://…/datastores/D/paths/P` or an address.
Why find_place(const KnownStores& stores, std::string_view path, PlaceInStore& place) {
  if (may_hold_secret(path)) {
    return "an address with a query, a signature or a user is not taken, as job files are kept; "
           "create a datastore with 'sas_token' and name it: `muster datastore create -f FILE`";
  }
  if (!path.starts_with("azureml://")) {
    const auto addressed = at_address(path, stores.all());
    if (!addressed) return "the address " + quoted_text(path) + " is of no known kind";
    place = *addressed;
    return {};
  }
  const std::string name = part_after(path, "datastores/");
  const DatastoreFile* known = stores.find(name);
  if (known == nullptr) {
    std::vector<std::string> names;
    for (const DatastoreFile& file : stores.all()) names.push_back(file.spec.name);
    return "there is no datastore " + quoted_text(name) + "; " +
           did_you_mean(name, names, "`muster datastore create -f FILE` makes one");
  }
  if (!path.empty() && take_until(path, '/') != "paths") {
    return "expected azureml://datastores/" + name + "/paths/PATH";
  }
  place = {known->spec, std::string(path)};
  return {};
}

Why why_unsafe(const PlaceInStore& place) {
  const std::string path = joined_path(place.path);
  if (path.empty() || unsafe_path_reason(path).empty()) return {};
  return "the path " + quoted_text(place.path) + " " + unsafe_path_reason(path).substr(3);
}

Why in_store(const KnownStores& stores, InputSpec& input, std::optional<PlaceInStore>& place) {
  PlaceInStore found;
  if (Why why = find_place(stores, input.path, found); !why.empty()) return why;
  if (Why why = why_unsafe(found); !why.empty()) return why;
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

// azureml://jobs/J/outputs/O/paths/P and runs:/J/P.
Why of_job(const Home& home, InputSpec& input) {
  std::string_view rest = input.path;
  const bool is_run = rest.starts_with("runs:/");
  const std::string job = part_after(rest, is_run ? "runs:/" : "jobs/");
  const std::string output = is_run ? "" : part_after(rest, "outputs/");
  if (!is_run && rest.starts_with("paths/")) rest.remove_prefix(6);
  const std::string inside = joined_path(output, rest);
  for (const std::string& part : {job, inside}) {
    if (!unsafe_path_reason(part).empty()) return "expected azureml://jobs/JOB/outputs/OUTPUT";
  }
  const fs::path path = home.outputs(JobId{job}) / inside;
  if (real_files().kind_of(path.string()) == OnDisk::missing) {
    return "job " + quoted_text(job) + " has no output " + quoted_text(inside) + " on this machine";
  }
  input.path = path.string();
  input.path_kind = PathKind::local;
  return {};
}

// Either the input is local afterwards, or `place` is where its data are.
Why resolve_input(const KnownStores& stores, const Home& home, InputSpec& input,
                  std::optional<PlaceInStore>& place, int hops = 0) {
  if (input.path_kind == PathKind::datastore || input.path_kind == PathKind::http) {
    return in_store(stores, input, place);
  }
  if (input.path_kind == PathKind::job_output) return of_job(home, input);
  if (input.path_kind != PathKind::asset) return {};
  if (hops >= most_hops) return "data of the catalogue name other data of the catalogue";
  std::string_view rest = input.path;
  std::string name = part_after(rest, "/data/");
  std::string version;
  if (name.empty()) {
    std::tie(name, version) = split_reference(std::string_view(input.path).substr(8));
  } else {
    version = part_after(rest, "versions/");
  }
  const auto entry = Catalogue(home, Catalogue::Kind::data).find(name, version);
  if (!entry) return entry.error().message + "; `muster data create -f FILE` adds it";
  std::vector<Finding> ignored;
  const auto asset = read_resource(name, entry->text, {}, ignored,
                                   [](const Value& root) { return read_data_asset(root, {}); });
  if (!asset) return "data " + quoted_text(name) + " cannot be read";
  if (input.type == DataType::uri_folder) input.type = asset->type;
  input.path = asset->path;
  input.path_kind = asset->path_kind;
  if (input.path_kind == PathKind::local && real_files().kind_of(input.path) == OnDisk::missing) {
    return "data " + quoted_text(name) + ": " + input.path + " is not there";
  }
  return resolve_input(stores, home, input, place, hops + 1);
}

// `azureml://datastores/D/paths/…`, with the name of the default datastore filled in.
std::string output_path_of(const JobSpec& spec, const std::string& name, const OutputSpec& output,
                           const std::string& default_store) {
  if (!output.path.empty()) return replaced(output.path, "${{default_datastore}}", default_store);
  if (default_store.empty()) return {};
  return "azureml://datastores/" + default_store + "/paths/azureml/" + spec.name + "/" + name + "/";
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

Result<DatastoreFile> datastore_of_text(const std::string& name, std::string_view text) {
  std::vector<Finding> said;
  const auto file =
      read_resource(name, text, {}, said, [](const Value& root) { return read_datastore(root); });
  if (file && !has_errors(said) && !has_unresolved(said)) return *file;
  return Error{"datastore " + quoted_text(name) +
               " cannot be read: " + (said.empty() ? "it is empty" : said[0].message)};
}

KnownStores::KnownStores(const Home& home, std::vector<DatastoreFile> of_clusters,
                         std::string default_name)
    : home_(home), stores_(std::move(of_clusters)), default_name_(std::move(default_name)) {
  for (const CatalogueEntry& entry : Catalogue(home, Catalogue::Kind::datastore).newest()) {
    auto file = datastore_of_text(entry.name, entry.text);
    if (file && find(file->spec.name) == nullptr) stores_.push_back(std::move(*file));
  }
}

bool may_hold_secret(std::string_view address) {
  if (address.find('?') != address.npos) return true;
  const std::size_t host = address.find("://");
  if (!address.starts_with("http") || host == address.npos) return false;
  return address.substr(host + 3, address.find('/', host + 3) - host - 3).find('@') != address.npos;
}

const DatastoreFile* KnownStores::find(std::string_view name) const {
  const auto found = std::ranges::find_if(
      stores_, [name](const DatastoreFile& file) { return file.spec.name == name; });
  return found == stores_.end() ? nullptr : &*found;
}

Status KnownStores::keep_credentials(const DatastoreSpec& spec) const {
  const DatastoreFile* known = find(spec.name);
  // An address may have the name of a store and lead elsewhere.
  const bool is_it = known != nullptr && store_identity(known->spec) == store_identity(spec);
  if (!is_it) return save_secrets(home_.root, spec, {});
  Credentials credentials = known->credentials;
  if (const std::string& path = known->spec.credentials_file; !path.empty()) {
    const auto text = read_input(path, credentials_limit_bytes);
    if (!text) return text.error();
    std::vector<Finding> said;
    const auto read = read_resource(path, *text, {}, said, read_credentials_file);
    if (!read || has_errors(said)) {
      return Error{"cannot read " + path + ": " + (said.empty() ? "it is empty" : said[0].message)};
    }
    credentials = *read;
  }
  // Of a store of the catalogue they are there since it was created.
  return credentials.empty() ? Status(Done{}) : save_secrets(home_.root, spec, credentials);
}

ResolvedData resolve_data(JobFile& job, const KnownStores& stores, const Home& home) {
  ResolvedData resolved;
  const auto refuse = [&](const std::string& key, const std::string& why) {
    resolved.findings.push_back(finding_about(job, Severity::unresolved, key, key + ": " + why));
  };
  for (auto& [name, input] : job.spec.inputs) {
    if (input.is_literal || input.mode == InputMode::direct) continue;
    std::optional<PlaceInStore> place;
    InputSpec found = input;
    if (const Why why = resolve_input(stores, home, found, place); !why.empty()) {
      refuse("inputs." + name, why);
    } else if (place) {  // its path stays as its author wrote it
      input.type = found.type;
      const auto asked = job.spec.muster.other.find("data." + name);
      const bool is_asked = asked != job.spec.muster.other.end();
      const bool is_staged = place->is_file || input.mode == InputMode::download;
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
  for (auto& [name, output] : job.spec.outputs) {
    const std::string path = output_path_of(job.spec, name, output, stores.default_name());
    if (output.mode == OutputMode::direct || !is_in_store(path)) continue;
    PlaceInStore place;
    Why why = find_place(stores, path, place);
    const bool is_web = place.store.remote == "http";
    if (why.empty() && (is_web || place.store.type == DatastoreType::azure_file)) {
      why = "nothing can be written there: " + quoted_text(path);
    }
    if (why.empty()) why = why_unsafe(place);
    if (!why.empty()) refuse("outputs." + name, why);
    const bool is_local = why.empty() && place.store.type == DatastoreType::local;
    if (!is_local || output.mode != OutputMode::rw_mount || !output.asset_name.empty()) continue;
    // What all nodes see needs no copy.
    const std::string there = "/" + joined_path(place.store.path, place.path);
    std::error_code failure;
    if (fs::is_empty(there, failure) || failure) continue;
    output.path = there;
    output.path_kind = PathKind::local;
  }
  return resolved;
}

Status find_own_place(const JobSpec& spec, const KnownStores& stores, JobData& data) {
  if (stores.default_name().empty()) return Done{};
  const std::string uri = output_path_of(spec, "", {}, stores.default_name());
  if (Why why = find_place(stores, uri, data.own); !why.empty()) {
    return Error{"default_datastore: " + why};
  }
  if (data.own.store.type == DatastoreType::azure_file) {
    return Error{"default_datastore: nothing can be written to " + quoted_text(uri)};
  }
  for (const auto& [name, output] : spec.outputs) data.named.push_back(name);
  return stores.keep_credentials(data.own.store);
}

Result<FoundData> find_data(const KnownStores& stores, const Home& home, const std::string& text) {
  const bool is_name = !mentions(text, "://") && !text.starts_with("azureml:");
  const auto form = path_form(is_name ? "azureml:" + text : text);
  FoundData found{text};
  InputSpec input;
  if (form) std::tie(input.path_kind, input.path) = std::tie(form->kind, form->path);
  const bool is_data = form && input.path_kind != PathKind::local;
  if (is_data) {
    if (const Why why = resolve_input(stores, home, input, found.place); !why.empty()) {
      return Error{why};
    }
  }
  if (!is_data || (!found.place && input.path_kind != PathKind::local)) {
    return Error{quoted_text(text) + " names no data; expected NAME, NAME:VERSION or NAME@LABEL"};
  }
  if (!found.place) found.path = input.path;
  const Status kept = found.place ? stores.keep_credentials(found.place->store) : Status(Done{});
  if (!kept) return kept.error();
  return found;
}

std::vector<JobOutput> outputs_to_stores(const JobSpec& spec, const KnownStores& stores) {
  std::vector<JobOutput> all;
  for (const auto& [name, output] : spec.outputs) {
    if (output.mode == OutputMode::direct) continue;
    JobOutput one{name,
                  {},
                  output.asset_name,
                  output.asset_version,
                  output_path_of(spec, name, output, stores.default_name())};
    if (!is_in_store(one.uri)) one.uri.clear();
    const bool goes =
        one.uri.empty() ? !one.asset_name.empty() : find_place(stores, one.uri, one.place).empty();
    one.place.is_file = output.type == DataType::uri_file;
    if (goes) all.push_back(std::move(one));
  }
  return all;
}

Status find_content(const Home& home, const KnownStores& stores, const JobSpec& spec,
                    std::vector<JobOutput>& outputs) {
  for (JobOutput& output : outputs) {
    const OutputSpec& asked = spec.outputs.at(output.output);
    const bool is_own = asked.path.empty() || output.place.path.find('\x01') != std::string::npos;
    if (output.uri.empty() || is_own || asked.mode != OutputMode::rw_mount) continue;
    const std::string about = "outputs." + output.output + " (mode rw_mount): ";
    if (auto kept = stores.keep_credentials(output.place.store); !kept) return kept.error();
    const auto credentials = load_secrets(home.root, output.place.store);
    if (!credentials) return credentials.error();
    const auto found = list_place(output.place, *credentials, host_name(), true);
    if (!found) return Error{about + found.error().message};
    if (found->files.size() > content_limit_files) {
      return Error{about + "its path has " + std::to_string(found->files.size()) +
                   " files, and at most " + std::to_string(content_limit_files) +
                   " are brought to nodes; write `mode: upload`, and read them as an input"};
    }
    output.content_files = static_cast<std::int64_t>(found->files.size());
    output.content_bytes = found->bytes();
  }
  return Done{};
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

Status check_streamed(const Home& home, const JobId& job, std::span<const std::string> streamed) {
  const auto data = load_job_data(home.job(job));
  if (!data) return data.error();
  for (const JobInput& input : data->inputs) {
    if (std::ranges::find(streamed, input.input) == streamed.end()) continue;
    const auto credentials = load_secrets(home.root, input.place.store);
    if (!credentials) return credentials.error();
    const auto now = list_place(input.place, *credentials, host_name());
    const std::string about = "the data of input " + quoted_text(input.input);
    if (!now) return Error{"it is not known whether " + about + " changed: " + now.error().message};
    if (content_hash_of(data_manifest_text(*now)) != input.manifest) {
      return Error{about + " changed in the store while the job read them"};
    }
  }
  return Done{};
}

}  // namespace muster
