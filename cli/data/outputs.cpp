// What becomes of a job's data when an attempt ends: outputs go to their stores.
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>

#include "cli/data/catalogue.h"
#include "cli/data/stores.h"
#include "launcher/data/output_content.h"
#include "launcher/data/rclone.h"
#include "launcher/os/fd.h"
#include "scheduler/text/spelling.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr const char* submitting_machine = "the submitting machine";
using IsWanted = std::function<bool(const std::string& path)>;

// Files and links below a directory.
Result<std::vector<std::string>> files_below(const fs::path& root, const IsWanted& is_wanted) {
  std::vector<std::string> files;
  std::error_code failure;
  for (fs::recursive_directory_iterator entry(root, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    std::string path = entry->path().lexically_relative(root).string();
    const bool is_file = entry->is_symlink() || entry->is_regular_file();
    if (is_file && is_wanted(path)) files.push_back(std::move(path));
  }
  if (failure) return system_error("read " + root.string(), failure.value());
  return files;
}

// What was copied before and is as it was then is left alone: others may have written to the same
// path since.
Status copy_changed(const fs::path& source, const PlaceInStore& place,
                    const Credentials& credentials, const fs::path& record) {
  const auto before = load_settled(record);
  if (!before) return before.error();
  auto files = files_below(source, [](const std::string&) { return true; });
  if (place.is_file) files = std::vector<std::string>{""};
  if (!files) return files.error();
  SettledFiles now;
  for (const std::string& file : *files) {
    struct stat facts {};
    const fs::path path = file.empty() ? source : source / file;
    if (::stat(path.c_str(), &facts) == 0) now[file] = stamp_of(facts);
  }
  std::erase_if(*files, [&](const std::string& file) {
    const auto found = before->find(file);
    return found != before->end() && found->second == now[file];
  });
  if (files->empty()) return Done{};
  if (place.is_file) files->clear();
  const Status done = upload_tree(source, place, credentials, submitting_machine, *files);
  return done ? save_settled(record, now) : done;
}

// Logs of ranks, and what ranks left in ./outputs beside the outputs that the job names.
Status copy_rest(const Home& home, const JobId& job, const JobData& data,
                 const Credentials& credentials) {
  const auto is_log = [](const std::string& path) {
    return path.starts_with("attempt-") && path.ends_with(".log");
  };
  const auto is_unnamed = [&](const std::string& path) {
    const std::string first = path.substr(0, path.find('/'));
    return std::ranges::find(data.named, first) == data.named.end();
  };
  for (const bool logs : {true, false}) {
    const fs::path source = logs ? home.job(job) : home.outputs(job);
    std::error_code failure;
    if (!fs::exists(source, failure) && !failure) continue;
    const auto files = files_below(source, logs ? IsWanted(is_log) : IsWanted(is_unnamed));
    if (!files) return files.error();
    PlaceInStore place = data.own;
    place.path += logs ? "logs" : "outputs";
    if (files->empty()) continue;
    if (auto done = upload_tree(source, place, credentials, submitting_machine, *files); !done)
      return done;
  }
  return Done{};
}

// Why it cannot be registered.
Status register_output(const Home& home, const JobId& job, const JobOutput& output) {
  const Catalogue catalogue(home, Catalogue::Kind::data);
  DataAsset asset;
  asset.name = output.asset_name;
  asset.type = output.place.is_file ? DataType::uri_file : DataType::uri_folder;
  asset.description = "output " + output.output + " of job " + job.value;
  asset.path =
      output.uri.empty() ? "azureml://jobs/" + job.value + "/outputs/" + output.output : output.uri;
  const std::string text = data_asset_text(asset);
  for (const CatalogueEntry& entry : catalogue.versions(asset.name)) {
    if (entry.text == text) return Done{};  // done before
  }
  const auto version =
      output.asset_version.empty() ? std::nullopt : std::optional(output.asset_version);
  const auto added = catalogue.add(asset.name, version, text);
  return added ? Status(Done{}) : added.error();
}

}  // namespace

Status finish_outputs(const Home& home, const JobId& job, bool registers) {
  const auto data = load_job_data(home.job(job));
  if (!data) return data.error();
  // A controller that was killed may have left a process that goes on.
  const fs::path lock = home.job(job) / "upload.lock";
  const Fd held(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!held || ::flock(held.get(), LOCK_EX) != 0) return system_error("lock " + lock.string());
  Status all = Done{};
  const auto copy = [&](const std::string& what, const PlaceInStore& place, auto work) {
    const auto credentials = load_secrets(home.root, place.store);
    const Status done = credentials ? work(*credentials) : Status(credentials.error());
    if (!done && all) all = Error{what + ": " + done.error().message};
  };
  for (const JobOutput& output : data->outputs) {
    std::error_code failure;
    const fs::path source = home.outputs(job) / output.output;
    const fs::file_type kind = fs::status(source, failure).type();
    if (kind == fs::file_type::none)
      return system_error("read " + source.string(), failure.value());
    if (output.uri.empty() || kind == fs::file_type::not_found) continue;
    const fs::path record = home.job(job) / ("delivered." + output.output);
    copy("output " + quoted_text(output.output), output.place, [&](const Credentials& credentials) {
      return output.content_files > 0
                 ? copy_changed(source, output.place, credentials, record)
                 : upload_tree(source, output.place, credentials, submitting_machine);
    });
  }
  if (!data->own.store.name.empty()) {
    copy("logs and ./outputs", data->own,
         [&](const Credentials& credentials) { return copy_rest(home, job, *data, credentials); });
  }
  if (!all || !registers) return all;
  for (const JobOutput& output : data->outputs) {
    if (output.asset_name.empty()) continue;
    if (auto done = register_output(home, job, output); !done) return done;
  }
  return Done{};
}

}  // namespace muster
