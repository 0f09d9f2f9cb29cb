#include "cli/job/check.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <tuple>

#include "cli/image/environment.h"
#include "cli/image/image.h"
#include "cli/job/memory.h"
#include "cli/job/plan.h"
#include "cli/terminal/files.h"
#include "cli/terminal/terminal.h"
#include "templates/cluster/target.h"
#include "templates/job/job_file.h"
#include "templates/yaml/reader.h"

namespace muster {

namespace {

void append(std::vector<Finding>& to, std::vector<Finding> from) {
  std::ranges::move(from, std::back_inserter(to));
}

void sort_by_place(std::vector<Finding>& findings) {
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.order, a.line, a.column) < std::tie(b.order, b.line, b.column);
  });
}

// What keeps the job from running here, beside what is wrong with its file.
std::vector<Finding> findings_for_running(CheckedJob& job, const Result<KnownTargets>& known) {
  std::vector<Finding> found;
  if (known) {
    job.images = known->images;
    found = resolve_environment(job.file, job.images, Home::from_environment());
    append(found, image_findings(job.file, job.images));
  }
  append(found, cannot_run_yet(job.file));
  if (!known) return found;
  ResolvedTarget resolved = resolve_target(job.file, known->targets, known->default_target);
  append(found, std::move(resolved.findings));
  if (resolved.target != nullptr) job.target = *resolved.target;
  job.file.spec.muster.site_rules = known->rules;
  const Home home = Home::from_environment();
  job.stores.emplace(home, known->datastores, known->default_datastore);
  ResolvedData data = resolve_data(job.file, *job.stores, home);
  append(found, std::move(data.findings));
  job.data = std::move(data.data);
  job.data.cache = known->data;
  if (job.target) append(found, gate_findings(job.file, *job.target));
  if (job.target) append(found, resume_findings(job.file, *job.target));
  if (job.target && !has_errors(job.file.findings)) {
    append(found, train_findings(job.file, *job.target));
  }
  return found;
}

// A value that could not be read says nothing more: only its error is shown.
std::vector<Finding> new_places(std::vector<Finding> found, const std::vector<Finding>& told) {
  const auto is_refused = [&](const Finding& each) {
    return std::any_of(told.begin(), told.end(), [&](const Finding& error) {
      return error.severity == Severity::error && error.key == each.key;
    });
  };
  std::erase_if(found, is_refused);
  return found;
}

}  // namespace

void require_runnable(const CheckedJob& job, const CommonOptions& common) {
  print_findings(job.file.findings, common);
  if (job.can_run) return;
  const bool is_cluster = job.file.kind == FileKind::cluster;
  throw VerbEnd(invalid_file,
                is_cluster ? "the file is a cluster, not a job; name it with --cluster" : "");
}

Result<CheckedJob> check_job(const CheckRequest& request, const CommonOptions& common) {
  auto text = read_input(request.path, max_file_bytes);
  if (!text) return text.error();
  CheckedJob job;
  std::vector<Finding> about_clusters;  // another file: after the job's own
  const std::string shown = request.path == "-" ? "<stdin>" : request.path;
  job.file = read_job_file(shown, *text, read_options(request.sets));
  job.text = std::move(*text);
  const bool is_command = job.file.kind == FileKind::command && job.file.tree != nullptr;
  if (request.for_running && is_command) {
    auto known = find_targets(common);
    if (!known && !has_errors(job.file.findings)) return known.error();
    append(job.file.findings, new_places(findings_for_running(job, known), job.file.findings));
    if (known) about_clusters = std::move(known->findings);
  }
  const bool is_fine = request.accept_resources && is_resource(job.file.kind);
  const bool other_job = !is_command && job.file.kind != FileKind::cluster && !is_fine;
  if (request.for_running && other_job) append(job.file.findings, cannot_run_yet(job.file));
  sort_by_place(job.file.findings);
  append(job.file.findings, std::move(about_clusters));
  const bool stopped = has_errors(job.file.findings) ||
                       (has_unresolved(job.file.findings) && !request.accept_unresolved);
  job.can_run = is_command && job.target.has_value() && !stopped;
  return job;
}

}  // namespace muster
