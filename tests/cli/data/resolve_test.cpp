#include "cli/data/stores.h"

#include "cli/data/catalogue.h"
#include "scheduler/text/text.h"
#include "tests/catch.h"
#include "tests/cli/folder.h"

namespace muster {
namespace {

DatastoreFile blob_store(const std::string& name, const std::string& account) {
  DatastoreFile file;
  file.spec.name = name;
  file.spec.account = account;
  file.spec.container = "c";
  return file;
}

class ResolveSite {
  Folder folder_;

 public:
  ResolveSite() {
    DatastoreFile nfs;
    nfs.spec = {"nfs", DatastoreType::local};
    nfs.spec.path = "/mnt/x";
    DatastoreFile bucket;
    bucket.spec = {"bucket", DatastoreType::rclone};
    bucket.spec.remote = "s3";
    bucket.spec.path = "b/base";
    stores.emplace(home, std::vector{blob_store("blob", "acct"), nfs, bucket}, "blob");
  }
  // Of an input `x` with this path.
  ResolvedData resolve(const std::string& path, PathKind kind, DataType type) {
    job = {};
    job.spec.inputs["x"].path = path;
    job.spec.inputs["x"].path_kind = kind;
    job.spec.inputs["x"].type = type;
    return resolve_data(job, *stores, home);
  }
  PlaceInStore place_of(const std::string& path, DataType type = DataType::uri_folder) {
    const ResolvedData found = resolve(path, PathKind::datastore, type);
    REQUIRE(found.findings.empty());
    REQUIRE(found.data.inputs.size() == 1);
    return found.data.inputs[0].place;
  }
  std::string why_not(const std::string& path, PathKind kind = PathKind::datastore) {
    const ResolvedData found = resolve(path, kind, DataType::uri_folder);
    return found.findings.empty() ? "" : found.findings[0].message;
  }

