// Trees and blobs from a controller to a node's directories.
#include <filesystem>

#include "launcher/staging/blob_store.h"
#include "tests/catch.h"
#include "tests/launcher/agent/test_node.h"

using namespace muster;

namespace {

TreeEntry a_file(const BlobStore& store, const std::string& path, const std::string& text) {
  auto blob = store.put_bytes(text);
  REQUIRE(blob);
  return {TreeEntry::Kind::file, path, 0644, blob->size_bytes, blob->hash, {}};
}

void send_blobs(AgentClient& client, const BlobStore& store, const WantBlobs& wanted) {
  for (const std::string& hash : wanted.hashes) {
    const auto bytes = store.read(hash, 0, 1 << 20);
    REQUIRE(bytes);
    client.send(BlobData{hash, 0, true}, *bytes);
  }
}

}  // namespace

TEST_CASE("code and inputs are requested once and are there when the rank starts") {
  TestNode node;
  REQUIRE(node.serve() == 0);
  auto store = BlobStore::open(node.home() + "/controller-blobs");
  REQUIRE(store);
  StageTrees request{JobId{"job"}, AttemptId{}, {}};
  request.trees.push_back(
      {"code", {a_file(*store, "main.sh", "cat \"$1\"; echo '#' >> main.sh\n")}, true});
  request.trees.push_back({"inputs/data", {a_file(*store, "text", "hello\n")}, false});
  AgentClient client = node.greeted();
  client.send(request);
  auto wanted = client.await<WantBlobs>();
  REQUIRE(wanted);
  CHECK(wanted->hashes.size() == 2);

  SECTION("at once") {
    send_blobs(client, *store, *wanted);
    auto done = client.expect<StageDone>();
    CHECK(done.error == "");
    client.ask<StageDone>(request);
  }
  SECTION("after a broken connection") {
    client = node.greeted();
    client.send(request);
    wanted = client.await<WantBlobs>();
    REQUIRE(wanted);
    send_blobs(client, *store, *wanted);
    REQUIRE(client.await<StageDone>());
  }
  auto start = a_start("sh main.sh \x01inputs.data\x02/text");
  start.inputs["data"].path_kind = PathKind::local;
  start.inputs["data"].path = "/home/of/the/submitter";
  client.send(start);
  REQUIRE(client.wait([&] { return client.ended().contains(0); }));
  client.ask<AttemptClean>(a_stop());
  CHECK(client.output(0) == "hello\n");
}

TEST_CASE("a blob that is not what was promised fails the staging") {
  TestNode node;
  AgentClient client = node.begin();
  auto store = BlobStore::open(node.home() + "/controller-blobs");
  REQUIRE(store);
  const auto wanted = client.ask<WantBlobs>(
      StageTrees{JobId{"job"}, AttemptId{}, {{"code", {a_file(*store, "a", "good")}, true}}});
  client.send(BlobData{wanted.hashes[0], 0, true}, "evil");
  const auto done = client.expect<StageDone>();
  CHECK(done.error != "");
}

TEST_CASE("a tree that leads out of the job's directory is refused") {
  TestNode node;
  AgentClient client = node.begin();
  const auto done = client.ask<StageDone>(
      StageTrees{JobId{"job"},
                 AttemptId{},
                 {{"code", {{TreeEntry::Kind::directory, "../../x", 0755, 0, {}, {}}}, true}}});
  CHECK(done.error != "");
}
