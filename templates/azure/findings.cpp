// What Azure ML's client refuses in a file that is right for muster.
#include <algorithm>

#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/azure/azure.h"
#include "templates/azure/dialect.h"
#include "templates/yaml/path_form.h"

namespace muster {
namespace {

class AzureCheck {
 public:
  explicit AzureCheck(const YamlNode& root) : root_(root) {}

  std::vector<Finding> findings() {
    walk(root_, {});
    check_environment();
    check_code();
    check_identity();
    check_distribution();
    for (const Entry& each : entries_of("inputs")) check_input(each);
    for (const Entry& each : entries_of("outputs")) check_output(each);
    for (const Entry& each : entries_of("services")) check_service(each);
    sort_findings(out_);
    return std::move(out_);
  }

 private:
  void refuse(const Place& place, const std::string& key, const std::string& message,
              const std::string& suggestion = "") {
    out_.push_back(
        finding_at(Severity::error, place, key, "Azure ML: " + key + ": " + message, suggestion));
  }

  const std::vector<Entry>& entries_of(const char* group) const {
    static const std::vector<Entry> none;
    const YamlNode* map = root_.find(group);
    return map ? map->entries : none;
  }

  void walk(const YamlNode& map, const KeyPath& path) {
    for (const Entry& entry : map.entries) {
      KeyPath below = path;
      below.push_back(entry.key);
      const std::string key = joined(below, ".");
      const AzurePlace* place = azure_place(below);
      const std::string expected = place ? azure_misfit(entry.value, *place) : "";
      if (!place) {
        refuse(entry.place, key, "there is no such key");
      } else if (!expected.empty()) {
        const bool is_open = expected == "text" && entry.value.kind == YamlNode::Kind::scalar;
        refuse(entry.value.place, key, "expected " + expected + ", got " + describe(entry.value),
               is_open ? "quote it" : "");
      } else if (!place->path.empty()) {
        walk(entry.value, below);
      }
    }
  }

  // `azureml:NAME` alone names nothing there.
  void check_version(const YamlNode& value, const std::string& key) {
    const std::string& text = value.text;
    if (!is_asset_reference(text) || text.find_first_of(":@", 8) != text.npos) return;
    refuse(value.place, key, quoted_text(text) + " has no version",
           "write " + text + ":VERSION or " + text + "@LABEL");
  }

  void check_environment() {
    const YamlNode* value = root_.find("environment");
    if (!value) {
      refuse(root_.place, "environment", "required", "write 'environment: {image: …}'");
    } else if (value->text == "azureml:host") {
      refuse(value->place, "environment", "there is no environment 'host'",
             "write 'environment: {image: …}' or azureml:NAME:VERSION");
    } else if (value->kind == YamlNode::Kind::map && !value->find("image") &&
               !value->find("build")) {
      refuse(value->place, "environment", "'image' or 'build' is required");
    } else {
      check_version(*value, "environment");
    }
  }

  void check_code() {
    const YamlNode* value = root_.find("code");
    if (!value) return;
    if (is_asset_reference(value->text)) {
      refuse(value->place, "code", "a code asset is named by its full id only", "name a directory");
    }
    if (value->text.starts_with("git")) {
      refuse(value->place, "code", "git is not taken by the present client", "name a directory");
    }
  }

  void check_identity() {
    const YamlNode* identity = root_.find("identity");
    const YamlNode* type = identity ? identity->find("type") : nullptr;
    if (identity && !type) refuse(identity->place, "identity", "'type' is required");
    if (!type || folded(type->text).starts_with("managed")) return;
    for (const char* key : {"client_id", "object_id", "msi_resource_id"}) {
      const YamlNode* value = identity->find(key);
      if (!value) continue;
      refuse(value->place, std::string("identity.") + key, "goes with type managed only");
    }
  }

  void check_distribution() {
    const YamlNode* spread = root_.find("distribution");
    const YamlNode* type = spread ? spread->find("type") : nullptr;
    const YamlNode* count = spread ? spread->find("worker_count") : nullptr;
    if (!type || !count || folded(type->text) == "tensorflow") return;
    refuse(count->place, "distribution.worker_count", "goes with type tensorflow only");
  }

  void check_name(const Entry& entry, const std::string& key) {
    const bool is_name =
        is_word_of(entry.key, "_") && !is_made_of(entry.key.substr(0, 1), "0123456789");
    if (!is_name) refuse(entry.place, key, "expected letters, digits and '_', a digit not first");
  }

  void check_input(const Entry& entry) {
    const std::string key = "inputs." + entry.key;
    check_name(entry, key);
    if (is_date_in_azure(entry.value)) {
      refuse(entry.value.place, key, "a date is no value", "quote it");
    }
    if (entry.value.kind != YamlNode::Kind::map) return;
    const YamlNode* path = entry.value.find("path");
    if (path) check_version(*path, key + ".path");
    if (!path && !entry.value.find("value")) refuse(entry.value.place, key, "'path' is required");
  }

  void check_output(const Entry& entry) {
    const std::string key = "outputs." + entry.key;
    check_name(entry, key);
    const YamlNode* version = entry.value.find("version");
    if (version && !entry.value.find("name")) {
      refuse(version->place, key + ".version", "goes with 'name' only");
    }
  }

  void check_service(const Entry& entry) {
    const std::string key = "services." + entry.key;
    const YamlNode* type = entry.value.find("type");
    const std::string word = type ? lower_case(type->text) : "";
    for (const auto& [name, owner] :
         {std::pair{"log_dir", "tensor_board"}, {"ssh_public_keys", "ssh"}}) {
      const YamlNode* value = entry.value.find(name);
      if (value && word != owner) {
        refuse(value->place, key + '.' + name, std::string("goes with type ") + owner + " only");
      }
    }
    const YamlNode* nodes = entry.value.find("nodes");
    if (nodes && nodes->text != "all") {
      refuse(nodes->place, key + ".nodes", "expected 'all', got " + describe(*nodes),
             "leave it out");
    }
  }

  const YamlNode& root_;
  std::vector<Finding> out_;
};

}  // namespace

std::vector<Finding> azure_refusals(const YamlNode& root, FileKind kind) {
  if (kind == FileKind::command) return AzureCheck(root).findings();
  const YamlNode* settings = root.find("muster");
  if (!settings) return {};
  return {finding_at(Severity::error, settings->place, "muster",
                     "Azure ML: muster: there is no such key")};
}

std::vector<Finding> azure_findings(const JobFile& job) {
  if (!job.tree || job.tree->kind != YamlNode::Kind::map) return {};
  std::vector<Finding> found = azure_refusals(*job.tree, job.kind);
  const std::vector<Finding> left = render_for_azure(job).findings;
  for (Finding& each : found) {
    const bool stays = std::ranges::any_of(
        left, [&](const Finding& other) { return other.message == each.message; });
    if (stays || !each.suggestion.empty()) continue;
    each.suggestion = "`muster job render --for azure` writes it as Azure ML takes it";
  }
  return found;
}

}  // namespace muster
