#include "cli/client/log_follower.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/catch.h"

using namespace muster;

namespace {

struct Written {
  std::string text;
  std::size_t largest = 0;

  OutputMerger::Write write() {
    return [this](std::string_view bytes) {
      text += bytes;
      largest = std::max(largest, bytes.size());
    };
  }
};

std::string traceback(const std::string& exception) {
  return "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n" +
         exception + "\n";
}

const std::string traceback_begins = "Traceback (most recent call last):";

struct Shown {
  std::string text;
  RepeatedTraceback::Emit emit = [this](RankId rank, std::string_view line) {
    text += std::to_string(rank.value) + ": " + std::string(line) + "\n";
  };
  std::string take() { return std::exchange(text, ""); }

  void feed(int rank, const std::string& line) { tracebacks.feed(RankId{rank}, line, emit); }
  void feed_one(int rank, const std::string& exception) {
    for (const std::string& line : {traceback_begins, std::string("  File x"), exception}) {
      feed(rank, line);
    }
  }
  void finish() { tracebacks.finish(emit); }

  RepeatedTraceback tracebacks;
};

}  // namespace

TEST_CASE("one rank's bytes come as they are, at once") {
  Written written;
  OutputMerger merger({}, written.write());
  merger.feed(RankId{0}, "enter: ");
  CHECK(written.text == "enter: ");
  CHECK_FALSE(merger.at_line_start());
  merger.feed(RankId{0}, "\xff\x1b[2J\n");
  merger.finish();
  CHECK(written.text == "enter: \xff\x1b[2J\n");
}

TEST_CASE("lines of several ranks are never mixed and carry their rank") {
  Written written;
  OutputMerger merger({.prefix = true}, written.write());
  merger.feed(RankId{0}, "first ha");
  merger.feed(RankId{1}, "whole\nbegun");
  merger.feed(RankId{0}, "lf\nsecond\n");
  merger.finish();
  CHECK(written.text == "1: whole\n0: first half\n0: second\n1: begun\n");
}

TEST_CASE("an empty line keeps its prefix") {
  Written written;
  OutputMerger merger({.prefix = true}, written.write());
  merger.feed(RankId{3}, "\n\n");
  CHECK(written.text == "3: \n3: \n");
}

TEST_CASE("a line without an end is given in pieces of bounded size") {
  Written written;
  OutputMerger merger({.prefix = true}, written.write());
  const std::string block(256 * 1024, 'x');
  for (int i = 0; i < 100; ++i) merger.feed(RankId{0}, block);
  merger.finish();
  CHECK(std::count(written.text.begin(), written.text.end(), 'x') == 100 * 256 * 1024);
  CHECK(written.largest < 2 * block.size());
}

TEST_CASE("on a terminal output is filtered, also for an unfinished character at the end") {
  Written written;
  OutputMerger merger({.terminal = true}, written.write());
  merger.feed(RankId{0}, "a\x1b[2Jb\xe2\x82");
  merger.finish();
  CHECK(written.text == "ab\xEF\xBF\xBD");
}

TEST_CASE("a colour that one rank leaves on is turned off at the end") {
  Written written;
  OutputMerger merger({.prefix = false, .terminal = true}, written.write());
  merger.feed(RankId{0}, "\x1b[31mred\n");
  CHECK(merger.leaves_color());
  merger.finish();
  CHECK(written.text == "\x1b[31mred\n\x1b[0m");

  Written plain;
  OutputMerger reset({.prefix = false, .terminal = true}, plain.write());
  reset.feed(RankId{0}, "\x1b[31mred\x1b[0m\n");
  CHECK_FALSE(reset.leaves_color());
  reset.finish();
  CHECK(plain.text == "\x1b[31mred\x1b[0m\n");
}

TEST_CASE("a traceback that 200 ranks have is shown once, with a count at the end") {
  Written written;
  OutputMerger merger({.prefix = true}, written.write());
  merger.feed(RankId{0}, "begun\n");
  for (int rank = 0; rank < 200; ++rank) merger.feed(RankId{rank}, traceback("ValueError: x"));
  merger.feed(RankId{7}, traceback("ValueError: y") + "after\n");
  merger.finish();
  CHECK(written.text ==
        "0: begun\n0: Traceback (most recent call last):\n"
        "0:   File \"train.py\", line 3, in <module>\n0: ValueError: x\n"
        "7: Traceback (most recent call last):\n"
        "7:   File \"train.py\", line 3, in <module>\n7: ValueError: y\n7: after\n"
        "0: (the traceback that ends with 'ValueError: x' came 199 more times, from 200 ranks in "
        "all)\n");
}

