// `muster validate FILE…`: every finding of every file; nothing is queued, started or written.
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/document.h"
#include "cli/job_check.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

Document finding_document(const Finding& finding) {
  Document out;
  out["severity"] = severity_name(finding.severity);
  out["file"] = finding.file;
  out["line"] = finding.line;
  out["column"] = finding.column;
  out["key"] = finding.key;
  out["message"] = finding.message;
  out["suggestion"] = finding.suggestion;
  return out;
}

Document file_document(const std::string& path, const CheckedJob& job, bool valid) {
  Document out;
  out["file"] = path;
  out["kind"] = file_kind_name(job.file.kind);
  out["valid"] = valid;
  out["findings"] = Document::array();
  for (const Finding& finding : job.file.findings) {
    out["findings"].push_back(finding_document(finding));
  }
  return out;
}

bool is_valid(const CheckedJob& job) {
  return !has_errors(job.file.findings) && !has_unresolved(job.file.findings);
}

}  // namespace

int validate_files(const ValidateOptions& options, const CommonOptions& common) {
  bool all_valid = true;
  Document documents = Document::array();
  for (const std::string& path : options.files) {
    const auto job = check_job({.path = path, .sets = options.sets}, common);
    if (!job) {
      complain(job.error().message, common);
      all_valid = false;
      continue;
    }
    print_findings(job->file.findings, common);
    const bool valid = is_valid(*job);
    all_valid &= valid;
    documents.push_back(file_document(path, *job, valid));
    if (!wants_table(common)) continue;
    const std::string kind = file_kind_name(job->file.kind);
    write_all(Stream::out, path + ": " + (valid ? "ok (" : "not ok (") + kind + ")\n");
  }
  if (!wants_table(common)) {
    if (const int failed = print_document(documents, common); failed != 0) return failed;
  }
  return all_valid ? 0 : static_cast<int>(ExitCode::invalid_job);
}

void add_validate(CommandLine& line) {
  line.verb(
      {"validate", "Say everything that is wrong with job and resource files"}, [](Arguments& of) {
        auto options = std::make_shared<ValidateOptions>();
        of.arguments("FILE", options->files, "Files (YAML), of any kind");
        of.repeated("--set", options->sets, "Change one key before checking: a.b=value");
        return [options](const CommonOptions& common) { return validate_files(*options, common); };
      });
}

}  // namespace muster
