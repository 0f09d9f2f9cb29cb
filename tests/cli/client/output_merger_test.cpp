#include "cli/client/output_merger.h"

#include <algorithm>

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

namespace {

std::string traceback(const std::string& exception) {
  return "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n" +
         exception + "\n";
}

}  // namespace

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
