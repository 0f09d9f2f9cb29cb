// `muster job …`: the verbs and flags of `az ml job`, for hands that know them. The same code as
// the short verbs does the work.
#include <nlohmann/json.hpp>

#include "cli/client/find.h"
#include "cli/job/submission.h"
#include "cli/terminal/document.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"
#include "scheduler/model/exit_code.h"
#include "templates/azure/azure.h"

namespace muster {

namespace {

constexpr const char* job_group = "job";

struct CreateOptions {
  RunOptions run;
  bool stream = false;
  bool dry_run = false;
  bool web = false;
};

void name_option(Arguments& of, std::string& name) {
  of.option("-n,--name", name, "Job name, or the beginning of one");
  of.require("--name");
}

void file_option(Arguments& of, std::string& file) {
  of.option("-f,--file", file, "Job file (YAML), - for standard input");
  of.require("--file");
}

int create(const CreateOptions& options, const CommonOptions& common) {
  if (options.web) notice("note: --web has no effect", common);
  if (options.dry_run) return plan_job(options.run, common);
  return options.stream ? run_job(options.run, common) : submit_only(options.run, common);
}

int render(const ValidateOptions& options, const CommonOptions& common) {
  const JobFile file =
      or_end(check_job({.path = options.files.front(), .sets = options.sets, .for_running = false},
                       common),
             invalid_file)
          .file;
  print_findings(file.findings, common);
  if (has_errors(file.findings)) return invalid_file;
  AzureFile rendered = render_for_azure(file);
  print_findings(rendered.findings, common);
  if (has_errors(rendered.findings)) return invalid_file;
  write_all(Stream::out, rendered.text);
  return 0;
}

void add_file_verbs(CommandLine& line) {
  line.verb_of<CreateOptions>(
      job_group, {"create", "Queue a job; with --stream as `muster run`"}, create,
      [](Arguments& of, CreateOptions& options) {
        file_option(of, options.run.submit.check.path);
        of.settings(options.run.submit.check.sets, "Change keys of the file: a.b=value …", true);
        of.option("-n,--name", options.run.submit.name, "Name of the job");
        of.option("-a,--save-as", options.run.save_as, "Write what was queued to this file (YAML)");
        of.flag("-s,--stream", options.stream, "Follow the job; return its exit code");
        of.flag("--skip-validation", options.run.submit.check.accept_unresolved,
                "Accept unsupported items");
        of.flag("--dry-run", options.dry_run, "Show the placement, queue nothing");
        of.flag("-e,--web", options.web, "Ignored");
      });
  line.verb_of<ValidateOptions>(
      job_group, {"validate", "Report all errors in a file"}, validate_files,
      [](Arguments& of, ValidateOptions& options) {
        file_option(of, options.files.emplace_back());
        of.settings(options.sets, "Change keys before checking: a.b=value …", true);
        of.choice("--for", options.dialect, {"azure"}, "Also what Azure ML would refuse");
      });
  line.verb_of<ValidateOptions>(job_group, {"render", "Print the file as Azure ML accepts it"},
                                render, [](Arguments& of, ValidateOptions& options) {
                                  file_option(of, options.files.emplace_back());
                                  of.settings(options.sets, "Change keys first: a.b=value …", true);
                                  of.choice("--for", options.dialect, {"azure"}, "For whom");
                                });
}

struct ShowOptions {
  std::string name;
  bool web = false;
};

void add_job_verbs(CommandLine& line) {
  line.verb_of<ListOptions>(job_group, {"list", "List jobs, the newest first"}, list_jobs,
                            declare_list);
  line.verb_of<ShowOptions>(
      job_group, {"show", "Show one job in full"},
      [](const ShowOptions& options, const CommonOptions& common) {
        return show_job(options.name, common);
      },
      [](Arguments& of, ShowOptions& options) {
        name_option(of, options.name);
        of.flag("-e,--web", options.web, "Ignored");
      });
  line.verb_of<LogsOptions>(job_group, {"stream", "Show a job's output to its end"}, show_logs,
                            [](Arguments& of, LogsOptions& options) {
                              options.follow = true;
                              name_option(of, options.job);
                              declare_log_filters(of, options, "Only this attempt");
                            });
  line.verb_of<CancelOptions>(
      job_group, {"cancel", "Stop a job"}, cancel_job, [](Arguments& of, CancelOptions& options) {
        name_option(of, options.job);
        declare_cancel(of, options, "Wait until every rank is confirmed stopped (the default)");
      });
  line.verb_of<DownloadOptions>(job_group, {"download", "Copy a job's outputs"}, download_job,
                                [](Arguments& of, DownloadOptions& options) {
                                  name_option(of, options.job);
                                  declare_download(of, options);
                                });
}

void add_connect(CommandLine& line) {
  line.verb_of<NodePlace>(job_group, {"connect-ssh", "Open a shell on a node of a running job"},
                          open_shell, [](Arguments& of, NodePlace& place) {
                            name_option(of, place.job);
                            of.option("-i,--node-index", place.node, "Node of the job, from 0");
                            of.ignored("-k,--private-key-file-path", "Key file: none is needed");
                          });
  line.verb_of<NodePlace>(job_group, {"show-services", "List the services of a running job"},
                          list_services, [](Arguments& of, NodePlace& place) {
                            name_option(of, place.job);
                            of.option("-i,--node-index", place.node,
                                      "Only of this node of the job, from 0");
                          });
}

// What `change` does to a job, in the store alone; its new face is the answer.
template <class Change>
int annotate(const std::string& typed, const CommonOptions& common, Change change) {
  const Home home = Home::from_environment();
  const auto found = job_or_end(home, typed);
  const auto store = or_end(Store::open(home.root, Store::Mode::annotate));
  or_end(change(*store, found));
  return wants_table(common) ? 0 : show_job(found.row.name, common);
}

void add_archiving(CommandLine& line, const char* verb, const char* summary, bool archived) {
  line.verb_of<std::string>(
      job_group, {verb, summary},
      [archived](const std::string& name, const CommonOptions& common) {
        return annotate(name, common, [&](Store& store, const FoundJob& job) {
          return store.set_archived(job.id(), archived);
        });
      },
      name_option);
}

struct UpdateOptions {
  std::string name;
  TagUpdate tags;
  bool force = false;
};

int update_tags(const UpdateOptions& options, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const auto found = job_or_end(home, options.name);
  const auto change = [&](const std::string& tags) { return updated_tags(tags, options.tags); };
  or_end(change(found.row.tags), usage_error);
  return annotate(found.row.name, common, [&](Store& store, const FoundJob& job) {
    return store.change_tags(job.id(), change);
  });
}

void add_update(CommandLine& line) {
  line.verb_of<UpdateOptions>(job_group, {"update", "Change the tags of a job"}, update_tags,
                              [](Arguments& of, UpdateOptions& options) {
                                name_option(of, options.name);
                                of.several("--set,--add", options.tags.set, "tags.KEY=VALUE …");
                                of.several("--remove", options.tags.removed, "tags.KEY …");
                                of.flag("--force-string", options.force,
                                        "Ignored: every tag is text");
                              });
}

constexpr std::string_view prefix = "tags.";

Error not_a_tag(const std::string& text) {
  return Error{"'" + text + "' cannot be changed: only tags can, as tags.KEY=VALUE"};
}

}  // namespace

void add_job(CommandLine& line) {
  line.group({job_group, "The verbs of `az ml job`"});
  add_file_verbs(line);
  add_job_verbs(line);
  add_connect(line);
  add_archiving(line, "archive", "Hide an ended job from lists", true);
  add_archiving(line, "restore", "Show an archived job in lists again", false);
  add_update(line);
}

Result<std::string> updated_tags(const std::string& tags, const TagUpdate& update) {
  auto object = nlohmann::json::parse(tags, nullptr, false);
  if (!object.is_object()) object = nlohmann::json::object();
  for (const std::string& change : update.set) {
    const std::size_t equals = change.find('=');
    if (!change.starts_with(prefix) || equals == change.npos || equals == prefix.size()) {
      return not_a_tag(change);
    }
    object[change.substr(prefix.size(), equals - prefix.size())] = change.substr(equals + 1);
  }
  for (const std::string& change : update.removed) {
    if (!change.starts_with(prefix)) return not_a_tag(change);
    object.erase(change.substr(prefix.size()));
  }
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace muster
