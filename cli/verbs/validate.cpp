// `muster validate FILE…`: every finding of every file; nothing is queued, started or written.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/job/submission.h"
#include "cli/terminal/document.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "templates/azure/azure.h"
#include "templates/cluster/file.h"
#include "templates/yaml/node.h"

namespace muster {

namespace {

Document finding_document(const Finding& finding) {
  return Document{{"severity", severity_name(finding.severity)},
                  {"file", finding.file},
                  {"line", finding.line},
                  {"column", finding.column},
                  {"key", finding.key},
                  {"message", finding.message},
                  {"suggestion", finding.suggestion}};
}

Document file_document(const std::string& path, const CheckedJob& job, bool valid) {
  return Document{{"file", path},
                  {"kind", file_kind_name(job.file.kind)},
                  {"valid", valid},
                  {"findings", list_of(job.file.findings, finding_document)}};
}

// Each in its place among the others.
void add_azure_findings(JobFile& file) {
  for (Finding& finding : azure_findings(file)) {
    const auto after = std::ranges::find_if(
        file.findings, [&](const Finding& other) { return other.line > finding.line; });
    file.findings.insert(after, std::move(finding));
  }
}

// Other files of muster, by keys that no job has; empty: it is none of them.
std::string other_file(const YamlNode& tree) {
  const auto has = [&tree](auto... keys) { return (tree.find(keys) || ...); };
  if (has("command")) return "";
  if (has("profile")) return "a health profile; `muster health --profile FILE` reads it";
  if (has("steps") && has("job")) return "a drill; `muster-sandbox drill FILE` reads it";
  if (has("journal", "job_folders", "blobs", "binaries", "run_folders")) {
    return "a retention file; `muster clean --dry-run` reads ~/.config/muster/retention.yml";
  }
  return "";
}

// It has nothing that a job needs: what it is helps more than all that is missing.
void recognise_other_file(JobFile& file) {
  if (file.kind != FileKind::command || !file.tree) return;
  const std::string other = other_file(*file.tree);
  if (other.empty()) return;
  file.kind = FileKind::unsupported;
  file.findings = {
      finding_at(Severity::error, file.tree->place, "", "not a job or cluster file but " + other)};
}

// What the file holds: its kind, and how many nodes a cluster has.
std::string contents(const std::string& path, const CheckedJob& job) {
  std::string text = file_kind_name(job.file.kind);
  if (job.file.kind != FileKind::cluster) return text;
  std::size_t nodes = 0;
  const ClusterFile file = read_cluster_file(path, job.text, read_options({}));
  for (const ComputeTarget& target : file.targets) nodes += target.nodes.size();
  return text + ", " + std::to_string(nodes) + (nodes == 1 ? " node" : " nodes");
}

Document unreadable_document(const std::string& path, const Error& error) {
  Finding finding;
  finding.file = path;
  finding.message = error.message;
  return Document{{"file", path},
                  {"kind", nullptr},
                  {"valid", false},
                  {"findings", Document::array({finding_document(finding)})}};
}

}  // namespace

int validate_files(const ValidateOptions& options, const CommonOptions& common) {
  bool all_valid = true;
  Document documents = Document::array();
  for (const std::string& path : options.files) {
    auto job = check_job({.path = path, .sets = options.sets, .accept_resources = true}, common);
    if (!job) {
      print_error(job.error().message, common);
      documents.push_back(unreadable_document(path, job.error()));
      all_valid = false;
      continue;
    }
    recognise_other_file(job->file);
    if (!options.dialect.empty()) add_azure_findings(job->file);
    print_findings(job->file.findings, common);
    const bool valid = !has_errors(job->file.findings) && !has_unresolved(job->file.findings);
    all_valid &= valid;
    documents.push_back(file_document(path, *job, valid));
    if (!wants_table(common)) continue;
    const std::string verdict = (valid ? ": ok (" : ": not ok (") + contents(path, *job) + ")\n";
    write_all(Stream::out, one_line(path) + verdict);
  }
  const int failed = print_result(documents, "", common);
  return failed != 0 || all_valid ? failed : invalid_file;
}

void add_validate(CommandLine& line) {
  const VerbTexts texts{"validate", "Report all errors in job, cluster and other files"};
  line.verb<ValidateOptions>(texts, validate_files, [](Arguments& of, ValidateOptions& options) {
    of.arguments("FILE", options.files, "Files (YAML), of any kind");
    of.settings(options.sets, "Change one key before checking: a.b=value");
    of.choice("--for", options.dialect, {"azure"}, "Also what Azure ML would refuse");
  });
}

}  // namespace muster
