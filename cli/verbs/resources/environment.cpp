// `muster environment …`: environments that jobs name, with the verbs of `az ml environment`. Kept
// on this machine, each version as it was given.
#include <ctime>
#include <nlohmann/json.hpp>

#include "cli/client/targets.h"
#include "cli/data/catalogue.h"
#include "cli/image/image.h"
#include "cli/terminal/document.h"
#include "cli/terminal/files.h"
#include "cli/terminal/table.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "launcher/os/read_file.h"
#include "templates/parse_file.h"
#include "templates/yaml/reader.h"

namespace muster {

namespace {

constexpr const char* environment_group = "environment";

Catalogue environments() {
  return {Home::from_environment(), Catalogue::Kind::environment};
}

struct CreateEnvironment {
  std::string file;
  std::vector<std::string> sets;
  std::string name;
  std::optional<std::string> version;
};

Document environment_document(const CatalogueEntry& entry) {
  const JobFile file = read_job_file(entry.name + ".yml", entry.text, read_options({}));
  const EnvironmentSpec& spec = file.spec.environment;
  Document out{{"name", entry.name}, {"version", entry.version}, {"archived", entry.is_archived}};
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

int create_environment(const CreateEnvironment& options, const CommonOptions& common) {
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
  const auto added =
      or_end(environments().add(name, version, environment_text(file)), invalid_file);
  const auto entry = or_end(environments().find(name, added));
  if (!wants_table(common)) return print_document(environment_document(entry), common);
  write_all(Stream::out, "environment " + name + ":" + added + "\n");
  return 0;
}

struct NamedEnvironment {
  std::string name;
  std::string version;
  std::string label;
};

void declare_environment(Arguments& of, NamedEnvironment& options) {
  of.option("-n,--name", options.name, "Name of the environment");
  of.require("--name");
  of.option("-v,--version", options.version, "Version; without it the newest");
}

int show_environment(const NamedEnvironment& options, const CommonOptions& common) {
  const std::string which = options.label.empty() ? options.version : "@" + options.label;
  const auto entry = or_end(environments().find(options.name, which));
  if (!wants_table(common)) return print_document(environment_document(entry), common);
  write_all(Stream::out, entry.text);
  return 0;
}

struct ListEnvironments {
  std::string name;
  bool archived_too = false;
};

int list_environments(const ListEnvironments& options, const CommonOptions& common) {
  const Catalogue catalogue = environments();
  auto entries = options.name.empty() ? catalogue.newest() : catalogue.versions(options.name);
  std::erase_if(entries, [&](const CatalogueEntry& entry) {
    return entry.is_archived && !options.archived_too;
  });
  if (!wants_table(common)) return print_document(list_of(entries, environment_document), common);
  Table table({"NAME", "VERSION", "ARCHIVED"});
  for (const CatalogueEntry& entry : entries) {
    table.add({entry.name, entry.version, entry.is_archived ? "yes" : ""});
  }
  write_all(Stream::out, table.text(common));
  return 0;
}

void add_archiving_of_environments(CommandLine& line, const char* verb, const char* summary,
                                   bool archived) {
  line.verb_of<NamedEnvironment>(
      environment_group, {verb, summary},
      [archived](const NamedEnvironment& options, const CommonOptions&) {
        or_end(environments().set_archived(options.name, options.version, archived));
        return 0;
      },
      [](Arguments& of, NamedEnvironment& options) {
        of.option("-n,--name", options.name, "Name of the environment");
        of.require("--name");
        of.option("-v,--version", options.version, "Version; without it all");
      });
}

}  // namespace

void add_environment(CommandLine& line) {
  line.group({environment_group, "Environments that jobs name"});
  line.verb_of<CreateEnvironment>(
      environment_group, {"create", "Keep a version of an environment"}, create_environment,
      [](Arguments& of, CreateEnvironment& options) {
        of.option("-f,--file", options.file, "Environment file (YAML), - for standard input");
        of.require("--file");
        of.settings(options.sets, "Change keys of the file: a.b=value …", true);
        of.option("-n,--name", options.name, "Name, instead of the file's");
        of.option("-v,--version", options.version, "Version, instead of the file's");
      });
  line.verb_of<ListEnvironments>(
      environment_group, {"list", "List environments, or the versions of one"}, list_environments,
      [](Arguments& of, ListEnvironments& options) {
        of.option("-n,--name", options.name, "All versions of this one");
        of.flag("--include-archived", options.archived_too, "Archived ones too");
      });
  line.verb_of<NamedEnvironment>(environment_group, {"show", "Show a version of an environment"},
                                 show_environment, [](Arguments& of, NamedEnvironment& options) {
                                   declare_environment(of, options);
                                   of.option("-l,--label", options.label, "Label, as latest");
                                 });
  add_archiving_of_environments(line, "archive", "Hide versions of an environment", true);
  add_archiving_of_environments(line, "restore", "Show archived versions again", false);
}

}  // namespace muster
