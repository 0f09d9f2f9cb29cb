// What a path in a store holds, asked once, where a job is submitted. Blocking.
#pragma once

#include <string>

#include "launcher/data/manifest.h"
#include "scheduler/model/datastore.h"

namespace muster {

struct PlaceInStore {
  DatastoreSpec store;
  std::string path;      // below what the store begins with
  bool is_file = false;  // one file, or all below a directory

  MUSTER_FIELDS(store, path, is_file)
};

// Of a file the manifest's root is the directory that it is in. `machine` is for sentences.
Result<DataManifest> list_place(const PlaceInStore& place, const Credentials& credentials,
                                const std::string& machine);

// The directory that a manifest's paths start from.
std::string root_of(const PlaceInStore& place);

}  // namespace muster
