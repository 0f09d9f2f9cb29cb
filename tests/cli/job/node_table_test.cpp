#include "cli/job/node_table.h"

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

std::string text_of(const NodeLine& line) {
  return table_of_nodes({line}).text(0, false);
}

}  // namespace

TEST_CASE("nodes without GPUs have no column for them") {
  CHECK(table_of_nodes({node("h01", 0), node("h02", std::nullopt)}).text(0, false) ==
        "NODE  LINK  HOST      JOB  CONNECTED IN  DRAINED\n"
        "h01   up    host-h01  -    -             -\n"
        "h02   up    host-h02  -    -             -\n");
}

TEST_CASE("when a node has GPUs the table counts those of all nodes") {
  CHECK(
      table_of_nodes({node("h01", 8), node("h02", 0), node("h03", std::nullopt)}).text(0, false) ==
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

TEST_CASE("what muster does for a node, or could not do, stands beside why it is unfit") {
  NodeLine line = node("h01", 8);
  line.unfit = NodeFault{};
  line.unfit->what = "XID 95 on gpu3";
  line.unfit_reason = "muster:node:gpu.xid:gpu3 6f";
  line.unfit_since = from_ms(1'700'000'000'000);
  SECTION("while it is done") {
    line.remedy = "is being reset";
    line.remedy_since = line.unfit_since;
    line.remedies = {{*line.unfit_since, "6f", RemedyStep::reset, ""}};
    CHECK_THAT(text_of(line), ContainsSubstring("XID 95 on gpu3; is being reset since "));
    const Document all = nodes_document({line});
    CHECK(all[0]["remedy"]["what"] == "is being reset");
    CHECK(all[0]["remedies"][0]["failure"].is_null());
  }
  SECTION("when it failed") {
    line.remedies = {{*line.unfit_since, "6f", RemedyStep::reboot_from_here, "it is in use"}};
    CHECK_THAT(text_of(line),
               ContainsSubstring("XID 95 on gpu3; reboot by muster failed: it is in use"));
    const Document all = nodes_document({line});
    CHECK(all[0]["remedy"].is_null());
    CHECK(all[0]["remedies"][0]["step"] == "reboot_from_here");
    CHECK(all[0]["remedies"][0]["failure"] == "it is in use");
  }
  SECTION("when its command does not fit, also after another one") {
    line.not_remedied = "not reset by muster: nothing fits {gpu}";
    CHECK_THAT(text_of(line),
               ContainsSubstring("XID 95 on gpu3; not reset by muster: nothing fits {gpu}"));
    CHECK(nodes_document({line})[0]["not_remedied"] == line.not_remedied);
    line.remedies = {{*line.unfit_since, "6f", RemedyStep::reset, "it is in use"}};
    CHECK_THAT(
        text_of(line),
        ContainsSubstring("reset by muster failed: it is in use; not reset by muster: nothing"));
  }
  SECTION("for an earlier fault says nothing of this one") {
    line.remedies = {{from_ms(1), "5a", RemedyStep::reset, "it is in use"}};
    CHECK_THAT(text_of(line), !ContainsSubstring("failed"));
  }
}

TEST_CASE("the link of a node that muster reboots is down because of that, and up when it is up") {
  NodeLine line = node("h01", std::nullopt);
  line.link = "down: connection reset by peer";
  line.remedy = "is rebooting";
  line.remedy_since = from_ms(0);
  CHECK_THAT(text_of(line), ContainsSubstring("down: rebooting"));
  CHECK_THAT(text_of(line), !ContainsSubstring("connection reset"));
  line.link = "up";
  CHECK_THAT(text_of(line), !ContainsSubstring("down"));
  line.link = "down: connection reset by peer";
  line.remedy.clear();
  CHECK_THAT(text_of(line), ContainsSubstring("connection reset"));
}

TEST_CASE(
    "a node's link says for how long nothing was heard of it, and by which way it is reached") {
  const auto link_of = [](const NodeLine& line) {
    const std::string text = text_of(line);
    const std::size_t begin = text.find("h01   ") + 6;
    const std::size_t end = text.find_last_not_of(' ', text.find("host-h01") - 1);
    return text.substr(begin, end + 1 - begin);
  };
  NodeLine line = node("h01", std::nullopt);
  CHECK(link_of(line) == "up");
  line.through = NodeId{"h02"};
  CHECK(link_of(line) == "up through h02");
  line.silent = Milliseconds{42'900};
  CHECK(link_of(line) == "no word for 42 s");
  line.lost_at = Milliseconds{60'000};
  CHECK(link_of(line) == "no word for 42 s; declared lost at 60 s");
  line.link = "down: it is dead";
  CHECK(link_of(line) == "no word for 42 s; declared lost at 60 s (it is dead)");
}
