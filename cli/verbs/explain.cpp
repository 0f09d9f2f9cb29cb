// `muster explain JOB`: what happened and why, from the journal.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/client/find.h"
#include "cli/job/report.h"
#include "cli/terminal/document.h"
#include "cli/terminal/escape.h"
#include "cli/verbs/verbs.h"
#include "launcher/os/child.h"
#include "scheduler/explain/explain.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

// What bash says of a program that it cannot start, or whose interpreter is missing.
constexpr std::string_view complaints[] = {
    ": No such file or directory", ": command not found", ": not found",
    ": cannot execute: required file not found", ": bad interpreter: No such file or directory"};

// `bash: line 1: /venv/bin/python: No such file or directory`: the word before the complaint.
std::string program_in(const std::string& line) {
  for (const std::string_view complaint : complaints) {
    const std::size_t end = line.find(complaint);
    if (end == line.npos || end == 0) continue;
    const std::size_t blank = line.find_last_of(" \t'\"`", end - 1);
    const std::size_t begin = blank == line.npos ? 0 : blank + 1;
    if (end > begin) return line.substr(begin, end - begin);
  }
  return "";
}

bool is_relative_path(const std::string& program) {
  return program.find('/') != program.npos && program.front() != '/';
}

std::string nodes_text(const std::set<NodeId>& nodes) {
  constexpr std::size_t most = 4;
  if (nodes.size() <= most) return joined(nodes);
  return joined(std::vector(nodes.begin(), std::next(nodes.begin(), most))) + " and " +
         std::to_string(nodes.size() - most) + " more";
}

struct ExplainOptions {
  std::string job;
  bool brief = false;
};

int explain_job(const ExplainOptions& options, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const auto found = job_or_end(home, options.job);
  auto records = or_end(found.store->records_of(found.id()));
  const auto faults = or_end(found.store->faults_during(found.id()));
  if (const std::string why = why_no_history(found); !why.empty()) {
    throw VerbEnd(no_such_job, why);
  }
  records.insert(records.begin(), faults.begin(), faults.end());  // before what they led to
  std::ranges::stable_sort(records, {}, &Record::at);
  std::string text;
  for (const std::string& one : explain_text(records, options.brief)) text += printable(one) + "\n";
  const std::string missing = missing_program_text(records, find_here);
  if (!missing.empty()) text += printable(missing) + "\n";
  const auto line_document = [](const ExplainLine& one) {
    return Document{{"at", utc_text(one.at)}, {"text", one.text}};
  };
  return print_result(list_of(explain(records, options.brief), line_document), text, common);
}

// A virtual environment's python is often there, and what it is a link to is not.
std::string link_text(const std::filesystem::path& program) {
  std::error_code error;
  if (!std::filesystem::is_symlink(program, error)) return "";
  const auto target = std::filesystem::canonical(program, error);
  return error ? "" : ", a link to " + target.string() + ", which has to be there too";
}

}  // namespace

std::string find_here(const std::string& program) {
  if (program.find('/') != program.npos) {
    const bool absolute = program.front() == '/';
    return absolute && ::access(program.c_str(), X_OK) == 0 ? program : "";
  }
  std::istringstream folders(environment("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string path = folder + '/' + program;
    if (path.front() == '/' && ::access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

std::string missing_program_text(const std::vector<Record>& records, const FindHere& find) {
  std::map<std::string, std::set<NodeId>> missing;
  bool has_code = false;
  std::string image;
  for (const Record& record : records) {
    if (const auto* job = record_as<JobSubmitted>(record)) {
      has_code = !job->spec.code.empty() || !job->spec.git_url.empty();
      image = job->spec.environment.image;
    }
    if (record_as<AttemptPlaced>(record) != nullptr) missing.clear();
    const auto* exited = record_as<RankExited>(record);
    const bool not_started = exited && (exited->status.code == 127 || exited->status.code == 126);
    if (!not_started) continue;
    for (const std::string& line : exited->last_lines) {
      const std::string program = program_in(line);
      if (!program.empty()) missing[program].insert(exited->node);
    }
  }
  for (const auto& [program, nodes] : missing) {
    if (!has_code && is_relative_path(program)) {
      return program + " is not there on " + nodes_text(nodes) +
             ": without `code` no file of yours gets there; set `code: .` in the job file";
    }
    if (!image.empty()) return program + " is not in the image " + image;
    const std::string here = find(program);
    if (here.empty()) continue;
    return program + " is not there on " + nodes_text(nodes) + "; it is here" +
           (here == program ? "" : " (" + here + ")") + link_text(here) +
           ": put it on a shared folder or into `code`";
  }
  return "";
}

void add_explain(CommandLine& line) {
  const VerbTexts texts{"explain", "Explain what happened to a job and why"};
  line.verb<ExplainOptions>(texts, explain_job, [](Arguments& of, ExplainOptions& options) {
    of.job(options.job);
    of.flag("--brief", options.brief,
            "A few lines per failure: what broke, how it ended, and from where the job "
            "went on");
  });
}

}  // namespace muster