TEST_CASE("a traceback that is cut short or very long is shown as it came") {
  Written written;
  OutputMerger merger({.prefix = true}, written.write());
  merger.feed(RankId{0}, traceback("A") + traceback("A"));
  merger.feed(RankId{1}, "Traceback (most recent call last):\n  File x\n");
  merger.finish();
  CHECK_THAT(written.text,
             ContainsSubstring("1: Traceback (most recent call last):\n1:   File x\n"));
  CHECK_THAT(written.text, ContainsSubstring("'A' came 1 more time)"));

  Written lengthy;
  OutputMerger other({.prefix = true}, lengthy.write());
  std::string frames;
  for (int i = 0; i < 1000; ++i) frames += "  frame\n";
  other.feed(RankId{0}, "Traceback (most recent call last):\n" + frames);
  CHECK(std::count(lengthy.text.begin(), lengthy.text.end(), '\n') == 1001);
}

TEST_CASE("a traceback is held until its exception has come, lines of other ranks are not") {
  Shown shown;
  shown.feed(0, "[rank0]: " + traceback_begins);
  shown.feed(1, "epoch 1");
  for (const char* frame : {"  File x", "\tby a tab", ""}) {
    shown.feed(0, frame);
  }
  CHECK(shown.take() == "1: epoch 1\n");
  shown.feed(0, "ValueError: x");
  CHECK(shown.take() == "0: [rank0]: " + traceback_begins +
                            "\n0:   File x\n0: \tby a tab\n0: \n0: ValueError: x\n");
  shown.feed(0, "  indented, and of no traceback");
  CHECK(shown.take() == "0:   indented, and of no traceback\n");
  shown.finish();
  CHECK(shown.text.empty());
}

TEST_CASE("a traceback that another one interrupts is shown, and the other one is held") {
  Shown shown;
  shown.feed(0, traceback_begins);
  shown.feed(0, "  File a");
  shown.feed(0, traceback_begins);
  CHECK(shown.take() == "0: " + traceback_begins + "\n0:   File a\n");
  shown.feed(0, "  File b");
  CHECK(shown.text.empty());
  shown.finish();
  CHECK(shown.take() == "0: " + traceback_begins + "\n0:   File b\n");
  shown.finish();
  CHECK(shown.text.empty());
}

TEST_CASE("each traceback is counted by itself, with the ranks that had it") {
  Shown shown;
  shown.feed_one(3, "A");
  shown.feed_one(3, "B");
  shown.take();
  shown.feed_one(3, "A");
  for (const int rank : {4, 4, 5}) shown.feed_one(rank, "B");
  CHECK(shown.text.empty());
  shown.finish();
  CHECK(shown.take() ==
        "3: (the traceback that ends with 'A' came 1 more time)\n"
        "3: (the traceback that ends with 'B' came 3 more times, from 3 ranks in "
        "all)\n");
  shown.feed_one(6, "A");  // of another output: shown again
  CHECK_THAT(shown.take(), ContainsSubstring("6: A\n"));
}

TEST_CASE("of a hundred tracebacks each is known again, more are shown whenever they come") {
  Shown shown;
  for (int i = 0; i < 101; ++i) shown.feed_one(0, std::to_string(i));
  shown.take();
  shown.feed_one(1, "99");
  CHECK(shown.text.empty());
  shown.feed_one(1, "100");
  CHECK(shown.take() == "1: " + traceback_begins + "\n1:   File x\n1: 100\n");
}

TEST_CASE("a traceback of 200 lines is shown before its exception comes") {
  Shown shown;
  shown.feed(0, traceback_begins);
  for (int i = 0; i < 198; ++i) shown.feed(0, "  frame");
  CHECK(shown.text.empty());
  shown.feed(0, "  frame");
  CHECK_FALSE(shown.take().empty());
  shown.feed(0, "  frame");
  CHECK(shown.take() == "0:   frame\n");
}

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
