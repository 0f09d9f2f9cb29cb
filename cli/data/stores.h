// The datastores that this machine knows: those of the catalogue and of the cluster files, and what
// a storage address without one means. Reads files; says nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/client/targets.h"
#include "launcher/controller/store/home.h"
#include "launcher/data/listing.h"
#include "scheduler/model/datastore.h"

namespace muster {

// A query, which may be a signature, or a user: not for files and command lines.
bool may_hold_secret(std::string_view address);

// Where an address leads: a store that is known, or one without credentials.
struct AddressedPlace {
  PlaceInStore place;
  bool is_known = false;
};

class KnownStores {
 public:
  // Those of the cluster files come first: a site's name is the site's.
  KnownStores(const Home& home, std::vector<DatastoreFile> of_clusters, std::string default_name);

  const DatastoreFile* find(std::string_view name) const;
  std::vector<std::string> names() const;
  const std::string& default_name() const { return default_name_; }

  // wasbs://, abfss://, https:// of Azure's blobs, s3://, gs://, other https:// (one file).
  // Nothing: it is none of these.
  std::optional<AddressedPlace> at_address(std::string_view address) const;

  // Credentials from where the store's description has them, put where nodes' data are staged from.
  Status keep_credentials(const DatastoreSpec& spec) const;

 private:
  std::optional<AddressedPlace> in_azure(std::string_view address) const;
  std::optional<AddressedPlace> in_bucket(std::string_view address) const;
  std::optional<AddressedPlace> on_web(std::string_view address) const;

  Home home_;
  std::vector<DatastoreFile> stores_;
  std::string default_name_;
};

// A datastore of the catalogue as text was read from it.
Result<DatastoreFile> datastore_of_text(const std::string& name, std::string_view text);

}  // namespace muster
