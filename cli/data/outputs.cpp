#include "cli/data/outputs.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>

#include "cli/data/catalogue.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/terminal.h"
#include "launcher/data/secrets.h"
#include "launcher/data/upload.h"
#include "launcher/os/fd.h"
#include "launcher/staging/content_hash.h"
#include "scheduler/text/spelling.h"
#include "templates/resource/data_asset.h"

namespace muster {
namespace {

// The version by which this very output is registered already; empty: by none.
std::string registered_as(const Catalogue& catalogue, const std::string& name,
                          const std::string& text) {
  for (const CatalogueEntry& entry : catalogue.versions(name)) {
    if (entry.text == text) return entry.version;
  }
  return {};
}

Status register_output(const Home& home, const JobId& job, const JobOutput& output) {
  const Catalogue catalogue(home, Catalogue::Kind::data);
  DataAsset asset;
  asset.name = output.asset_name;
  asset.type = output.place.is_file ? DataType::uri_file : DataType::uri_folder;
  asset.description = "output " + output.output + " of job " + job.value;
  asset.path =
      output.uri.empty() ? "azureml://jobs/" + job.value + "/outputs/" + output.output : output.uri;
  const std::string text = data_asset_text(asset);
  if (!registered_as(catalogue, asset.name, text).empty()) return Done{};
  const auto version =
      output.asset_version.empty() ? std::nullopt : std::optional(output.asset_version);
  const auto added = catalogue.add(asset.name, version, text);
  return added ? Status(Done{}) : added.error();
}

// A mount shows what is in the store at the moment, not what was there at submission.
Status check_streamed(const Home& home, const JobId& job, std::span<const std::string> streamed) {
  if (streamed.empty()) return Done{};
  const auto data = load_job_data(home.job(job));
  if (!data) return data.error();
  for (const JobInput& input : data->inputs) {
    if (std::ranges::find(streamed, input.input) == streamed.end()) continue;
    const auto credentials = load_secrets(home.root, input.place.store);
    if (!credentials) return credentials.error();
    const auto now = list_place(input.place, *credentials, "the submitting machine");
    const std::string about = "the data of input " + quoted_text(input.input);
    if (!now) return Error{"it is not known whether " + about + " changed: " + now.error().message};
    if (content_hash_of(data_manifest_text(*now)) != input.manifest) {
      return Error{about + " changed in the store while the job read them"};
    }
  }
  return Done{};
}

}  // namespace

Status finish_outputs(const Home& home, const JobId& job, bool registers) {
  const auto data = load_job_data(home.job(job));
  if (!data) return data.error();
  // A controller that was killed may have left one that goes on.
  const auto lock = home.job(job) / "upload.lock";
  const Fd held(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!held || ::flock(held.get(), LOCK_EX) != 0) return system_error("lock " + lock.string());
  JobData in_stores = *data;
  std::erase_if(in_stores.outputs, [](const JobOutput& output) { return output.uri.empty(); });
  const Status uploaded =
      upload_outputs(home.root, home.outputs(job), in_stores, "the submitting machine");
  if (!uploaded || !registers) return uploaded;
  for (const JobOutput& output : data->outputs) {
    if (output.asset_name.empty()) continue;
    if (auto done = register_output(home, job, output); !done) return done;
  }
  return Done{};
}

int upload_process(const Home& home, const JobId& job, bool registers,
                   std::span<const std::string> streamed) {
  if (const Status same = check_streamed(home, job, streamed); !same) {
    return print_error(same.error().message, plain_failure, {});
  }
  const Status done = finish_outputs(home, job, registers);
  if (done) return 0;
  return print_error("outputs were not copied to their store: " + done.error().message +
                         "; nothing is lost: `muster resume " + job.value +
                         " --upload` copies them",
                     plain_failure, {});
}

}  // namespace muster
