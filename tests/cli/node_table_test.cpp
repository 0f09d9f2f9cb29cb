#include "cli/node_table.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"

using namespace muster;

namespace {

NodeLine node(const std::string& name, std::optional<int> gpus) {
  NodeLine line;
  line.node = name;
  line.link = "up";
  line.host_name = "host-" + name;
  line.gpus = gpus;
  return line;
}

}  // namespace

TEST_CASE("nodes without GPUs have no column for them") {
  CHECK(table_of_nodes({node("h01", 0), node("h02", std::nullopt)}).text(0, false) ==
        "NODE  LINK  HOST      JOB  CONNECTED IN  DRAINED\n"
        "h01   up    host-h01  -    -             -\n"
        "h02   up    host-h02  -    -             -\n");
}

TEST_CASE("when a node has GPUs the table counts those of all nodes") {
  CHECK(table_of_nodes({node("h01", 8), node("h02", 0), node("h03", std::nullopt)})
            .text(0, false) ==
        "NODE  LINK  HOST      GPUS  JOB  CONNECTED IN  DRAINED\n"
        "h01   up    host-h01  8     -    -             -\n"
        "h02   up    host-h02  0     -    -             -\n"
        "h03   up    host-h03  -     -    -             -\n");
}

TEST_CASE("the GPUs of a node are always in the document, null while nobody knows") {
  const Document all = nodes_document({node("h01", 8), node("h02", std::nullopt)});
  CHECK(all[0]["gpus"] == 8);
  CHECK(all[1].contains("gpus"));
  CHECK(all[1]["gpus"].is_null());
}
