#include "cli/image/environment.h"

#include "cli/client/targets.h"
#include "cli/data/catalogue.h"
#include "scheduler/text/pattern.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"
#include "templates/parse_file.h"
#include "templates/yaml/node.h"

namespace muster {

namespace {

constexpr std::string_view host_word = "host";
constexpr const char* host_reference = "azureml:host";
constexpr std::string_view curated_prefix = "AzureML-";

// What stands behind "/key/" in an address; empty: it has no such part.
std::string part_behind(std::string_view address, const std::string& key) {
  const std::size_t at = address.find("/" + key + "/");
  if (at == address.npos) return {};
  const std::string_view rest = address.substr(at + key.size() + 2);
  return std::string(rest.substr(0, rest.find('/')));
}

std::string by_cluster_file(const EnvironmentName& name, const ImageSettings& images) {
  const auto& known = images.environments;
  for (const std::string& key : {name.name + ":" + name.version, name.name}) {
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  for (const auto& [pattern, image] : known) {
    if (fits_pattern(pattern, name.name)) return image;
  }
  return {};
}

EnvironmentSpec by_catalogue(const EnvironmentName& name, const Home& home) {
  const Catalogue catalogue(home, Catalogue::Kind::environment);
  const auto entry = catalogue.find(name.name, name.version);
  if (!entry) return {};
  return read_job_file(name.name + ".yml", entry->text, read_options({})).spec.environment;
}

bool is_something(const EnvironmentSpec& environment) {
  return !environment.image.empty() || !environment.build_path.empty();
}

}  // namespace

EnvironmentName environment_name(std::string_view reference) {
  if (mentions(reference, "/environments/")) {
    EnvironmentName name{part_behind(reference, "environments"), part_behind(reference, "versions"),
                         part_behind(reference, "registries")};
    const std::string label = part_behind(reference, "labels");
    if (name.version.empty() && !label.empty()) name.version = "@" + label;
    return name;
  }
  if (reference.starts_with("azureml:"))
    reference.remove_prefix(std::string_view("azureml:").size());
  auto [name, version] = split_reference(reference);
  return {std::move(name), std::move(version)};
}

std::string curated_image(const EnvironmentName& name) {
  std::string_view plain = name.name;
  const bool is_marked = plain.starts_with(curated_prefix);
  if (is_marked) plain.remove_prefix(curated_prefix.size());
  if ((!is_marked && name.registry != "azureml") || plain.empty()) return {};
  const bool is_number = is_made_of(name.version, "0123456789");
  return "mcr.microsoft.com/azureml/curated/" + lower_case(plain) + ":" +
         (is_number ? name.version : "latest");
}

std::vector<Finding> resolve_environment(JobFile& job, const ImageSettings& images,
                                         const Home& home) {
  EnvironmentSpec& environment = job.spec.environment;
  const std::string reference = environment.reference;
  if (reference.empty() || reference == host_reference) return {};
  const EnvironmentName name = environment_name(reference);
  std::string image = by_cluster_file(name, images);
  EnvironmentSpec kept;
  if (image.empty() && name.registry.empty()) kept = by_catalogue(name, home);
  if (image.empty() && !is_something(kept)) image = curated_image(name);
  if (image == host_word) {
    environment.reference = host_reference;
  } else if (!image.empty()) {
    environment.image = image;
  } else if (is_something(kept)) {
    environment = kept;
    environment.reference = reference;
  } else if (images.refuses_unknown_environments) {
    return {finding_about(job, Severity::error, "environment",
                          "environment: there is no environment " + quoted_text(reference) +
                              "; name its image in 'environments' of the cluster file, or add it "
                              "with `muster environment create`")};
  }
  return {};
}

std::string environment_text(const JobFile& file) {
  YamlNode tree = *file.tree;
  const EnvironmentSpec& environment = file.spec.environment;
  if (YamlNode* conda = tree.find("conda_file"); conda && conda->kind == YamlNode::Kind::scalar) {
    *conda = scalar_node(environment.conda_file, conda->place, true);
  }
  YamlNode* build = tree.find("build");
  for (const char* key : {"path", "local_path"}) {
    YamlNode* path = build ? build->find(key) : nullptr;
    if (path) *path = scalar_node(environment.build_path, path->place, true);
  }
  return write_yaml(tree);
}

}  // namespace muster
