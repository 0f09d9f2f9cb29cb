// The words that decisions share.
#include "scheduler/state/sentences.h"

#include <csignal>

#include "scheduler/state/limits.h"
#include "tests/catch.h"

using namespace muster;

TEST_CASE("an end is told by the name of its signal, or by its code") {
  CHECK(signal_name(SIGKILL) == "SIGKILL");
  CHECK(signal_name(SIGSEGV) == "SIGSEGV");
  CHECK(signal_name(SIGTERM) == "SIGTERM");
  CHECK(signal_name(77) == "signal 77");
  CHECK(signal_name(0) == "signal 0");
  CHECK(exit_text({0, SIGABRT}) == "was killed by SIGABRT");
  CHECK(exit_text({3, 0}) == "exited with code 3");
  CHECK(exit_text({0, 0}) == "exited with code 0");
}

TEST_CASE("a duration is told in the units in which people would tell it") {
  const std::pair<Milliseconds, const char*> rows[] = {{Milliseconds{0}, "0 s"},
                                                       {Milliseconds{240}, "0.2 s"},
                                                       {Milliseconds{5200}, "5.2 s"},
                                                       {Seconds{59}, "59 s"},
                                                       {Milliseconds{59'900}, "59.9 s"},
                                                       {Seconds{60}, "1 min"},
                                                       {Milliseconds{60'900}, "1 min"},
                                                       {Seconds{90}, "1 min 30 s"},
                                                       {Seconds{3599}, "59 min 59 s"},
                                                       {Seconds{3600}, "1 h"},
                                                       {Seconds{3659}, "1 h"},
                                                       {Seconds{5400}, "1 h 30 min"},
                                                       {Seconds{90'000}, "25 h"}};
  for (const auto& [duration, text] : rows) CHECK(duration_text(duration) == text);
}

TEST_CASE("of many some are named, and the others counted") {
  CHECK(count_text(0, "node") == "0 nodes");
  CHECK(count_text(1, "node") == "1 node");
  CHECK(count_text(2, "node") == "2 nodes");
  std::vector<std::string> parts;
  std::vector<NodeId> nodes;
  const auto add = [&](const std::string& name) {
    parts.push_back(name);
    nodes.push_back(NodeId{name});
  };
  CHECK(list_text(parts).empty());
  CHECK(names_text(nodes).empty());
  add("a");
  CHECK(list_text(parts) == "a");
  CHECK(names_text(nodes) == "a");
  add("b");
  CHECK(list_text(parts) == "a; b");
  CHECK(names_text(nodes) == "a and b");
  add("c");
  CHECK(list_text(parts) == "a; b; c");
  CHECK(names_text(nodes) == "a, b and c");
  while (parts.size() < static_cast<std::size_t>(nodes_named)) add("n");
  CHECK(list_text(parts).ends_with("; n"));
  CHECK(names_text(nodes).ends_with(" and n"));
  add("n");
  add("n");
  CHECK(list_text(parts).ends_with("; n and 2 more"));
  CHECK(names_text(nodes).ends_with(", n and 2 more"));
  CHECK(link_text(NodeId{"h02"}, {LinkFailureKind::unreachable, "no route"}) ==
        "h02 cannot be reached: no route");
}
