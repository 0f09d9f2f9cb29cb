#include "cli/client/repeated_traceback.h"

#include "tests/catch.h"

namespace muster {
namespace {

struct Shown {
  std::string text;
  RepeatedTraceback::Emit emit = [this](RankId rank, std::string_view line) {
    text += std::to_string(rank.value) + ": " + std::string(line) + "\n";
  };
  std::string take() { return std::exchange(text, ""); }
};

const std::string traceback_begins = "Traceback (most recent call last):";

void feed_one(RepeatedTraceback& tracebacks, Shown& shown, int rank, const std::string& exception) {
  for (const std::string& line : {traceback_begins, std::string("  File x"), exception}) {
    tracebacks.feed(RankId{rank}, line, shown.emit);
  }
}

TEST_CASE("a traceback is held until its exception has come, lines of other ranks are not") {
  Shown shown;
  RepeatedTraceback tracebacks;
  tracebacks.feed(RankId{0}, "[rank0]: " + traceback_begins, shown.emit);
  tracebacks.feed(RankId{1}, "epoch 1", shown.emit);
  for (const char* frame : {"  File x", "\tby a tab", ""}) {
    tracebacks.feed(RankId{0}, frame, shown.emit);
  }
  CHECK(shown.take() == "1: epoch 1\n");
  tracebacks.feed(RankId{0}, "ValueError: x", shown.emit);
  CHECK(shown.take() ==
        "0: [rank0]: " + traceback_begins +
            "\n0:   File x\n0: \tby a tab\n0: \n0: ValueError: x\n");
  tracebacks.feed(RankId{0}, "  indented, and of no traceback", shown.emit);
  CHECK(shown.take() == "0:   indented, and of no traceback\n");
  tracebacks.finish(shown.emit);
  CHECK(shown.text.empty());
}

TEST_CASE("a traceback that another one interrupts is shown, and the other one is held") {
  Shown shown;
  RepeatedTraceback tracebacks;
  tracebacks.feed(RankId{0}, traceback_begins, shown.emit);
  tracebacks.feed(RankId{0}, "  File a", shown.emit);
  tracebacks.feed(RankId{0}, traceback_begins, shown.emit);
  CHECK(shown.take() == "0: " + traceback_begins + "\n0:   File a\n");
  tracebacks.feed(RankId{0}, "  File b", shown.emit);
  CHECK(shown.text.empty());
  tracebacks.finish(shown.emit);
  CHECK(shown.take() == "0: " + traceback_begins + "\n0:   File b\n");
  tracebacks.finish(shown.emit);
  CHECK(shown.text.empty());
}

TEST_CASE("each traceback is counted by itself, with the ranks that had it") {
  Shown shown;
  RepeatedTraceback tracebacks;
  feed_one(tracebacks, shown, 3, "A");
  feed_one(tracebacks, shown, 3, "B");
  shown.take();
  feed_one(tracebacks, shown, 3, "A");
  for (const int rank : {4, 4, 5}) feed_one(tracebacks, shown, rank, "B");
  CHECK(shown.text.empty());
  tracebacks.finish(shown.emit);
  CHECK(shown.take() == "3: (the traceback that ends with 'A' came 1 more time)\n"
                        "3: (the traceback that ends with 'B' came 3 more times, from 3 ranks in "
                        "all)\n");
  feed_one(tracebacks, shown, 6, "A");  // of another output: shown again
  CHECK_THAT(shown.take(), ContainsSubstring("6: A\n"));
}

TEST_CASE("of a hundred tracebacks each is known again, more are shown whenever they come") {
  Shown shown;
  RepeatedTraceback tracebacks;
  for (int i = 0; i < 101; ++i) feed_one(tracebacks, shown, 0, std::to_string(i));
  shown.take();
  feed_one(tracebacks, shown, 1, "99");
  CHECK(shown.text.empty());
  feed_one(tracebacks, shown, 1, "100");
  CHECK(shown.take() == "1: " + traceback_begins + "\n1:   File x\n1: 100\n");
}

TEST_CASE("a traceback of 200 lines is shown before its exception comes") {
  Shown shown;
  RepeatedTraceback tracebacks;
  tracebacks.feed(RankId{0}, traceback_begins, shown.emit);
  for (int i = 0; i < 198; ++i) tracebacks.feed(RankId{0}, "  frame", shown.emit);
  CHECK(shown.text.empty());
  tracebacks.feed(RankId{0}, "  frame", shown.emit);
  CHECK_FALSE(shown.take().empty());
  tracebacks.feed(RankId{0}, "  frame", shown.emit);
  CHECK(shown.take() == "0:   frame\n");
}

}  // namespace
}  // namespace muster
