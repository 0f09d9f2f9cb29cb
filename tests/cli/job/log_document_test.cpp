#include "cli/job/log_document.h"

#include "cli/client/output_merger.h"
#include "tests/catch.h"

using namespace muster;

TEST_CASE("output for machines has a line each with its attempt and rank") {
  LogDocument lines;
  lines.feed(AttemptId{0}, RankId{1}, "one\ntw");
  lines.feed(AttemptId{0}, RankId{0}, "\n");
  lines.feed(AttemptId{0}, RankId{1}, "o\n");
  lines.feed(AttemptId{1}, RankId{1}, "unfinished");
  CHECK(lines.take().dump() ==
        R"([{"attempt":0,"rank":1,"text":"one"},{"attempt":0,"rank":0,"text":""},)"
        R"({"attempt":0,"rank":1,"text":"two"},{"attempt":1,"rank":1,"text":"unfinished"}])");
  CHECK(lines.take().dump() == "[]");
}

TEST_CASE("a line without an end is given to machines in pieces too") {
  LogDocument lines;
  lines.feed(AttemptId{0}, RankId{0}, std::string(2 * OutputMerger::line_limit_bytes + 1, 'x'));
  const Document out = lines.take();
  REQUIRE(out.size() == 3);
  CHECK(out[0]["text"].get<std::string>().size() == OutputMerger::line_limit_bytes);
  CHECK(out[2]["text"] == "x");
}
