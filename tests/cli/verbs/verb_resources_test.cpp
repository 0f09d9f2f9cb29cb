// Datastores and data as they are typed; what real stores do is in tests/e2e/data.sh.
#include <nlohmann/json.hpp>

#include "launcher/data/datastore.h"
#include "tests/catch.h"
#include "tests/cli/command_site.h"

using namespace muster;

namespace {

const std::string bucket = "name: bucket\ntype: rclone\nremote: s3\npath: b\n";

DatastoreSpec bucket_spec() {
  DatastoreSpec spec{"bucket", DatastoreType::rclone};
  spec.remote = "s3";
  spec.path = "b";
  return spec;
}

}  // namespace

TEST_CASE("a datastore that is updated without credentials keeps those that it has") {
  const CommandSite site;
  const std::string with =
      site.add("with.yml", bucket + "credentials: {secret_access_key: k3y-of-it}\n");
  const std::string without = site.add("without.yml", bucket + "description: mine\n");
  CHECK(site.type("datastore update -f " + without).code == 90);  // there is none
  CHECK(site.type("datastore create -f " + with).code == 0);
  const SaidByVerb updated = site.type("datastore update -f " + without + " -o json");
  CHECK(updated.code == 0);
  CHECK(updated.document()["description"] == "mine");
  CHECK(updated.document()["credentials"]["secret_access_key"] == "***");
  CHECK(load_secrets(site.home().root, bucket_spec())->at("secret_access_key") == "k3y-of-it");
  CHECK(site.type("datastore delete bucket").code == 0);
  CHECK(load_secrets(site.home().root, bucket_spec())->empty());
}

TEST_CASE("data whose address may hold a secret are not registered") {
  const CommandSite site;
  int number = 0;
  for (const char* path :
       {"https://a.blob.core.windows.net/c/x?sig=S2VjcmV0", "https://ann:S2VjcmV0@host/x.csv"}) {
    CAPTURE(path);
    const std::string file = site.add("data" + std::to_string(++number) + ".yml",
                                      std::string("name: d\ntype: uri_file\npath: ") + path + "\n");
    const SaidByVerb said = site.type("data create -f " + file);
    CHECK(said.code == 90);
    CHECK_THAT(said.err, ContainsSubstring("sas_token"));
    CHECK_THAT(said.out + said.err, !ContainsSubstring("S2VjcmV0"));
  }
  CHECK(site.type("data show d").code == 1);
}
