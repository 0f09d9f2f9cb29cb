// What is said of an image and of data before they are brought, and what a node has of them.
#include "cli/image/needs.h"

#include <fstream>

#include "scheduler/text/text.h"
#include "tests/catch.h"
#include "tests/cli/folder.h"

using namespace muster;

namespace {

constexpr std::int64_t gigabyte = std::int64_t{1} << 30;

JobSpec spec_of(int nodes, std::int64_t bytes) {
  JobSpec spec;
  spec.muster.nodes_max = nodes;
  spec.inputs["train"].data_bytes = bytes;
  spec.inputs["train"].data_files = 2;
  return spec;
}

JobData data_in(const DatastoreSpec& store, const std::string& how = "auto") {
  JobData data;
  data.inputs.push_back({"train", std::string(64, 'a'), {store, "cifar"}, how});
  return data;
}

DatastoreSpec store_of(DatastoreType type, const std::string& remote = "") {
  DatastoreSpec store{"blob", type};
  store.remote = remote;
  return store;
}

JobNeed data_need(int nodes, std::int64_t bytes, const JobData& data) {
  const auto needs = needs_of(spec_of(nodes, bytes), data, {}, {}, {});
  REQUIRE(needs.size() == 1);
  return needs[0];
}

JobNeed image_need(int nodes, ImageBringer pull, const std::string& pulled = "docker.io/a/b:1") {
  JobSpec spec = spec_of(nodes, 0);
  spec.environment.image = "a/b:1";
  spec.environment.pull_name = pulled;
  spec.environment.digest = "sha256:1";
  spec.environment.image_bytes = 3 * gigabyte;
  ImageSettings images;
  images.pull = pull;
  const auto needs = needs_of(spec, {}, {}, {}, images);
  REQUIRE(needs.size() == 1);
  return needs[0];
}

std::string fate(const std::string& home, std::int64_t bytes, const std::string& how,
                 const std::string& size = "1gb", const std::string& digit = "a") {
  StagedData data{"train", std::string(64, digit[0]), "", ""};
  data.size = size;
  data.stage_below = "50%";
  data.how = how;
  const Holdings held = holdings_here(HoldingsAsked{{data}, {{"train", bytes}}}, home);
  return held.contains("inputs.train") ? held.at("inputs.train") : "";
}

}  // namespace

TEST_CASE("data are told with their bytes, where they come from, and what all nodes fetch") {
  const DatastoreSpec blob = store_of(DatastoreType::azure_blob);
  CHECK(data_need(2, gigabyte, data_in(blob)).text ==
        "2 files, 1.0 GiB from blob: cifar, copied to each of 2 nodes, or streamed where that is "
        "more than 50% of the cache (80%): up to 2.0 GiB in all");
  CHECK(data_need(1, gigabyte, data_in(blob, "stream")).text ==
        "2 files, 1.0 GiB from blob: cifar, streamed by the node");
  JobData shared = data_in(blob);
  shared.cache.shared = "/mnt/cache";
  CHECK(data_need(64, gigabyte, shared).text ==
        "2 files, 1.0 GiB from blob: cifar, copied once to /mnt/cache, which all nodes see");
  CHECK(data_need(64, gigabyte, shared).warning.empty());
}

TEST_CASE("many bytes out of a cloud are warned of, with what spares them") {
  const DatastoreSpec blob = store_of(DatastoreType::azure_blob);
  CHECK(mentions(data_need(9, gigabyte, data_in(blob)).warning, "data: {shared: DIRECTORY}"));
  CHECK(mentions(data_need(2, 100 * gigabyte, data_in(blob)).warning, "100.0 GiB"));
  CHECK(data_need(8, gigabyte, data_in(blob)).warning.empty());
  CHECK(data_need(1, 1000 * gigabyte, data_in(blob)).warning.empty());
  DatastoreSpec own = store_of(DatastoreType::rclone, "s3");
  CHECK_FALSE(data_need(9, gigabyte, data_in(own)).warning.empty());
  own.options["endpoint"] = "http://minio.lab:9000";
  CHECK(data_need(9, gigabyte, data_in(own)).warning.empty());
}

TEST_CASE("an image is told with who fetches it and what all nodes fetch") {
  CHECK(image_need(2, ImageBringer::nodes).text ==
        "docker.io/a/b@sha256:1, 3.0 GiB, pulled from docker.io by each node that lacks it: up to "
        "6.0 GiB in all");
  CHECK(image_need(2, ImageBringer::controller).text ==
        "docker.io/a/b@sha256:1, 3.0 GiB, fetched here from docker.io and copied to each of 2 "
        "nodes: up to 6.0 GiB in all");
  CHECK(mentions(image_need(9, ImageBringer::nodes).warning, "'mirrors'"));
  CHECK(image_need(8, ImageBringer::nodes).warning.empty());
  CHECK(image_need(9, ImageBringer::nodes, "registry.lab/a/b:1").warning.empty());
}

TEST_CASE("copies of an image beyond a terabyte are made where the site asks for them") {
  ImageSettings images;
  CommonOptions quiet;
  quiet.only_show_errors = true;
  CHECK_NOTHROW(check_copies(100 * gigabyte, 9, images, quiet));
  CHECK_THROWS_AS(check_copies(100 * gigabyte, 10, images, quiet), VerbEnd);
  images.pull = ImageBringer::controller;
  CHECK_NOTHROW(check_copies(100 * gigabyte, 10, images, quiet));
}

TEST_CASE("a node says what it has and what would fit, and makes nothing for that") {
  const Folder folder;
  const std::string home = folder.path().string();
  CHECK(fate(home, 1000, "auto") == "not cached, fits");
  CHECK(fate(home, 600'000'000, "auto") == "streamed");
  CHECK(fate(home, 600'000'000, "stage") == "not cached, fits");
  CHECK(fate(home, 1000, "stream") == "streamed");
  CHECK(mentions(fate(home, 2'000'000'000, "stage"), "does not fit: the cache may take 953.7 MiB"));
  CHECK(fate(home, 1000, "stage", "1gb", "/") == "");
  CHECK(std::filesystem::is_empty(folder.path()));
  std::filesystem::create_directories(folder.path() / "data/objects/aa");
  std::ofstream(folder.path() / "data/objects/aa/aa1") << std::string(2'000'000, 'x');
  CHECK(fate(home, 2'000'000, "stage", "3mb") == "not cached, fits once unused data are removed");
  std::filesystem::create_directories(folder.path() / "data/trees" / std::string(64, 'a'));
  CHECK(fate(home, 2'000'000, "stage", "3mb") == "cached");
}

TEST_CASE("what nodes said is told in groups, and what none said is unknown") {
  const std::vector<NodeId> nodes{{"h1"}, {"h2"}, {"h3"}, {"h4"}, {"h5"}, {"h6"}};
  CHECK(holdings_text("train", {{"h1"}}, {}) == "h1: unknown until the job starts");
  std::map<NodeId, Holdings> held;
  for (const NodeId& node : nodes) held[node]["train"] = "cached";
  held[{"h2"}]["train"] = "e\x1b[2Jvil\n";
  CHECK(holdings_text("train", nodes, held) == "h1, h3, h4, h5 and 1 more: cached; h2: e?[2Jvil ");
  CHECK(mentions(*holdings_here(R"({"version":1,"data":[],"bytes":{}})", "/tmp"), "holdings"));
  CHECK(!holdings_here("{}", "/tmp"));
}
