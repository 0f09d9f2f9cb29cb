// `muster job …`: the verbs and flags of `az ml job`, for hands that know them. The same code as
// the short verbs does the work.
#include "cli/verbs/job.h"

#include <memory>

#include <nlohmann/json.hpp>

#include "cli/client/find.h"
#include "cli/job/check.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/document.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/list.h"
#include "cli/verbs/verbs.h"
#include "scheduler/model/exit_code.h"
#include "templates/parse_file.h"

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

void add_create(CommandLine& line) {
  line.verb_of(
      job_group, {"create", "Queue a job; with --stream as `muster run`"}, [](Arguments& of) {
        auto options = std::make_shared<CreateOptions>();
        file_option(of, options->run.file);
        of.settings(options->run.sets, "Change keys of the file: a.b=value …", true);
        of.option("-n,--name", options->run.name, "Name of the job");
        of.option("-a,--save-as", options->run.save_as,
                  "Write what was queued to this file (YAML)");
        of.flag("-s,--stream", options->stream, "Follow the job; return its exit code");
        of.flag("--skip-validation", options->run.accept_unresolved, "Accept unsupported items");
        of.flag("--dry-run", options->dry_run, "Show the placement, queue nothing");
        of.flag("-e,--web", options->web, "Ignored");
        return [options](const CommonOptions& common) { return create(*options, common); };
      });
}

void add_validate_job(CommandLine& line) {
  line.verb_of(job_group, {"validate", "Say everything that is wrong with a file"},
               [](Arguments& of) {
                 auto options = std::make_shared<ValidateOptions>();
                 auto file = std::make_shared<std::string>();
                 file_option(of, *file);
                 of.settings(options->sets, "Change keys before checking: a.b=value …", true);
                 of.choice("--for", options->dialect, {"azure"}, "Also what Azure ML would refuse");
                 return [options, file](const CommonOptions& common) {
                   options->files = {*file};
                   return validate_files(*options, common);
                 };
               });
}

int render(const std::string& file, const std::vector<std::string>& sets,
           const CommonOptions& common) {
  const auto job = check_job({.path = file, .sets = sets, .for_running = false}, common);
  if (!job) {
    complain(job.error().message, common);
    return static_cast<int>(ExitCode::invalid_job);
  }
  print_findings(job->file.findings, common);
  if (has_errors(job->file.findings)) return static_cast<int>(ExitCode::invalid_job);
  write_all(Stream::out, render_for_azure(job->file));
  return 0;
}

void add_render(CommandLine& line) {
  line.verb_of(job_group, {"render", "Print the file as Azure ML accepts it"}, [](Arguments& of) {
    auto file = std::make_shared<std::string>();
    auto sets = std::make_shared<std::vector<std::string>>();
    auto dialect = std::make_shared<std::string>("azure");
    file_option(of, *file);
    of.settings(*sets, "Change keys first: a.b=value …", true);
    of.choice("--for", *dialect, {"azure"}, "For whom");
    return
        [file, sets, dialect](const CommonOptions& common) { return render(*file, *sets, common); };
  });
}

void add_list_jobs(CommandLine& line) {
  line.verb_of(job_group, {"list", "List jobs, the newest first"}, [](Arguments& of) {
    auto options = std::make_shared<ListOptions>();
    declare_list_options(of, *options);
    return [options](const CommonOptions& common) {
      return list_jobs(filter_of(*options, wall_clock_now()), common);
    };
  });
}

void add_show(CommandLine& line) {
  line.verb_of(job_group, {"show", "Show one job in full"}, [](Arguments& of) {
    auto name = std::make_shared<std::string>();
    auto web = std::make_shared<bool>();
    name_option(of, *name);
    of.flag("-e,--web", *web, "Ignored");
    return [name, web](const CommonOptions& common) { return show_job(*name, common); };
  });
}

void add_stream(CommandLine& line) {
  line.verb_of(job_group, {"stream", "Show a job's output to its end"}, [](Arguments& of) {
    auto options = std::make_shared<LogsOptions>();
    options->follow = true;
    name_option(of, options->job);
    of.option("--rank", options->rank, "Only this rank");
    of.option("--node", options->node, "Only the ranks on this node");
    of.option("--attempt", options->attempt, "Only this attempt");
    return [options](const CommonOptions& common) { return show_logs(*options, common); };
  });
}

