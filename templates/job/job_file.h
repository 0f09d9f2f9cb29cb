// A job file that was read, and what more is said about it. Pure.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "scheduler/model/job_spec.h"
#include "templates/yaml/finding.h"
#include "templates/yaml/read_options.h"

namespace muster {

struct JobFile {
  FileKind kind = FileKind::unreadable;
  JobSpec spec;                          // meaningful for FileKind::command without errors
  std::vector<Finding> findings;         // in line order
  std::shared_ptr<const YamlNode> tree;  // after `--set`; null when the text could not be parsed
};

// Gives the job its name and fills the places where the file says `${{name}}`.
void give_name(JobSpec& spec, const std::string& name);

// The job's findings about `key` (dotted path), placed where the file says it, or at the nearest
// map above. For checks that need more than the file, such as the compute targets.
Finding finding_about(const JobFile& job, Severity severity, const std::string& key,
                      const std::string& message, const std::string& suggestion = "");

// What a job file may say and this version cannot do yet. Parsing accepts it, running refuses it:
// nothing is ignored in silence.

// One sentence for each thing: `unresolved` findings stop `run` and `submit`, warnings name
// settings that are checked and kept but not acted on. For any kind of file.
std::vector<Finding> cannot_run_yet(const JobFile& job);

}  // namespace muster
