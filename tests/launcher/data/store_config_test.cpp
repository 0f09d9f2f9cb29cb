#include "launcher/data/datastore.h"

#include "scheduler/text/text.h"
#include "tests/catch.h"

namespace muster {
namespace {

DatastoreSpec blob_store() {
  DatastoreSpec spec{"blob"};
  spec.account = "acct";
  spec.container = "c";
  return spec;
}

DatastoreSpec s3_store() {
  DatastoreSpec spec{"s3", DatastoreType::rclone};
  spec.remote = "s3";
  spec.options = {{"provider", "Minio"}};
  spec.path = "bucket/base";
  return spec;
}

}  // namespace

TEST_CASE("a blob store is reached by key, by signature or as anybody") {
  CHECK(*rclone_config(blob_store(), {{"account_key", "S2V5"}}) ==
        "[store]\ntype = azureblob\naccount = acct\nkey = S2V5\n");
  CHECK(*rclone_config(blob_store(), {{"sas_token", "sv=1&sig=x"}}) ==
        "[store]\ntype = azureblob\naccount = acct\n"
        "sas_url = https://acct.blob.core.windows.net/c?sv=1&sig=x\n");
  CHECK(*rclone_config(blob_store(), {}) ==
        "[store]\ntype = azureblob\naccount = acct\n"
        "sas_url = https://acct.blob.core.windows.net/c\n");
  DatastoreSpec other = blob_store();
  other.endpoint = "core.test:10000";
  CHECK(mentions(*rclone_config(other, {{"account_key", "S2V5"}}),
                 "endpoint = blob.core.test:10000\n"));
}

TEST_CASE("a service principal is a line of JSON, which no value can leave") {
  const auto config =
      rclone_config(blob_store(), {{"client_id", "i"}, {"client_secret", "s"}, {"tenant_id", "t"}});
  CHECK(mentions(*config, "service_principal_file = {\"appId\":\"i\",\"password\":\"s\""));
  CHECK(!rclone_config(blob_store(), {{"client_id", "i"}, {"client_secret", "s\"x"}}));
}

TEST_CASE("options and credentials of another store are lines of its configuration") {
  CHECK(*rclone_config(s3_store(), {{"secret_access_key", "k"}}) ==
        "[store]\ntype = s3\nprovider = Minio\nsecret_access_key = k\n");
  CHECK(!rclone_config(s3_store(), {{"secret_access_key", "k\ntype = local"}}));
}

TEST_CASE("a path lies below what the store begins with") {
  CHECK(rclone_place(blob_store(), "/a//b/") == "store:c/a/b");
  CHECK(rclone_place(blob_store(), "") == "store:c");
  CHECK(rclone_place(s3_store(), "x") == "store:bucket/base/x");
  DatastoreSpec local{"nfs", DatastoreType::local};
  local.path = "/mnt/x";
  CHECK(rclone_place(local, "y") == "store:/mnt/x/y");
}

TEST_CASE("names with control characters are one line for rclone, and come back") {
  for (const char* name : {"a", "line\nfeed", "\x7f\t", "\xe2\x90\x8a", "\xe2\x80\x9b",
                           "\xe2\x80\x9b\xe2\x90\x8a\n", "\xe2\x90", "\xe2\x90\xa4"}) {
    CAPTURE(name);
    CHECK(!mentions(rclone_name(name), "\n"));
    CHECK(name_of_rclone(rclone_name(name)) == name);
  }
  CHECK(rclone_name("line\nfeed") ==
        "line\xe2\x90\x8a"
        "feed");
}

TEST_CASE("a store is the same whatever it is called, and another where anything differs") {
  DatastoreSpec renamed = blob_store();
  renamed.name = "other";
  CHECK(store_identity(renamed) == store_identity(blob_store()));
  renamed.container = "d";
  CHECK(store_identity(renamed) != store_identity(blob_store()));
}

TEST_CASE("a cache that nodes share comes before that of each") {
  JobData data;
  data.inputs.push_back({"data", "", {blob_store(), "a", false}});
  data.cache.cache = "/local/cache";
  CHECK(staged_data("/none", data)->at(0).cache == "/local/cache");
  data.cache.shared = "/lustre/cache";
  CHECK(staged_data("/none", data)->at(0).cache == "/lustre/cache");
}

TEST_CASE("hashes are asked of stores that have them") {
  CHECK(tells_hashes(*rclone_config(blob_store(), {})));
  CHECK(tells_hashes(*rclone_config(s3_store(), {})));
  DatastoreSpec files{"f", DatastoreType::rclone};
  files.remote = "sftp";
  CHECK(!tells_hashes(*rclone_config(files, {})));
}

}  // namespace muster