void add_cancel_job(CommandLine& line) {
  line.verb_of(job_group, {"cancel", "Stop a job"}, [](Arguments& of) {
    auto options = std::make_shared<CancelOptions>();
    auto wait = std::make_shared<bool>();
    name_option(of, options->job);
    of.option("--grace", options->grace, "Time between the stop signal and SIGKILL");
    of.flag("--wait", *wait, "Wait for the proof that every rank is gone (the default)");
    of.flag("--no-wait", options->no_wait, "Return when the job has been asked to stop");
    return [options, wait](const CommonOptions& common) { return cancel_job(*options, common); };
  });
}

void add_download_job(CommandLine& line) {
  line.verb_of(job_group, {"download", "Copy a job's outputs"}, [](Arguments& of) {
    auto options = std::make_shared<DownloadOptions>();
    name_option(of, options->job);
    of.flag("--all", options->all, "Outputs, logs and metrics of every attempt");
    of.option("--output-name", options->output_name, "Only this output");
    of.option("-p,--download-path", options->directory, "Into this directory (default: here)");
    return [options](const CommonOptions& common) { return download_job(*options, common); };
  });
}

int set_archived(const std::string& typed, bool archived, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const auto found = open_job(home, typed);
  if (!found) return without_job(home, found.error(), common);
  const auto store = Store::open(home.root, Store::Mode::annotate);
  const Status done = store ? (*store)->set_archived(found->id(), archived) : Status(store.error());
  if (done) return wants_table(common) ? 0 : show_job(found->row.name, common);
  complain(done.error().message, common);
  return internal_error;
}

void add_archiving(CommandLine& line, const char* verb, const char* summary, bool archived) {
  line.verb_of(job_group, {verb, summary}, [archived](Arguments& of) {
    auto name = std::make_shared<std::string>();
    name_option(of, *name);
    return [name, archived](const CommonOptions& common) {
      return set_archived(*name, archived, common);
    };
  });
}

void add_update(CommandLine& line) {
  line.verb_of(job_group, {"update", "Change the tags of a job"}, [](Arguments& of) {
    auto update = std::make_shared<TagUpdate>();
    auto name = std::make_shared<std::string>();
    auto force = std::make_shared<bool>();
    name_option(of, *name);
    of.several("--set,--add", update->set, "tags.KEY=VALUE …");
    of.several("--remove", update->removed, "tags.KEY …");
    of.flag("--force-string", *force, "Ignored: every tag is text");
    return [update, name, force](const CommonOptions& common) {
      return update_tags(*name, *update, common);
    };
  });
}

constexpr std::string_view prefix = "tags.";

Error not_a_tag(const std::string& text) {
  return Error{"'" + text + "' cannot be changed: only tags can, as tags.KEY=VALUE"};
}

}  // namespace

void add_job(CommandLine& line) {
  line.group({job_group, "The verbs of `az ml job`"});
  add_create(line);
  add_validate_job(line);
  add_render(line);
  add_list_jobs(line);
  add_show(line);
  add_stream(line);
  add_cancel_job(line);
  add_download_job(line);
  add_archiving(line, "archive", "Hide a finished job from lists", true);
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

int update_tags(const std::string& typed, const TagUpdate& update, const CommonOptions& common) {
  constexpr int internal = static_cast<int>(ExitCode::internal);
  const Home home = Home::from_environment();
  const auto found = open_job(home, typed);
  if (!found) return without_job(home, found.error(), common);
  auto tags = updated_tags(found->row.tags, update);
  if (!tags) return complain(tags.error().message, 2, common);
  const auto store = Store::open(home.root, Store::Mode::annotate);
  if (!store) return complain(store.error().message, internal, common);
  const Status done = (*store)->set_tags(found->id(), *tags);
  if (!done) return complain(done.error().message, internal, common);
  return wants_table(common) ? 0 : show_job(found->row.name, common);
}

}  // namespace muster
