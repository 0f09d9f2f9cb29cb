#include "cli/job/submission.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/client/start.h"
#include "cli/job/job_name.h"
#include "cli/job/staging.h"
#include "cli/terminal/exit_status.h"
#include "cli/terminal/terminal.h"
#include "launcher/controller/store/store.h"
#include "launcher/os/fd.h"
#include "launcher/os/read_file.h"
#include "launcher/staging/trees_file.h"
#include "launcher/wire/record_codec.h"
#include "scheduler/model/exit_code.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

constexpr int invalid_job = static_cast<int>(ExitCode::invalid_job);

std::string generated_name() {
  NameBytes random{};
  check(::getrandom(random.data(), random.size(), 0) == static_cast<ssize_t>(random.size()),
        "the kernel gives random bytes");
  return job_name_from(random);
}

std::string user_name() {
  const passwd* entry = ::getpwuid(::geteuid());
  return entry == nullptr ? std::to_string(::geteuid()) : entry->pw_name;
}

std::string directory_name() {
  std::error_code failure;
  const std::string name = fs::current_path(failure).filename().string();
  return name.empty() ? "muster" : name;
}

Status write_file(const fs::path& path, const std::string& text) {
  if (replace_file(path, text, 0600, Durable::in_cache)) return Done{};
  return Error{"cannot write " + path.string() + ": " + std::strerror(errno)};
}

// Left by a submission that was killed: the job is not known, and nothing of a run is there.
bool is_abandoned(const Home& home, const JobId& job) {
  const auto store = Store::open(home.root, Store::Mode::read_only);
  const auto row = store ? (*store)->job(job) : store.error();
  if (!row || *row) return false;
  std::error_code failure;
  for (fs::directory_iterator entry(home.job(job), failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (entry->is_directory(failure)) return false;
  }
  return !failure;
}

// The job's directory, made and locked by nobody else until the result goes: the name is taken when
// another has it.
Result<Fd> claim_directory(const Home& home, const JobId& job) {
  const fs::path directory = home.job(job);
  std::error_code ignored;
  fs::create_directories(directory.parent_path(), ignored);
  const bool made = ::mkdir(directory.c_str(), 0700) == 0;
  Fd lock(made || errno == EEXIST ? ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                  : -1);
  if (!lock) {
    return Error{"cannot make " + directory.string() + ": " + std::strerror(errno) +
                 "; free space or set MUSTER_HOME to a directory that can be written"};
  }
  const bool locked = ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
  if (locked && (made || is_abandoned(home, job))) return lock;
  return Error{"the job name '" + job.value +
               "' is taken; leave `name` out and one is made, or choose another"};
}

Status fill_directory(const Home& home, const JobSpec& spec, const CheckedJob& job,
                      const CommonOptions& common) {
  const fs::path directory = home.job(JobId{spec.name});
  auto staged = stage_sources(home, spec, *job.target);
  if (!staged) return staged.error();
  for (const std::string& warning : staged->warnings) notice("warning: " + warning, common);
  if (auto done = save_trees(home.trees(JobId{spec.name}), staged->trees); !done) return done;
  if (auto done = write_file(directory / "spec.yml", job.text); !done) return done;
  return write_file(directory / "spec.json", encode_spec(spec));
}

void forget_directory(const fs::path& directory) {
  std::error_code ignored;
  fs::remove_all(directory, ignored);
}

Submitted refused(const std::string& sentence, int exit_code, const CommonOptions& common) {
  complain(sentence, common);
  return Submitted{std::nullopt, {}, exit_code};
}

JobSpec named_spec(const CheckedJob& job, const SubmitRequest& request) {
  JobSpec spec = job.file.spec;
  std::string name = request.name.empty() ? spec.name : request.name;
  give_name(spec, name.empty() ? generated_name() : name);
  if (spec.display_name.empty()) spec.display_name = spec.name;
  if (spec.experiment_name.empty()) spec.experiment_name = directory_name();
  return spec;
}

bool is_job_name(const std::string& name) {
  const std::string_view first = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  const auto legal = [&](char c) { return first.find(c) != first.npos || c == '-' || c == '_'; };
  if (name.empty() || name.size() > 255 || first.find(name[0]) == first.npos) return false;
  for (const char c : name) {
    if (!legal(c)) return false;
  }
  return true;
}

// The steps on this machine are done; hand the job over.
Submitted hand_over(const Home& home, const JobSpec& spec, const CheckedJob& job,
                    const CommonOptions& common) {
  Submit request{spec, *job.target, user_name(), job.text};
  const auto answer = ask_controller(home, request, common);
  if (!answer) return refused("cannot submit: " + answer.error().message, internal_error, common);
  if (const auto* no = std::get_if<Refused>(&*answer)) {
    return refused(no->message, no->exit_code, common);
  }
  const auto* yes = std::get_if<Accepted>(&*answer);
  if (yes == nullptr) {
    return refused("the controller gave an unexpected answer", internal_error, common);
  }
  if (!yes->note.empty()) notice(yes->note, common);
  tell_if_output_fails("job " + yes->job.value + " was queued; come back with: muster logs -f " +
                       yes->job.value);
  return Submitted{yes->job, spec, 0};
}

}  // namespace

Submitted submit_job(const Home& home, const SubmitRequest& request, const CommonOptions& common) {
  const auto job = check_job(request.check, common);
  if (!job) return refused(job.error().message, invalid_job, common);
  print_findings(job->file.findings, common);
  if (!job->can_run) {
    if (const auto why = no_job(job->file.kind); !why.empty()) complain(why, common);
    return Submitted{std::nullopt, {}, invalid_job};
  }
  const JobSpec spec = named_spec(*job, request);
  if (!is_job_name(spec.name)) {
    return refused("'" + spec.name + "' is no job name; use letters, digits, '_' and '-'",
                   invalid_job, common);
  }
  if (auto ready = prepare_home(home); !ready) {
    return refused(ready.error().message, internal_error, common);
  }
  const fs::path directory = home.job(JobId{spec.name});
  const auto claimed = claim_directory(home, JobId{spec.name});
  if (!claimed) {
    const bool taken = fs::exists(directory);
    return refused(claimed.error().message, taken ? invalid_job : internal_error, common);
  }
  Submitted submitted{std::nullopt, {}, internal_error};
  if (auto filled = fill_directory(home, spec, *job, common); !filled) {
    complain(filled.error().message, common);
  } else {
    submitted = hand_over(home, spec, *job, common);
  }
  if (!submitted.job) forget_directory(directory);
  return submitted;
}

}  // namespace muster
