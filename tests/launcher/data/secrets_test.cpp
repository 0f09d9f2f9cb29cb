#include "launcher/data/datastore.h"

#include <sys/stat.h>
#include <unistd.h>

#include "scheduler/text/text.h"
#include "tests/catch.h"
#include "tests/launcher/staging/folder.h"
#include "tests/skip.h"

namespace muster {
namespace {

DatastoreSpec some_store(const std::string& account) {
  DatastoreSpec spec{"blob"};
  spec.account = account;
  spec.container = "c";
  return spec;
}

}  // namespace

TEST_CASE("secrets are kept in a file that is their owner's alone") {
  const Folder home;
  REQUIRE(save_secrets(home.path(), some_store("a"), {{"account_key", "k\"\n\xff"}}));
  const auto file = secret_file(home.path(), some_store("a"));
  struct stat facts {};
  REQUIRE(::stat(file.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
  CHECK(load_secrets(home.path(), some_store("a"))->contains("account_key"));
  CHECK(load_secrets(home.path(), some_store("b"))->empty());
  REQUIRE(save_secrets(home.path(), some_store("a"), {}));
  CHECK(load_secrets(home.path(), some_store("a"))->empty());
}

TEST_CASE("a file of secrets that others may read is refused") {
  const Folder home;
  REQUIRE(save_secrets(home.path(), some_store("a"), {{"account_key", "k"}}));
  ::chmod(secret_file(home.path(), some_store("a")).c_str(), 0644);
  const auto loaded = load_secrets(home.path(), some_store("a"));
  REQUIRE(!loaded);
  CHECK(mentions(loaded.error().message, "chmod 600"));
}

TEST_CASE("a file of secrets that is another user's is refused") {
  if (::geteuid() != 0) return skip_test("only root can give a file away");
  const Folder home;
  REQUIRE(save_secrets(home.path(), some_store("a"), {{"account_key", "k"}}));
  REQUIRE(::chown(secret_file(home.path(), some_store("a")).c_str(), 65534, 65534) == 0);
  const auto loaded = load_secrets(home.path(), some_store("a"));
  REQUIRE(!loaded);
  CHECK(mentions(loaded.error().message, "yours alone"));
}

TEST_CASE("what a store says comes without signatures, keys and passwords") {
  struct Row {
    const char* text;
    const char* becomes;
  };
  // As rclone 1.60.1 prints them, with the secrets replaced.
  const Row rows[] = {
      {"GET https://a.blob.core.windows.net/c?comp=list&sig=aB%2Fc%3D&sv=2020: 403",
       "GET https://a.blob.core.windows.net/c?comp=list&sig=***&sv=2020: 403"},
      {"Authorization: SharedKey acct:aGVsbG8=", "Authorization: ***"},
      {"{\"Authorization\": \"Bearer abc.def\"}", "{\"Authorization\": \"***\"}"},
      {"AccountKey=abc;EndpointSuffix=x", "AccountKey=***;EndpointSuffix=x"},
      {"dial ftp://user:pa55@host/x", "dial ftp://***@host/x"},
      {"X-Amz-Signature=0123&x=1", "X-Amz-Signature=***&x=1"},
      {"GET http://host/login?user=ann&password=pa55&x=1: 401",
       "GET http://host/login?user=ann&password=***&x=1: 401"},
      {"refresh_token=r3fr35h, expired", "refresh_token=***, expired"},
      {"nothing to hide", "nothing to hide"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const std::string out = redacted(row.text, {});
    CHECK(out == row.becomes);
  }
  CHECK(redacted("the key is S2V5S2V5 here", {"S2V5S2V5"}) == "the key is *** here");
}

TEST_CASE("the secrets of a configuration are its values that say no place") {
  const auto found = secrets_in_config(
      "[store]\ntype = azureblob\naccount = account1\nkey = S2V5S2V5\n"
      "sas_url = https://a.b/c?sv=1&sig=abcdef\n");
  REQUIRE(found.size() == 2);
  CHECK(found[0] == "S2V5S2V5");
  CHECK(found[1] == "sv=1&sig=abcdef");
}

TEST_CASE("of a key file in one line its secrets alone are secret, too") {
  const std::string config =
      "service_principal_file = {\"appId\":\"client-1\",\"password\":\"planted-1\","
      "\"tenant\":\"tenant-1\"}\n"
      "service_account_credentials = {\"client_email\":\"ann@lab\",\"private_key\":\"planted-2\","
      "\"token_uri\":\"https://t.example\"}\n";
  CHECK(redacted("client-1 of tenant-1 sent planted-1, ann@lab planted-2 to https://t.example",
                 secrets_in_config(config)) ==
        "client-1 of tenant-1 sent ***, ann@lab *** to https://t.example");
}

}  // namespace muster
