#include "cli/job/plan.h"

#include "launcher/controller/store/store.h"
#include "tests/catch.h"
#include "tests/cli/folder.h"

using namespace muster;

TEST_CASE("a node says why it would get no job now") {
  NodeLine node;
  node.node = "h02";
  node.link = "up";
  CHECK(why_unavailable(node) == "");
  node.link = "not connected";
  CHECK(why_unavailable(node) == "");
  node.link = "down: connection refused";
  CHECK(why_unavailable(node) == "h02 is down: connection refused");
  node.set_aside = "broke 3 jobs";
  CHECK(why_unavailable(node) == "h02 is cordoned: broke 3 jobs");
  node.remedy = "is rebooting";
  CHECK(why_unavailable(node) == "h02 is rebooting");
  node.unfit = NodeFault{};
  node.unfit_reason = "gpu.count";
  CHECK(why_unavailable(node) == "h02 is drained by a health check: gpu.count");
  node.drained = true;
  CHECK(why_unavailable(node) == "h02 is drained");
  node.drain_reason = "fan";
  CHECK(why_unavailable(node) == "h02 is drained: fan");
}

TEST_CASE("without a controller the journal says which nodes are drained") {
  Folder home;
  CHECK(unavailable_nodes({home.path() / "none"}).empty());
  auto store = Store::open(home.path(), Store::Mode::read_write);
  REQUIRE(store);
  const auto drain = [&](const char* node, bool drained) {
    NodeDrainSet set;
    set.node = NodeId{node};
    set.drained = drained;
    set.reason = "fan";
    REQUIRE((*store)->append({{from_ms(1000), Observation{set}}}, {}));
  };
  drain("h01", true);
  drain("h02", true);
  drain("h02", false);
  const UnavailableNodes nodes = unavailable_nodes({home.path()});
  REQUIRE(nodes.size() == 1);
  CHECK_THAT(nodes.at(NodeId{"h01"}), ContainsSubstring("fan"));
}
