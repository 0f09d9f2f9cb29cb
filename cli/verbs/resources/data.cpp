// `muster data create|list|show|archive|restore`: data by name and version.
#include <sys/random.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/data/catalogue.h"
#include "cli/data/stores.h"
#include "cli/terminal/document.h"
#include "cli/terminal/files.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "launcher/data/secrets.h"
#include "launcher/data/upload.h"
#include "scheduler/model/names.h"
#include "scheduler/text/duration.h"
#include "templates/resource/data_asset.h"
#include "templates/yaml/reader.h"

namespace muster {

namespace {

struct DataOptions {
  std::string file;
  std::string name;  // NAME, NAME:VERSION, NAME@LABEL
  std::vector<std::string> sets;
  bool with_archived = false;
};

Catalogue data_catalogue(const Home& home) {
  return {home, Catalogue::Kind::data};
}

DataAsset asset_of(const std::string& path, std::string_view text, const ReadOptions& options,
                   std::vector<Finding>& said) {
  FindingList findings;
  DataAsset asset;
  const auto tree = parse_with_sets(path, text, options, findings);
  if (tree) asset = read_data_asset(Value(*tree, "", findings), options.files);
  said = findings.take_sorted();
  return asset;
}

Document asset_document(const CatalogueEntry& entry) {
  std::vector<Finding> ignored;
  const DataAsset asset = asset_of(entry.name, entry.text, {}, ignored);
  return Document{
      {"name", entry.name},
      {"version", entry.version},
      {"type", std::string(word(asset.type))},
      {"path", asset.path},
      {"description", asset.description},
      {"tags", asset.tags},
      {"created_at", value_or_null(std::optional<Time>(from_ms(entry.created_ns / 1'000'000)))},
      {"archived", entry.is_archived}};
}

std::string random_word() {
  std::array<unsigned char, 8> bytes{};
  check(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
        "no random bytes");
  std::string text;
  for (const unsigned char byte : bytes) {
    for (const int digit : {byte >> 4, byte & 15}) text += "0123456789abcdef"[digit];
  }
  return text;
}

// Data of this machine go to the default datastore, as on Azure ML; without one they are used where
// they are.
void upload_local(const Home& home, const CommonOptions& common, DataAsset& asset) {
  if (asset.path_kind != PathKind::local) return;
  const KnownTargets known = or_end(find_targets(common), invalid_file);
  const KnownStores stores(home, known.datastores, known.default_datastore);
  if (stores.default_name().empty()) return;
  const DatastoreFile* store = stores.find(stores.default_name());
  if (store == nullptr) {
    throw VerbEnd(invalid_file, "there is no datastore '" + stores.default_name() +
                                    "', which is the default one");
  }
  const std::string inside =
      "LocalUpload/" + random_word() + "/" + std::filesystem::path(asset.path).filename().string();
  const PlaceInStore place{store->spec, inside, asset.type == DataType::uri_file};
  or_end(stores.keep_credentials(store->spec));
  const Credentials credentials = or_end(load_secrets(home.root, store->spec));
  or_end(upload_tree(asset.path, place, credentials, "this machine"));
  asset.path = "azureml://datastores/" + store->spec.name + "/paths/" + inside;
  asset.path_kind = PathKind::datastore;
}

int print_asset(const CatalogueEntry& entry, const CommonOptions& common) {
  const Document shown = asset_document(entry);
  if (!wants_table(common)) return print_document(shown, common);
  std::string text;
  for (const auto& [key, value] : shown.items()) {
    text += key + ": " + (value.is_string() ? value.get<std::string>() : value.dump()) + "\n";
  }
  write_all(Stream::out, text);
  return 0;
}

int create_data(const DataOptions& options, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const std::string text = or_end(read_input(options.file, max_file_bytes), invalid_file);
  std::vector<Finding> said;
  DataAsset asset = asset_of(options.file, text, read_options(options.sets), said);
  print_findings(said, common);
  if (asset.name.empty() || asset.path.empty() || has_errors(said) || has_unresolved(said)) {
    throw VerbEnd(invalid_file, "");
  }
  if (may_hold_secret(asset.path)) {
    throw VerbEnd(invalid_file,
                  "path: an address with a query, a signature or a user is not kept; create a "
                  "datastore with 'sas_token' and name it");
  }
  or_end(own_home(home));
  const Catalogue catalogue = data_catalogue(home);
  const std::string version = std::exchange(asset.version, "");
  if (!version.empty() && catalogue.find(asset.name, version)) {
    throw VerbEnd(invalid_file, "data " + asset.name + ":" + version + " exists");
  }
  upload_local(home, common, asset);
  const auto given = version.empty() ? std::nullopt : std::optional(version);
  const std::string made =
      or_end(catalogue.add(asset.name, given, data_asset_text(asset)), invalid_file);
  return print_asset(or_end(catalogue.find(asset.name, made)), common);
}

int list_data(const DataOptions& options, const CommonOptions& common) {
  const Catalogue catalogue = data_catalogue(Home::from_environment());
  auto entries = options.name.empty() ? catalogue.newest() : catalogue.versions(options.name);
  if (!options.with_archived) std::erase_if(entries, [](auto& one) { return one.is_archived; });
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

int show_data(const DataOptions& options, const CommonOptions& common) {
  const auto [name, version] = split_reference(options.name);
  const Catalogue catalogue = data_catalogue(Home::from_environment());
  return print_asset(or_end(catalogue.find(name, version), plain_failure), common);
}

int set_archived(const DataOptions& options, bool archived) {
  const auto [name, version] = split_reference(options.name);
  const Catalogue catalogue = data_catalogue(Home::from_environment());
  or_end(catalogue.set_archived(name, version, archived), plain_failure);
  return 0;
}

void declare_reference(Arguments& of, DataOptions& options) {
  of.argument("NAME", options.name, "NAME, NAME:VERSION or NAME@latest");
}

}  // namespace

void add_data(CommandLine& line) {
  line.group({"data", "Data that jobs read by name and version"});
  line.verb_of<DataOptions>("data", {"create", "Register data; a version never changes"},
                            create_data, [](Arguments& of, DataOptions& options) {
                              of.option("-f,--file", options.file,
                                        "Data asset (YAML), - for standard input");
                              of.require("--file");
                              of.settings(options.sets, "Change one key of the file: a.b=value");
                            });
  line.verb_of<DataOptions>("data", {"list", "List data, or the versions of one name"}, list_data,
                            [](Arguments& of, DataOptions& options) {
                              of.option("-n,--name", options.name, "All versions of this one");
                              of.flag("--include-archived", options.with_archived,
                                      "Archived ones too");
                            });
  line.verb_of<DataOptions>("data", {"show", "Show one version"}, show_data, declare_reference);
  line.verb_of<DataOptions>(
      "data", {"archive", "Hide a version, or all of them, from lists and @latest"},
      [](const DataOptions& options, const CommonOptions&) { return set_archived(options, true); },
      declare_reference);
  line.verb_of<DataOptions>(
      "data", {"restore", "Undo archive"},
      [](const DataOptions& options, const CommonOptions&) { return set_archived(options, false); },
      declare_reference);
}

}  // namespace muster
