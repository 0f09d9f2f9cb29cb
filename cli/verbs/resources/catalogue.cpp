// `muster datastore|data|environment …`: what this machine's catalogue has, with the verbs of `az
// ml`.
#include <sys/random.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/data/catalogue.h"
#include "cli/data/stores.h"
#include "cli/image/image.h"
#include "cli/terminal/document.h"
#include "cli/terminal/files.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "launcher/data/rclone.h"
#include "launcher/os/read_file.h"
#include "scheduler/model/names.h"
#include "scheduler/text/number.h"
#include "templates/parse_file.h"
#include "templates/yaml/reader.h"

namespace muster {

namespace {

using CatalogueKind = Catalogue::Kind;

struct ResourceOptions {
  std::string file;
  std::vector<std::string> sets;
  std::string name;  // of data: NAME, NAME:VERSION, NAME@LABEL
  std::optional<std::string> version;
  std::string label;
  bool with_archived = false;
  bool removes = false;
  std::string directory;
};

Catalogue catalogue_of(CatalogueKind kind) {
  return {Home::from_environment(), kind};
}

KnownStores known_stores(const Home& home, const CommonOptions& common) {
  const KnownTargets known = or_end(find_targets(common), invalid_file);
  return {home, known.datastores, known.default_datastore};
}

// What the file says; ends the verb where it is not fine.
template <class Read>
auto resource_in_file(const ResourceOptions& options, const CommonOptions& common, Read read) {
  const std::string text = or_end(read_input(options.file, max_file_bytes), invalid_file);
  std::vector<Finding> said;
  const ReadOptions how = read_options(options.sets);
  auto made = read_resource(options.file, text, how, said,
                            [&](const Value& root) { return read(root, how.files); });
  print_findings(said, common);
  if (!made || has_errors(said) || has_unresolved(said)) throw VerbEnd(invalid_file, "");
  return *made;
}

int print_resource(const Document& shown, const CommonOptions& common) {
  if (!wants_table(common)) return print_document(shown, common);
  std::string text;
  for (const auto& [key, value] : shown.items()) {
    text += key + ": " + (value.is_string() ? value.get<std::string>() : value.dump()) + "\n";
  }
  write_all(Stream::out, text);
  return 0;
}

std::vector<CatalogueEntry> listed_entries(CatalogueKind kind, const ResourceOptions& options) {
  const Catalogue catalogue = catalogue_of(kind);
  auto entries = options.name.empty() ? catalogue.newest() : catalogue.versions(options.name);
  if (!options.with_archived) std::erase_if(entries, [](auto& one) { return one.is_archived; });
  return entries;
}

// ---- datastores

Document store_document(const DatastoreFile& file, const Home& home) {
  const DatastoreSpec& spec = file.spec;
  Document out{{"name", spec.name}, {"type", std::string(word(spec.type))}};
  const auto put = [&out](const char* key, const std::string& text) {
    if (!text.empty()) out[key] = text;
  };
  put("description", spec.description);
  put("account_name", spec.account);
  put("container_name", spec.container);
  if (!spec.account.empty()) put("endpoint", spec.endpoint);
  put("remote", spec.remote);
  if (!spec.options.empty()) out["options"] = spec.options;
  put("path", spec.path);
  put("credentials_file", spec.credentials_file);
  const auto kept = load_secrets(home.root, spec);
  const auto& credentials = file.credentials.empty() && kept ? *kept : file.credentials;
  for (const auto& [name, text] : credentials) out["credentials"][name] = "***";
  return out;
}

// Credentials first: a store that is known can be used.
template <bool is_new>
int keep_store(const ResourceOptions& options, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const auto file = resource_in_file(
      options, common, [](const Value& root, const FileView&) { return read_datastore(root); });
  or_end(own_home(home));
  const Catalogue catalogue(home, CatalogueKind::datastore);
  const bool is_there = !catalogue.versions(file.spec.name).empty();
  if (is_there == is_new) {
    throw VerbEnd(invalid_file,
                  "datastore " + file.spec.name +
                      (is_new ? " exists; `muster datastore update` changes it"
                              : " does not exist; `muster datastore create` makes it"));
  }
  // A file without any changes none: what they are for is what is updated.
  if (is_new || !file.credentials.empty()) {
    or_end(save_secrets(home.root, file.spec, file.credentials));
  }
  const auto version = is_new ? std::optional<std::string>("1") : std::nullopt;
  or_end(catalogue.add(file.spec.name, version, datastore_text(file.spec)));
  return print_resource(store_document(file, home), common);
}

int list_stores(const ResourceOptions&, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const KnownStores stores = known_stores(home, common);
  if (!wants_table(common)) {
    const auto document = [&](const DatastoreFile& file) { return store_document(file, home); };
    return print_document(list_of(stores.all(), document), common);
  }
  Table table({"NAME", "TYPE", "WHERE", ""});
  for (const auto& [spec, credentials] : stores.all()) {
    const std::string place = spec.type == DatastoreType::local ? spec.path
                              : spec.type == DatastoreType::rclone
                                  ? spec.remote + ":" + spec.path
                                  : spec.account + "/" + spec.container;
    table.add({spec.name, std::string(word(spec.type)), place,
               spec.name == stores.default_name() ? "default" : ""});
  }
  if (!table.empty()) write_all(Stream::out, table.text(common));
  return 0;
}

int show_store(const ResourceOptions& options, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const KnownStores stores = known_stores(home, common);
  const DatastoreFile* file = stores.find(options.name);
  if (file != nullptr) return print_resource(store_document(*file, home), common);
  throw VerbEnd(
      plain_failure,
      or_end(catalogue_of(CatalogueKind::datastore).find(options.name, ""), plain_failure).name);
}

int delete_store(const ResourceOptions& options, const CommonOptions&) {
  const Home home = Home::from_environment();
  const Catalogue catalogue(home, CatalogueKind::datastore);
  const auto versions = catalogue.versions(options.name);
  or_end(catalogue.remove(options.name), plain_failure);
  for (const CatalogueEntry& entry : versions) {
    if (const auto file = datastore_of_text(entry.name, entry.text)) {
      or_end(save_secrets(home.root, file->spec, {}));
    }
  }
  return 0;
}

// ---- data

Document asset_document(const CatalogueEntry& entry) {
  std::vector<Finding> ignored;
  const DataAsset asset = read_resource(entry.name, entry.text, {}, ignored, [](const Value& root) {
                            return read_data_asset(root, {});
                          }).value_or(DataAsset{});
  return Document{
      {"name", entry.name},
      {"version", entry.version},
      {"type", std::string(word(asset.type))},
      {"path", asset.path},
      {"description", asset.description},
      {"tags", asset.tags},
      {"created_at", value_or_null(std::optional<Time>(from_ms(entry.created_ns / 1'000'000)))},
      {"archived", entry.is_archived},
      {"labels", catalogue_of(CatalogueKind::data).labels(entry)}};
}

// Data of this machine go to the default datastore, as on Azure ML; without one they are used where
// they are.
void upload_local(const Home& home, const CommonOptions& common, DataAsset& asset) {
  if (asset.path_kind != PathKind::local) return;
  std::error_code failure;
  const std::filesystem::path source = std::filesystem::canonical(asset.path, failure);
  const bool is_file = std::filesystem::is_regular_file(source, failure);
  if (!is_file && !std::filesystem::is_directory(source, failure)) {
    throw VerbEnd(invalid_file, "path: " + quoted_text(asset.path) + " is no file or directory");
  }
  const KnownStores stores = known_stores(home, common);
  if (stores.default_name().empty()) return;
  const DatastoreFile* store = stores.find(stores.default_name());
  if (store == nullptr) {
    throw VerbEnd(invalid_file, "there is no datastore '" + stores.default_name() +
                                    "', which is the default one");
  }
  unsigned long long random = 0;
  check(::getrandom(&random, sizeof random, 0) == ssize_t{sizeof random}, "no random bytes");
  const std::string inside = "LocalUpload/" + printed("%016llx", random) + "/" +
                             std::filesystem::path(asset.path).filename().string();
  const PlaceInStore place{store->spec, inside, asset.type == DataType::uri_file};
  or_end(stores.keep_credentials(store->spec));
  const Credentials credentials = or_end(load_secrets(home.root, store->spec));
  or_end(upload_tree(source, place, credentials, "this machine"));
  asset.path = "azureml://datastores/" + store->spec.name + "/paths/" + inside;
  asset.path_kind = PathKind::datastore;
}

int create_data(const ResourceOptions& options, const CommonOptions& common) {
  const Home home = Home::from_environment();
  DataAsset asset = resource_in_file(options, common, read_data_asset);
  if (asset.name.empty() || asset.path.empty()) throw VerbEnd(invalid_file, "");
  if (may_hold_secret(asset.path)) {
    throw VerbEnd(invalid_file,
                  "path: an address with a query, a signature or a user is not kept; create a "
                  "datastore with 'sas_token' and name it");
  }
  or_end(own_home(home));
  const Catalogue catalogue(home, CatalogueKind::data);
  const std::string version = std::exchange(asset.version, "");
  if (!version.empty() && catalogue.find(asset.name, version)) {
    throw VerbEnd(invalid_file, "data " + asset.name + ":" + version + " exists");
  }
  upload_local(home, common, asset);
  const auto given = version.empty() ? std::nullopt : std::optional(version);
  const std::string made =
      or_end(catalogue.add(asset.name, given, data_asset_text(asset)), invalid_file);
  return print_resource(asset_document(or_end(catalogue.find(asset.name, made))), common);
}

int list_data(const ResourceOptions& options, const CommonOptions& common) {
  const auto entries = listed_entries(CatalogueKind::data, options);
  if (!wants_table(common)) return print_document(list_of(entries, asset_document), common);
  Table table({"NAME", "VERSION", "TYPE", "PATH"});
  for (const CatalogueEntry& entry : entries) {
    const Document shown = asset_document(entry);
    table.add({entry.name, entry.version, shown["type"].get<std::string>(),
               shown["path"].get<std::string>()});
  }
  if (!table.empty()) write_all(Stream::out, table.text(common));
  return 0;
}

int show_data(const ResourceOptions& options, const CommonOptions& common) {
  const auto [name, version] = split_reference(options.name);
  const auto entry = or_end(catalogue_of(CatalogueKind::data).find(name, version), plain_failure);
  return print_resource(asset_document(entry), common);
}

int mount_data(const ResourceOptions& options, const CommonOptions& common) {
  const Home home = Home::from_environment();
  or_end(own_home(home));
  const auto data =
      or_end(find_data(known_stores(home, common), home, options.name), plain_failure);
  const auto tell = [&](std::string_view said) { notice(said, common); };
  or_end(mount_until_signal(home, data, options.directory, tell), plain_failure);
  return 0;
}

// ---- environments

Document environment_document(const CatalogueEntry& entry) {
  const JobFile file = read_job_file(entry.name + ".yml", entry.text, read_options({}));
  const EnvironmentSpec& spec = file.spec.environment;
  Document out{{"name", entry.name},
               {"version", entry.version},
               {"archived", entry.is_archived},
               {"labels", catalogue_of(CatalogueKind::environment).labels(entry)}};
  if (!spec.image.empty()) out["image"] = spec.image;
  if (!spec.build_path.empty()) {
    out["build"] = {{"path", spec.build_path}, {"dockerfile_path", spec.dockerfile_path}};
  }
  if (!spec.conda_file.empty()) out["conda_file"] = spec.conda_file;
  return out;
}

std::string text_in(const JobFile& file, const char* key) {
  const YamlNode* node = file.tree->find(key);
  return node && node->kind == YamlNode::Kind::scalar ? node->text : "";
}

int create_environment(const ResourceOptions& options, const CommonOptions& common) {
  const std::string text = or_end(read_input(options.file, max_file_bytes), invalid_file);
  JobFile file = read_job_file(options.file, text, read_options(options.sets));
  print_findings(file.findings, common);
  const bool is_environment = file.kind == FileKind::environment && file.tree;
  if (has_errors(file.findings)) return invalid_file;
  if (!is_environment) throw VerbEnd(invalid_file, options.file + " is not an environment's file");
  std::string& conda = file.spec.environment.conda_file;
  if (conda.starts_with('/')) conda = text_of_file(conda);  // it may change; a version does not
  const std::string name = options.name.empty() ? text_in(file, "name") : options.name;
  std::optional<std::string> version = options.version;
  if (const std::string own = text_in(file, "version"); !version && !own.empty()) version = own;
  const Catalogue catalogue = catalogue_of(CatalogueKind::environment);
  const auto added = or_end(catalogue.add(name, version, environment_text(file)), invalid_file);
  const auto entry = or_end(catalogue.find(name, added));
  if (!wants_table(common)) return print_document(environment_document(entry), common);
  write_all(Stream::out, "environment " + name + ":" + added + "\n");
  return 0;
}

int show_environment(const ResourceOptions& options, const CommonOptions& common) {
  const std::string which =
      options.label.empty() ? options.version.value_or("") : "@" + options.label;
  const auto entry =
      or_end(catalogue_of(CatalogueKind::environment).find(options.name, which), plain_failure);
  if (!wants_table(common)) return print_document(environment_document(entry), common);
  write_all(Stream::out, entry.text);
  return 0;
}

int list_environments(const ResourceOptions& options, const CommonOptions& common) {
  const auto entries = listed_entries(CatalogueKind::environment, options);
  if (!wants_table(common)) return print_document(list_of(entries, environment_document), common);
  Table table({"NAME", "VERSION", "ARCHIVED"});
  for (const CatalogueEntry& entry : entries) {
    table.add({entry.name, entry.version, entry.is_archived ? "yes" : ""});
  }
  write_all(Stream::out, table.text(common));
  return 0;
}

// ---- their arguments

std::pair<std::string, std::string> version_meant(CatalogueKind kind,
                                                  const ResourceOptions& options) {
  if (kind == CatalogueKind::data) return split_reference(options.name);
  return {options.name, options.version.value_or("")};
}

int set_label(CatalogueKind kind, const ResourceOptions& options) {
  const auto [name, version] = version_meant(kind, options);
  if (!options.removes && version.empty())
    throw VerbEnd(usage_error, "which version of " + name + "?");
  or_end(catalogue_of(kind).set_label(name, options.removes ? "" : version, options.label),
         plain_failure);
  return 0;
}

void declare_file(Arguments& of, ResourceOptions& options, const std::string& what,
                  bool several = false) {
  of.option("-f,--file", options.file, what + " (YAML), - for standard input");
  of.require("--file");
  of.settings(
      options.sets,
      several ? "Change keys of the file: a.b=value …" : "Change one key of the file: a.b=value",
      several);
}

void declare_store_file(Arguments& of, ResourceOptions& options) {
  declare_file(of, options, "Datastore");
}

void declare_store_name(Arguments& of, ResourceOptions& options) {
  of.argument("NAME", options.name, "Name of a datastore");
}

void declare_reference(Arguments& of, ResourceOptions& options) {
  of.argument("NAME", options.name, "NAME, NAME:VERSION or NAME@LABEL");
}

void declare_listed(Arguments& of, ResourceOptions& options) {
  of.option("-n,--name", options.name, "All versions of this one");
  of.flag("--include-archived", options.with_archived, "Archived ones too");
}

void declare_environment(Arguments& of, ResourceOptions& options, const char* no_version) {
  of.option("-n,--name", options.name, "Name of the environment");
  of.require("--name");
  of.option("-v,--version", options.version, std::string("Version; without it ") + no_version);
}

template <class Declare>
void add_label_archive_restore(CommandLine& line, const std::string& group, CatalogueKind kind,
                               const char* archiving, const char* restoring, Declare declare) {
  line.verb_of<ResourceOptions>(
      group, {"label", "Let a label stand for a version: jobs name it by NAME@LABEL"},
      [=](const ResourceOptions& options, const CommonOptions&) {
        return set_label(kind, options);
      },
      [=](Arguments& of, ResourceOptions& options) {
        const char* what = "Letters, digits, '_', '-' and '.'; not latest";
        if (kind == CatalogueKind::data) {
          declare_reference(of, options);
          of.argument("LABEL", options.label, what);
        } else {
          declare_environment(of, options, "--remove is needed");
          of.option("-l,--label", options.label, what);
          of.require("--label");
        }
        of.flag("--remove", options.removes, "The label stands for no version any more");
      });
  for (const bool archived : {true, false}) {
    line.verb_of<ResourceOptions>(
        group, {archived ? "archive" : "restore", archived ? archiving : restoring},
        [=](const ResourceOptions& options, const CommonOptions&) {
          const auto [name, version] = version_meant(kind, options);
          or_end(catalogue_of(kind).set_archived(name, version, archived), plain_failure);
          return 0;
        },
        declare);
  }
}

}  // namespace

void add_datastore(CommandLine& line) {
  using Options = ResourceOptions;
  const char* group = "datastore";
  line.group({group, "Stores that jobs read data from and write outputs to"});
  line.verb_of<Options>(group, {"create", "Add a datastore; its secrets are kept"},
                        keep_store<true>, declare_store_file);
  line.verb_of<Options>(group, {"list", "List datastores"}, list_stores,
                        [](Arguments&, Options&) {});
  line.verb_of<Options>(group, {"show", "Show one, without its secrets"}, show_store,
                        declare_store_name);
  line.verb_of<Options>(group, {"update", "Replace a datastore or its secrets"}, keep_store<false>,
                        declare_store_file);
  line.verb_of<Options>(group, {"delete", "Forget one, with its secrets; data stay"}, delete_store,
                        declare_store_name);
}

void add_data(CommandLine& line) {
  using Options = ResourceOptions;
  const char* group = "data";
  line.group({group, "Data that jobs read by name and version"});
  line.verb_of<Options>(
      group, {"create", "Register data; a version never changes"}, create_data,
      [](Arguments& of, Options& options) { declare_file(of, options, "Data asset"); });
  line.verb_of<Options>(group, {"list", "List data, or the versions of one name"}, list_data,
                        declare_listed);
  line.verb_of<Options>(group, {"show", "Show one version"}, show_data, declare_reference);
  line.verb_of<Options>(
      group, {"mount", "Show data in a directory of this machine, read-only, until Ctrl-C"},
      mount_data, [](Arguments& of, Options& options) {
        of.argument("NAME", options.name,
                    "NAME, NAME:VERSION, NAME@LABEL, or a path as inputs of jobs have it");
        of.argument("DIR", options.directory, "Directory: empty, or not there yet");
      });
  add_label_archive_restore(line, group, CatalogueKind::data,
                            "Hide a version, or all of them, from lists and @latest",
                            "Undo archive", declare_reference);
}

void add_environment(CommandLine& line) {
  using Options = ResourceOptions;
  const char* group = "environment";
  line.group({group, "Environments that jobs name"});
  line.verb_of<Options>(group, {"create", "Keep a version of an environment"}, create_environment,
                        [](Arguments& of, Options& options) {
                          declare_file(of, options, "Environment file", true);
                          of.option("-n,--name", options.name, "Name, instead of the file's");
                          of.option("-v,--version", options.version,
                                    "Version, instead of the file's");
                        });
  line.verb_of<Options>(group, {"list", "List environments, or the versions of one"},
                        list_environments, declare_listed);
  line.verb_of<Options>(group, {"show", "Show a version of an environment"}, show_environment,
                        [](Arguments& of, Options& options) {
                          declare_environment(of, options, "the newest");
                          of.option("-l,--label", options.label, "Label, as latest");
                        });
  add_label_archive_restore(
      line, group, CatalogueKind::environment, "Hide versions of an environment",
      "Show archived versions again",
      [](Arguments& of, Options& options) { declare_environment(of, options, "all"); });
}

}  // namespace muster
