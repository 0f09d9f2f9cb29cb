// `muster datastore create|list|show|update|delete`: stores that data are read from and written to.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/data/catalogue.h"
#include "cli/data/stores.h"
#include "cli/terminal/document.h"
#include "cli/terminal/files.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "launcher/data/secrets.h"
#include "scheduler/model/names.h"
#include "templates/yaml/reader.h"

namespace muster {

namespace {

struct DatastoreOptions {
  std::string file;
  std::string name;
  std::vector<std::string> sets;
};

Catalogue store_catalogue(const Home& home) {
  return {home, Catalogue::Kind::datastore};
}

KnownStores known_stores(const Home& home, const CommonOptions& common) {
  const KnownTargets known = or_end(find_targets(common), invalid_file);
  return {home, known.datastores, known.default_datastore};
}

DatastoreFile read_store(const DatastoreOptions& options, const CommonOptions& common) {
  const std::string text = or_end(read_input(options.file, max_file_bytes), invalid_file);
  FindingList findings;
  DatastoreFile file;
  const auto tree = parse_with_sets(options.file, text, read_options(options.sets), findings);
  if (tree) file = read_datastore(Value(*tree, "", findings));
  const auto said = findings.take_sorted();
  print_findings(said, common);
  if (!tree || has_errors(said) || has_unresolved(said)) throw VerbEnd(invalid_file, "");
  return file;
}

std::string place_text(const DatastoreSpec& spec) {
  if (spec.type == DatastoreType::local) return spec.path;
  if (spec.type == DatastoreType::rclone) return spec.remote + ":" + spec.path;
  return spec.account + "/" + spec.container;
}

// Names of what is secret, without it.
Document masked(const Credentials& credentials) {
  Document out = Document::object();
  for (const auto& [name, text] : credentials) out[name] = "***";
  return out;
}

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
  if (!credentials.empty()) out["credentials"] = masked(credentials);
  return out;
}

int print_store(const DatastoreFile& file, const Home& home, const CommonOptions& common) {
  const Document shown = store_document(file, home);
  if (!wants_table(common)) return print_document(shown, common);
  std::string text;
  for (const auto& [key, value] : shown.items()) {
    text += key + ": " + (value.is_string() ? value.get<std::string>() : value.dump()) + "\n";
  }
  write_all(Stream::out, text);
  return 0;
}

// Credentials first: a store that is known can be used.
int keep_store(const DatastoreOptions& options, bool is_new, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const DatastoreFile file = read_store(options, common);
  or_end(own_home(home));
  const Catalogue catalogue = store_catalogue(home);
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
  return print_store(file, home, common);
}

int create_store(const DatastoreOptions& options, const CommonOptions& common) {
  return keep_store(options, true, common);
}

int update_store(const DatastoreOptions& options, const CommonOptions& common) {
  return keep_store(options, false, common);
}

int list_stores(const DatastoreOptions&, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const KnownStores stores = known_stores(home, common);
  if (!wants_table(common)) {
    return print_document(
        list_of(stores.names(),
                [&](const std::string& name) { return store_document(*stores.find(name), home); }),
        common);
  }
  Table table({"NAME", "TYPE", "WHERE", ""});
  for (const std::string& name : stores.names()) {
    const DatastoreSpec& spec = stores.find(name)->spec;
    table.add({name, std::string(word(spec.type)), place_text(spec),
               name == stores.default_name() ? "default" : ""});
  }
  if (!table.empty()) write_all(Stream::out, table.text(common));
  return 0;
}

int show_store(const DatastoreOptions& options, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const KnownStores stores = known_stores(home, common);
  const DatastoreFile* file = stores.find(options.name);
  if (file == nullptr) {
    throw VerbEnd(plain_failure, or_end(store_catalogue(home).find(options.name, "")).name);
  }
  return print_store(*file, home, common);
}

int delete_store(const DatastoreOptions& options, const CommonOptions&) {
  const Home home = Home::from_environment();
  const Catalogue catalogue = store_catalogue(home);
  const auto versions = catalogue.versions(options.name);
  or_end(catalogue.remove(options.name), plain_failure);
  for (const CatalogueEntry& entry : versions) {
    if (const auto file = datastore_of_text(entry.name, entry.text)) {
      or_end(save_secrets(home.root, file->spec, {}));
    }
  }
  return 0;
}

void declare_file(Arguments& of, DatastoreOptions& options) {
  of.option("-f,--file", options.file, "Datastore (YAML), - for standard input");
  of.require("--file");
  of.settings(options.sets, "Change one key of the file: a.b=value");
}

void declare_name(Arguments& of, DatastoreOptions& options) {
  of.argument("NAME", options.name, "Name of a datastore");
}

}  // namespace

void add_datastore(CommandLine& line) {
  line.group({"datastore", "Stores that jobs read data from and write outputs to"});
  line.verb_of<DatastoreOptions>("datastore", {"create", "Add a datastore; its secrets are kept"},
                                 create_store, declare_file);
  line.verb_of<DatastoreOptions>("datastore", {"list", "List datastores"}, list_stores,
                                 [](Arguments&, DatastoreOptions&) {});
  line.verb_of<DatastoreOptions>("datastore", {"show", "Show one, without its secrets"}, show_store,
                                 declare_name);
  line.verb_of<DatastoreOptions>("datastore", {"update", "Replace a datastore or its secrets"},
                                 update_store, declare_file);
  line.verb_of<DatastoreOptions>("datastore", {"delete", "Forget one, with its secrets; data stay"},
                                 delete_store, declare_name);
}

}  // namespace muster
