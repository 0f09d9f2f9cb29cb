// `muster drill FILE`: does the job survive what the file does to it?
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/client/targets.h"
#include "cli/drill_run.h"
#include "cli/grammar/verbs.h"
#include "cli/job/check.h"
#include "cli/terminal/files.h"
#include "cli/terminal/terminal.h"
#include "scheduler/model/exit_code.h"
#include "templates/yaml/reader.h"

namespace muster {

namespace {

int drill(const DrillOptions& options, const CommonOptions& common) {
  constexpr int invalid = static_cast<int>(ExitCode::invalid_job);
  const auto text = read_input(options.file, max_file_bytes);
  if (!text) {
    complain(text.error().message, common);
    return invalid;
  }
  const ReadOptions reading{std::filesystem::current_path().string(), {}, real_files()};
  const DrillFile file = read_drill(options.file, *text, reading);
  print_findings(file.findings, common);
  if (has_errors(file.findings)) return invalid;
  const DrillOutcome outcome = run_drill(file.drill, options, common);
  if (!outcome.report) return outcome.exit_code;
  if (wants_table(common)) {
    print_drill_report(*outcome.report, common);
    return outcome.exit_code;
  }
  const int printed = print_document(report_document(*outcome.report), common);
  return outcome.exit_code != 0 ? outcome.exit_code : printed;
}

}  // namespace

void add_drill(CommandLine& line) {
  VerbTexts texts{"drill", "Break things while a job runs, as a file says, and check the outcome"};
  texts.footer = drill_format;
  line.verb(texts, [](Arguments& of) {
    auto options = std::make_shared<DrillOptions>();
    of.argument("FILE", options->file, "Drill file (YAML)");
    of.option("--seed", options->seed, "Of everything random, instead of the file's");
    of.option("--name", options->name, "Name of the disturbed job");
    return [options](const CommonOptions& common) { return drill(*options, common); };
  });
}

}  // namespace muster
