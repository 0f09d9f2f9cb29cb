// What a person has registered on this machine: datastores, versions of data, environments. One
// file for each version, as it was given, in `$MUSTER_HOME/catalogue/<kind>/<name>/`:
//
//   <version>.yml   <version>.archived   <label>.label (the version it stands for)
//
// A version never changes. Any number of processes may add at the same time: each gets a version
// of its own, and nobody sees half a file. No secrets: those are in launcher/data/datastore.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/controller/store/home.h"
#include "scheduler/model/result.h"

namespace muster {

struct CatalogueEntry {
  std::string name;
  std::string version;
  std::int64_t created_ns = 0;  // since 1970
  bool is_archived = false;
  std::string text;  // YAML
};

class Catalogue {
 public:
  enum class Kind { datastore, data, environment };

  Catalogue(const Home& home, Kind kind);

  // Without a version: the greatest whole number so far, and one more. The version that it is now;
  // an Error where that one exists.
  Result<std::string> add(const std::string& name, const std::optional<std::string>& version,
                          std::string_view text) const;
  // `which` is a version, `@latest` (the newest that is not archived), `@label`, or empty: latest.
  Result<CatalogueEntry> find(const std::string& name, std::string_view which) const;
  // The newest of each name, archived or not, by name.
  std::vector<CatalogueEntry> newest() const;
  // Of one name, oldest first.
  std::vector<CatalogueEntry> versions(const std::string& name) const;
  std::vector<std::string> names() const;

  // The version that the label stands for: from now on this one; `version` empty: no more any. An
  // Error: there is no such version or label, or the label is `latest`, which is muster's.
  Status set_label(const std::string& name, const std::string& version,
                   const std::string& label) const;
  // Of one version, by name.
  std::vector<std::string> labels(const CatalogueEntry& entry) const;

  // Of one version, or of all where none is given.
  Status set_archived(const std::string& name, const std::string& version, bool archived) const;
  Status remove(const std::string& name) const;

 private:
  std::filesystem::path folder(const std::string& name) const { return root_ / name; }
  Error not_found(const std::string& name) const;

  std::string word_;  // "data", "datastore", "environment"
  std::filesystem::path root_;
};

// "name:version" or "name@label" in its parts, the second with its `@`; empty where it has none.
std::pair<std::string, std::string> split_reference(std::string_view reference);

}  // namespace muster
