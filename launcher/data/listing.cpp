#include "launcher/data/listing.h"

#include "launcher/data/rclone.h"
#include "launcher/data/store_config.h"
#include "launcher/staging/beneath.h"
#include "scheduler/text/spelling.h"

namespace muster {
namespace {

std::vector<std::string> list_words(const PlaceInStore& place) {
  std::vector<std::string> words{"lsjson", rclone_place(place.store, place.path), "-R",
                                 "--files-only", "--no-mimetype"};
  // Elsewhere it would read all the data.
  if (tells_hashes(place.store)) words.insert(words.end(), {"--hash", "--hash-type=md5"});
  return words;
}

Error listing_error(const PlaceInStore& place, const std::string& why) {
  return Error{"cannot list " + quoted_text(place.path.empty() ? "/" : place.path) +
               " of the datastore " + quoted_text(place.store.name) + ": " + why};
}

}  // namespace

std::string root_of(const PlaceInStore& place) {
  const std::string path = joined_path(place.path, "");
  return place.is_file ? std::string(split_last_component(path).first) : path;
}

Result<DataManifest> list_place(const PlaceInStore& place, const Credentials& credentials,
                                const std::string& machine) {
  DataManifest manifest{store_identity(place.store), root_of(place), {}};
  const auto config = rclone_config(place.store, credentials);
  if (!config) return listing_error(place, config.error().message);
  Status read = Done{};
  auto run = Rclone::begin({list_words(place), *config, {}, [&](std::string_view line) {
                              if (read && manifest.files.size() <= manifest_limit_files) {
                                read = read_listed(line, manifest.files);
                              }
                            }});
  if (!run) return listing_error(place, run.error().message);
  const auto failure = run->wait();
  if (failure && failure->is_missing_program) return Error{no_rclone_text(machine)};
  // Of a part alone: what was listed is not all.
  const bool is_nothing = failure && failure->is_not_found && manifest.files.empty();
  if (failure && !is_nothing) return listing_error(place, failure->message);
  if (!read) return listing_error(place, read.error().message);
  if (manifest.files.empty()) return listing_error(place, "there is nothing");
  if (manifest.files.size() > manifest_limit_files) {
    return listing_error(place, "it has more than " + std::to_string(manifest_limit_files) +
                                    " files; put them into larger files, or mount the store and "
                                    "use type: local");
  }
  if (auto ordered = put_in_order(manifest.files); !ordered) {
    return listing_error(place, ordered.error().message);
  }
  return manifest;
}

}  // namespace muster
