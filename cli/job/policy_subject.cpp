#include "cli/job/policy_subject.h"

#include <filesystem>

#include "cli/job/check.h"
#include "cli/job/find.h"
#include "cli/terminal/files.h"
#include "templates/cluster/file.h"

namespace muster {

namespace {

Result<std::vector<RestartRule>> rules_of_site(const CommonOptions& common) {
  auto known = find_targets(common);
  if (!known) return known.error();
  print_findings(known->findings, common);
  if (has_errors(known->findings)) return Error{"the cluster files have errors"};
  return std::move(known->rules);
}

std::vector<RestartRule> rules_of_cluster(const std::string& path, const std::string& text) {
  ReadOptions options;
  options.files = real_files();
  return read_cluster_file(path, text, options).rules;
}

}  // namespace

bool names_file(const std::string& typed) {
  std::error_code ignored;
  return typed.find('/') != typed.npos || typed.ends_with(".yml") || typed.ends_with(".yaml") ||
         std::filesystem::is_regular_file(typed, ignored);
}

Result<PolicySubject> policy_of_file(const std::string& file, const CommonOptions& common) {
  if (file.empty()) {
    auto site = rules_of_site(common);
    if (!site) return site.error();
    return PolicySubject{"the site", std::nullopt, std::move(*site)};
  }
  CheckRequest request;
  request.path = file;
  request.for_running = false;
  auto checked = check_job(request, common);
  if (!checked) return checked.error();
  print_findings(checked->file.findings, common);
  if (has_errors(checked->file.findings)) return Error{file + " has errors"};
  if (checked->file.kind == FileKind::cluster) {
    return PolicySubject{file, std::nullopt, rules_of_cluster(file, checked->text)};
  }
  if (checked->file.kind != FileKind::command) {
    return Error{file + " holds no restart rules: expected a command job or a cluster file"};
  }
  auto site = rules_of_site(common);
  if (!site) return site.error();
  return PolicySubject{file, checked->file.spec.muster.rules, std::move(*site)};
}

Result<PolicySubject> policy_of_job(const Home& home, const std::string& typed) {
  const auto found = open_job(home, typed);
  if (!found) return found.error();
  const auto records = found->store->records_of(found->id());
  if (!records) return records.error();
  for (const Record& record : *records) {
    const auto* observed = std::get_if<Observation>(&record.what);
    const auto* submitted = observed ? std::get_if<JobSubmitted>(observed) : nullptr;
    if (!submitted) continue;
    const MusterSettings& settings = submitted->spec.muster;
    return PolicySubject{found->row.name, settings.rules, settings.site_rules};
  }
  return Error{"the journal does not hold the submission of job " + found->row.name};
}

MusterSettings settings_of(const PolicySubject& subject) {
  MusterSettings settings;
  settings.rules = subject.job_rules.value_or(std::vector<RestartRule>{});
  settings.site_rules = subject.site_rules;
  return settings;
}

}  // namespace muster
