#include "templates/job/job_file.h"

#include "templates/yaml/node.h"

namespace muster {

namespace {

void fill_replaced(std::string& text, std::string_view placeholder, const std::string& name) {
  std::size_t at = 0;
  while ((at = text.find(placeholder, at)) != std::string::npos) {
    text.replace(at, placeholder.size(), name);
    at += name.size();
  }
}

}  // namespace

void give_name(JobSpec& spec, const std::string& name) {
  spec.name = name;
  for (auto& [key, output] : spec.outputs) fill_replaced(output.path, "\x01name\x02", name);
}

Finding finding_about(const JobFile& job, Severity severity, const std::string& key,
                      const std::string& message, const std::string& suggestion) {
  Place place;
  if (job.tree) {
    std::string nearest_key = key;
    const YamlNode* found = job.tree->find_path(nearest_key);
    if (!found) found = job.tree->find_path("properties." + key);
    if (!found && key == "muster.nodes.max") {
      found = job.tree->find_path("resources.max_instance_count");
    }
    while (!found) {
      const std::size_t dot = nearest_key.rfind('.');
      nearest_key.resize(dot == std::string::npos ? 0 : dot);
      found = job.tree->find_path(nearest_key);
    }
    place = found->place;
  }
  return finding_at(severity, place, key, message, suggestion);
}

}  // namespace muster