  Home home{folder_.path()};
  std::optional<KnownStores> stores;
  JobFile job;
};

}  // namespace

TEST_CASE("a path of a datastore is found by its name, in both forms") {
  ResolveSite site;
  CHECK(site.place_of("azureml://datastores/blob/paths/a/b/").path == "a/b/");
  CHECK(site.place_of("azureml://subscriptions/s/resourcegroups/r/workspaces/w/datastores/blob/"
                      "paths/a")
            .store.account == "acct");
  CHECK(mentions(site.why_not("azureml://datastores/blub/paths/a"), "did you mean 'blob'?"));
  CHECK(mentions(site.why_not("azureml://datastores/blob/a"), "/paths/PATH"));
  CHECK(!site.why_not("azureml://datastores/blob/paths/../../a").empty());
}

TEST_CASE("an address is of the store that has its account and container, else of anybody's") {
  ResolveSite site;
  for (const char* address :
       {"wasbs://c@acct.blob.core.windows.net/a/b", "abfss://c@acct.dfs.core.windows.net/a/b",
        "https://acct.blob.core.windows.net/c/a/b"}) {
    CAPTURE(address);
    const PlaceInStore place = site.place_of(address);
    CHECK(place.store.name == "blob");
    CHECK(place.path == "a/b");
  }
  const PlaceInStore other = site.place_of("wasbs://d@acct.blob.core.windows.net/a%20b");
  CHECK(other.store.name == "acct-d");
  CHECK(other.store.container == "d");
  CHECK(other.path == "a b");
  CHECK(site.place_of("s3://b/base/x").store.name == "bucket");
  CHECK(site.place_of("s3://b/base/x").path == "/x");
  CHECK(site.place_of("s3://b/base2/x").store.name == "b");
  CHECK(site.place_of("s3://b/other").store.options.contains("env_auth"));
  CHECK(site.place_of("gs://b/x").store.remote == "google cloud storage");
}

TEST_CASE("another web address is one file") {
  ResolveSite site;
  const PlaceInStore place = site.place_of("https://host/d/iris.csv", DataType::uri_file);
  CHECK(place.store.options.at("url") == "https://host/d/");
  CHECK(place.path == "iris.csv");
  CHECK(place.is_file);
  CHECK(mentions(site.why_not("https://host/d/iris.csv"), "type: uri_file"));
}

TEST_CASE("an address with a signature is not taken, and the signature not told") {
  ResolveSite site;
  const std::string why = site.why_not("https://acct.blob.core.windows.net/c/a?sig=S2VjcmV0");
  CHECK(mentions(why, "sas_token"));
  CHECK(!mentions(why, "S2VjcmV0"));
}

TEST_CASE("an address with a user is not taken, and another with a sign in its path is") {
  ResolveSite site;
  const std::string why = site.why_not("https://ann:S2VjcmV0@host/a.csv");
  CHECK(mentions(why, "a user is not taken"));
  CHECK(!mentions(why, "S2VjcmV0"));
  CHECK(may_hold_secret("https://ann@host/a"));
  CHECK(!may_hold_secret("https://host/a@b"));
  CHECK(!may_hold_secret("wasbs://c@acct.blob.core.windows.net/a"));
}

TEST_CASE("a site's store comes before one of the catalogue that has its name") {
  const ResolveSite site;
  const Catalogue catalogue(site.home, Catalogue::Kind::datastore);
  for (const char* name : {"blob", "own"}) {
    REQUIRE(catalogue.add(name, {},
                          std::string("name: ") + name +
                              "\ntype: azure_blob\naccount_name: mine\ncontainer_name: c\n"));
  }
  const KnownStores stores(site.home, {blob_store("blob", "acct")}, "");
  REQUIRE(stores.all().size() == 2);
  CHECK(stores.find("blob")->spec.account == "acct");
  CHECK(stores.find("own")->spec.account == "mine");
}

TEST_CASE("credentials are kept for the store that they are of, not for another of its name") {
  const ResolveSite site;
  DatastoreFile file = blob_store("blob", "acct");
  file.credentials = {{"account_key", "S2V5"}};
  const KnownStores stores(site.home, {file}, "");
  DatastoreSpec other = file.spec;
  other.account = "elsewhere";
  REQUIRE(stores.keep_credentials(other));
  CHECK(load_secrets(site.home.root, other)->empty());
  REQUIRE(stores.keep_credentials(file.spec));
  CHECK(load_secrets(site.home.root, file.spec)->at("account_key") == "S2V5");
}

TEST_CASE("a store that all nodes see is a path") {
  ResolveSite site;
  const ResolvedData found =
      site.resolve("azureml://datastores/nfs/paths/a", PathKind::datastore, DataType::uri_folder);
  CHECK(found.data.inputs.empty());
  const InputSpec& input = site.job.spec.inputs["x"];
  CHECK(input.path == "/mnt/x/a");
  CHECK(input.path_kind == PathKind::local);
  CHECK(input.in_place);
}

TEST_CASE("data of the catalogue are what their version names") {
  ResolveSite site;
  const Catalogue catalogue(site.home, Catalogue::Kind::data);
  REQUIRE(catalogue.add("iris", {},
                        "name: iris\ntype: uri_file\n"
                        "path: azureml://datastores/blob/paths/iris.csv\n"));
  for (const char* path : {"azureml:iris:1", "azureml:iris@latest", "azureml:iris"}) {
    CAPTURE(path);
    const ResolvedData found = site.resolve(path, PathKind::asset, DataType::uri_folder);
    REQUIRE(found.data.inputs.size() == 1);
    CHECK(found.data.inputs[0].place.is_file);
    CHECK(site.job.spec.inputs["x"].path == path);
    CHECK(site.job.spec.inputs["x"].type == DataType::uri_file);
  }
  CHECK(mentions(site.why_not("azureml:iris:2", PathKind::asset), "has no version '2'"));
  CHECK(mentions(site.why_not("azureml:irys:1", PathKind::asset), "did you mean 'iris'?"));
  REQUIRE(catalogue.add("ring", {}, "name: ring\npath: azureml:ring:1\n"));
  CHECK(mentions(site.why_not("azureml:ring:1", PathKind::asset), "other data of the catalogue"));
}

TEST_CASE("outputs of a job on this machine are a path, and nothing beside them is") {
  ResolveSite site;
  std::filesystem::create_directories(site.home.outputs(JobId{"j"}) / "model");
  CHECK(site.why_not("azureml://jobs/j/outputs/model", PathKind::job_output).empty());
  CHECK(site.job.spec.inputs["x"].path == (site.home.outputs(JobId{"j"}) / "model").string());
  for (const char* path : {"azureml://jobs/j/outputs/none", "azureml://jobs/../outputs/x",
                           "azureml://jobs/j/outputs/..", "runs:/j/../../x", "azureml://jobs/j"}) {
    CAPTURE(path);
    CHECK(!site.why_not(path, PathKind::job_output).empty());
  }
}

TEST_CASE("outputs go to the store that they name, or to the default one") {
  ResolveSite site;
  JobSpec spec;
  spec.name = "j";
  spec.outputs["a"];
  spec.outputs["b"].path = "wasbs://c@acct.blob.core.windows.net/out";
  spec.outputs["b"].path_kind = PathKind::datastore;
  spec.outputs["b"].asset_name = "net";
  spec.outputs["c"].path = "/scratch/x";
  spec.outputs["c"].path_kind = PathKind::local;
  const auto outputs = outputs_to_stores(spec, *site.stores);
  REQUIRE(outputs.size() == 2);
  CHECK(outputs[0].uri == "azureml://datastores/blob/paths/azureml/j/a/");
  CHECK(outputs[0].place.path == "azureml/j/a/");
  CHECK(outputs[1].place.path == "out");
  CHECK(outputs[1].asset_name == "net");
}

}  // namespace muster
