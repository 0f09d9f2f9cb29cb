// `muster download JOB`: outputs, and with --all everything, copied out of the state directory.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/client/find.h"
#include "cli/terminal/document.h"
#include "cli/verbs/verbs.h"
#include "scheduler/text/duration.h"

namespace muster {

namespace {

namespace fs = std::filesystem;

struct Copied {
  std::int64_t files = 0;
  std::uint64_t bytes = 0;
};

// A link that is in the way is replaced, never followed.
std::error_code copy_entry(const fs::directory_entry& from, const fs::path& to, Copied& copied) {
  std::error_code failure;
  if (fs::is_symlink(to, failure)) fs::remove(to, failure);
  failure.clear();
  if (from.is_symlink(failure)) {
    fs::copy_symlink(from.path(), to, failure);
  } else if (from.is_directory(failure)) {
    fs::create_directory(to, failure);
  } else if (from.is_regular_file(failure)) {
    fs::copy_file(from.path(), to, fs::copy_options::overwrite_existing, failure);
    std::error_code ignored;
    ++copied.files;
    copied.bytes += fs::file_size(to, ignored);
  }
  return failure;
}

void copy_tree(const fs::path& from, const fs::path& to, Copied& copied) {
  const auto require = [](const std::error_code& why, const fs::path& one, const fs::path& into) {
    if (!why) return;
    throw VerbEnd(internal_error,
                  "cannot copy " + one.string() + " to " + into.string() + ": " + why.message());
  };
  std::error_code failure;
  fs::create_directories(to.parent_path(), failure);
  const fs::directory_entry top(from, failure);
  if (!failure) failure = copy_entry(top, to, copied);
  require(failure, from, to);
  if (!top.is_directory(failure) || top.is_symlink(failure)) return;
  for (fs::recursive_directory_iterator entry(from, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    const fs::path place = to / entry->path().lexically_relative(from);
    require(copy_entry(*entry, place, copied), entry->path(), place);
  }
  require(failure, from, to);
}

bool has_files(const fs::path& folder) {
  std::error_code failure;
  for (fs::recursive_directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (entry->is_symlink(failure) || !entry->is_directory(failure)) return true;
  }
  return false;
}

// What is wanted, below the job's directory.
std::vector<fs::path> wanted_parts(const fs::path& job, const DownloadOptions& options) {
  std::vector<fs::path> parts;
  std::error_code failure;
  if (!options.output_name.empty()) {
    const fs::path name = fs::path(options.output_name).filename();
    if (name.empty() || name == "." || name == ".." ||
        !fs::exists(job / "outputs" / name, failure)) {
      throw VerbEnd(no_such_job, "job " + job.filename().string() + " has no output '" +
                                     options.output_name +
                                     "' here; outputs arrive when an attempt ends");
    }
    return {fs::path("outputs") / name};
  }
  for (fs::directory_iterator entry(job, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    if (!entry->is_directory(failure) || !has_files(entry->path())) continue;
    if (options.all || name == "outputs" || name == "logs") parts.emplace_back(name);
  }
  return parts;
}

}  // namespace

int download_job(const DownloadOptions& options, const CommonOptions& common) {
  const Home home = Home::from_environment();
  const auto found = job_or_end(home, options.job);
  const fs::path base = options.directory.empty() ? "." : options.directory;
  const fs::path to = base / found.row.name;
  Copied copied;
  for (const fs::path& part : wanted_parts(home.job(found.id()), options)) {
    copy_tree(home.job(found.id()) / part, to / part, copied);
  }
  const Document document{{"name", found.row.name},
                          {"path", fs::absolute(to).string()},
                          {"files", copied.files},
                          {"bytes", copied.bytes}};
  const std::string text = std::to_string(copied.files) + " files, " + bytes_text(copied.bytes) +
                           " in " + to.string() + "\n";
  return print_result(document, copied.files == 0 ? "" : text, common,
                      "job " + found.row.name +
                          (found.row.ended_at ? " left no outputs; --all copies its logs, too"
                                              : " has no outputs here yet"));
}

void declare_download(Arguments& of, DownloadOptions& options) {
  of.flag("--all", options.all, "Outputs, logs and metrics of every attempt");
  of.option("--output-name", options.output_name, "Only this output");
  of.option("-p,--download-path", options.directory, "Into this directory (default: here)");
}

void add_download(CommandLine& line) {
  line.verb<DownloadOptions>({"download", "Copy a job's outputs out of the state directory"},
                             download_job, [](Arguments& of, DownloadOptions& options) {
                               of.job(options.job);
                               declare_download(of, options);
                             });
}

}  // namespace muster
