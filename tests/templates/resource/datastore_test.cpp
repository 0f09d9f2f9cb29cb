#include "templates/resource/datastore.h"

#include "scheduler/text/text.h"
#include "templates/cluster/file.h"
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

struct ReadStore {
  DatastoreFile file;
  std::string said;
};

ReadStore store_of(const std::string& text) {
  FindingList findings;
  ReadStore read;
  const auto tree = parse_with_sets("s.yml", text, in_project(), findings);
  if (tree) read.file = read_datastore(Value(*tree, "", findings));
  read.said = printed(findings.take_sorted());
  return read;
}

const std::string blob_file = "name: b\ntype: azure_blob\naccount_name: acct\ncontainer_name: c\n";

}  // namespace

TEST_CASE("credentials of a datastore come apart from what describes it") {
  const ReadStore read = store_of(blob_file + "credentials: {account_key: S2V5}\n");
  CHECK(read.said.empty());
  CHECK(read.file.credentials == Credentials{{"account_key", "S2V5"}});
  CHECK(!mentions(datastore_text(read.file.spec), "S2V5"));
}

TEST_CASE("a datastore that is written reads as the same") {
  for (const std::string& text :
       {blob_file + "endpoint: core.chinacloudapi.cn\ndescription: d\n",
        std::string("name: l\ntype: azure_data_lake_gen2\naccount_name: a\nfilesystem: f\n"),
        std::string("name: f\ntype: azure_file\naccount_name: a\nfile_share_name: f\n"),
        std::string("name: o\ntype: one_lake\none_lake_workspace_name: w\n"
                    "artifact: {type: lake_house, name: x}\n"),
        std::string("name: m\ntype: rclone\nremote: s3\noptions: {provider: Minio}\npath: b/c\n"),
        std::string("name: n\ntype: local\npath: /mnt/data/../x\ncredentials_file: k.yml\n")}) {
    CAPTURE(text);
    const ReadStore first = store_of(text);
    CHECK(first.said.empty());
    const ReadStore again = store_of(datastore_text(first.file.spec));
    CHECK(again.said.empty());
    CHECK(again.file.spec == first.file.spec);
  }
}

TEST_CASE("no finding about a datastore shows a secret") {
  const ReadStore read = store_of(blob_file + "credentials: {account_kye: S2VjcmV0}\n");
  CHECK(mentions(read.said, "unknown key 'account_kye'"));
  CHECK(!mentions(read.said, "S2VjcmV0"));
}

TEST_CASE("what would change rclone's configuration is refused") {
  for (const std::string& text :
       {std::string("name: m\ntype: rclone\nremote: s3\npath: \"b\\n[other]\"\n"),
        std::string("name: m\ntype: rclone\nremote: \"s3\\ntype = local\"\n"),
        std::string("name: m\ntype: rclone\nremote: s3\noptions: {\"a = b\": c}\n"),
        std::string("name: m\ntype: rclone\nremote: s3\noptions: {type: local}\n"),
        std::string("name: m\ntype: rclone\nremote: s3\noptions: {secret_access_key: k}\n"),
        std::string("name: m\ntype: rclone\nremote: s3\ncredentials: {k: \"a\\nb\"}\n"),
        std::string("name: ../m\ntype: local\npath: /x\n"),
        std::string("name: m\ntype: local\npath: x\n"),
        std::string("name: m\ntype: azure_blob\naccount_name: a/b\ncontainer_name: c\n")}) {
    CAPTURE(text);
    CHECK(mentions(store_of(text).said, "error: "));
  }
}

TEST_CASE("Data Lake Storage Gen1 is gone, and that is said") {
  const ReadStore read = store_of("name: g\ntype: azure_data_lake_gen1\nstore_name: s\n");
  CHECK(mentions(read.said, "unresolved: "));
  CHECK(mentions(read.said, "azure_data_lake_gen2"));
}

TEST_CASE("a cluster file has datastores and the cache of its nodes") {
  const std::string text =
      "datastores:\n"
      "  blob: stores/blob.yml\n"
      "  nfs: {type: local, path: /mnt/x}\n"
      "default_datastore: blob\n"
      "data: {cache: /local/cache, size: 500GB, stage_below: 40%, shared: none}\n";
  const ClusterFile file = read_cluster_file(
      "cluster.yml", text, in_project({{"/project/stores/blob.yml", blob_file}}));
  CHECK(!has_errors(file.findings));
  CHECK(file.data.stage_below == "40%");
  REQUIRE(file.datastores.size() == 2);
  CHECK(file.datastores[0].spec.name == "blob");
  CHECK(file.datastores[0].spec.account == "acct");
  CHECK(file.datastores[1].spec.path == "/mnt/x");
  CHECK(file.default_datastore == "blob");
  CHECK(file.data.cache == "/local/cache");
  CHECK(file.data.size == "500gb");
  CHECK(file.data.shared.empty());
  const ClusterFile wrong =
      read_cluster_file("cluster.yml", "data: {size: much, cache: here}\n", in_project());
  CHECK(mentions(printed(wrong.findings), "data.size: expected a share"));
  CHECK(mentions(printed(wrong.findings), "data.cache: expected a path"));
  for (const char* size : {"101%", "999%", "101 %", "5mfoo", "5 m"}) {
    CAPTURE(size);
    const std::string text_of_size = std::string("data: {size: '") + size + "'}\n";
    CHECK(has_errors(read_cluster_file("cluster.yml", text_of_size, in_project()).findings));
  }
  CHECK(read_cluster_file("c.yml", "data: {size: 100%}\n", in_project()).data.size == "100%");
}

}  // namespace muster
