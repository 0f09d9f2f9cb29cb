#include "launcher/data/upload.h"

#include "launcher/data/rclone.h"
#include "launcher/data/secrets.h"
#include "launcher/data/store_config.h"
#include "scheduler/text/spelling.h"

namespace muster {

Status upload_tree(const std::filesystem::path& source, const PlaceInStore& place,
                   const Credentials& credentials, const std::string& machine) {
  const auto config = rclone_config(place.store, credentials);
  if (!config) return config.error();
  const std::string to = rclone_place(place.store, place.path);
  auto run = Rclone::begin({{place.is_file ? "copyto" : "copy", source.string(), to,
                             "--create-empty-src-dirs=false", "--transfers=8"},
                            *config});
  if (!run) return run.error();
  const auto failure = run->wait();
  if (!failure) return Done{};
  if (failure->is_missing_program) return Error{no_rclone_text(machine)};
  return Error{"cannot copy to " + quoted_text(place.path) + " of the datastore " +
               quoted_text(place.store.name) + ": " + failure->message};
}

Status upload_outputs(const std::filesystem::path& home, const std::filesystem::path& outputs,
                      const JobData& data, const std::string& machine) {
  Status all = Done{};
  for (const JobOutput& output : data.outputs) {
    std::error_code ignored;
    const auto source = outputs / output.output;
    if (!std::filesystem::exists(source, ignored)) continue;
    const auto credentials = load_secrets(home, output.place.store);
    const Status done = credentials ? upload_tree(source, output.place, *credentials, machine)
                                    : Status(credentials.error());
    if (done || !all) continue;
    all = Error{"output " + quoted_text(output.output) + ": " + done.error().message};
  }
  return all;
}

}  // namespace muster
