// Every file in golden/ against the text beside it: its kind, its findings, what stops it from
// running. MUSTER_UPDATE_GOLDEN=1 writes the texts anew; read the difference before committing it.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "templates/job/job_file.h"
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

const std::filesystem::path directory = golden_directory();

std::string outcome_of(const std::string& text) {
  const JobFile job = read_job(text, sample_project());
  std::string out = std::string("kind: ") + file_kind_name(job.kind) + '\n';
  out += printed(job.findings);
  const std::string refusals = printed(cannot_run_yet(job));
  if (!refusals.empty()) out += "cannot run yet:\n" + refusals;
  return out;
}

TEST_CASE("the findings of every sample file match the golden text") {
  const bool update = std::getenv("MUSTER_UPDATE_GOLDEN") != nullptr;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() != ".yml") continue;
    ++files;
    std::filesystem::path expected = entry.path();
    expected.replace_extension(".txt");
    const std::string outcome = outcome_of(content_of(entry.path()));
    if (update) std::ofstream(expected) << outcome;
    INFO(entry.path().filename().string());
    CHECK(outcome == content_of(expected));
  }
  CHECK(files > 20);
}

TEST_CASE("the samples that are not called faulty have no errors beside those of resources") {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".yml" || name.starts_with("faulty")) continue;
    if (name == "resource_datastores.yml" || name == "command_anchors.yml") continue;
    INFO(name);
    const JobFile job = read_job(content_of(entry.path()), sample_project());
    std::string errors;
    for (const Finding& finding : job.findings) {
      if (finding.severity == Severity::error) errors += print(finding);
    }
    CHECK(errors == "");
  }
}

TEST_CASE("a secret of a datastore never appears in a finding") {
  const std::string text = content_of(directory / "resource_datastores.yml");
  CHECK(outcome_of(text).find("do-not-print-me") == std::string::npos);
  CHECK(outcome_of(content_of(directory / "resource_amlcompute.yml")).find("secret") ==
        std::string::npos);
}

}  // namespace
}  // namespace muster
