// The keys every kind of job has.
#include "templates/job/command_job.h"
#include "templates/spelling.h"

namespace muster {
namespace {

bool is_job_name(std::string_view name) {
  const auto alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (name.empty() || name.size() > 255 || !alphanumeric(name.front())) return false;
  for (const char letter : name) {
    if (!alphanumeric(letter) && letter != '_' && letter != '-') return false;
  }
  return true;
}

void store(std::string& field, const Value& value) {
  if (const auto text = value.text()) field = *text;
}

}  // namespace

void check_name(const Value& value) {
  if (!value.is_scalar()) return;
  const std::string& name = value.node().text;
  if (is_placeholder(name)) {
    value.unresolved(quoted_text(name) + " is a placeholder; fill in the name");
  } else if (!is_job_name(name)) {
    value.error(
        "expected letters, digits, '_' and '-', beginning with a letter or digit, at most "
        "255, got " +
        quoted_text(name));
  }
}

void read_base_keys(MapReader& job, JobSpec& spec) {
  const Value name = job.take("name");
  store(spec.name, name);
  check_name(name);
  store(spec.display_name, job.take("display_name"));
  store(spec.description, job.take("description"));
  store(spec.experiment_name, job.take("experiment_name"));
  if (const auto parent = job.take("parent_job_name").text()) {
    spec.recorded["parent_job_name"] = *parent;
  }
  spec.tags = job.take("tags").text_map();
  spec.properties = job.take("properties").text_map();
  job.ignore({"id", "status", "creation_context", "log_files", "parameters"},
             "written by Azure ML when it shows a job; ignored");
}

}  // namespace muster
